/* load_time.h - how long a load of a model is expected to take: as its loads took, or until it has been loaded as is
 * configured, times how long other models' first loads took for what was configured. For rank cores and central
 * policies. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LOAD_WEIGHT (1.0 / 16) /* of the newest load in means of what they took */

struct load_time {
    int64_t stated_ns; /* as configured */
    int64_t took_ns;   /* mean time that the model's loads took; 0: it has not been loaded yet */
};

/* `pace`: mean of models' first loads, their time divided by the configured time; 1 at first. */
static inline int64_t load_time_expected(const struct load_time *load, double pace) {
    return load->took_ns ? load->took_ns : (int64_t)((double)load->stated_ns * pace);
}

/* A load took took_ns; 0: the model was there. One that took much less than before is what the next one is expected to
 * take: the model had been kept open without its weights (executor_loader.c), as it will be again. */
static inline void load_time_learn(struct load_time *load, double *pace, int64_t took_ns) {
    if (took_ns <= 0)
        return;
    if (load->stated_ns > 0 && load->took_ns == 0)
        *pace += LOAD_WEIGHT * ((double)took_ns / (double)load->stated_ns - *pace);
    if (load->took_ns == 0 || 2 * took_ns < load->took_ns)
        load->took_ns = took_ns;
    else
        load->took_ns += (int64_t)(LOAD_WEIGHT * (double)(took_ns - load->took_ns));
}
