/* pace.h - how long a piece of work takes: the running mean and the mean deviation from it, with the weights of RFC
 * 6298 (2.3). Pure; whoever shares one locks it. */
#pragma once

#include <stdbool.h>

struct pace {
    double mean_ns, deviation_ns; /* mean_ns may be set to a guess */
    bool measured;
};

#define PACE_MEAN_WEIGHT      (1.0 / 8)
#define PACE_DEVIATION_WEIGHT (1.0 / 4)
#define PACE_DEVIATIONS       2

static inline void pace_add(struct pace *pace, double ns) {
    if (!pace->measured)
        *pace = (struct pace){ns, ns / 2, true};
    double off_ns = ns - pace->mean_ns;
    pace->deviation_ns += ((off_ns < 0 ? -off_ns : off_ns) - pace->deviation_ns) * PACE_DEVIATION_WEIGHT;
    pace->mean_ns += off_ns * PACE_MEAN_WEIGHT;
}

/* What to promise: somewhat longer than the mean, so that it is mostly kept. */
static inline double pace_promise_ns(const struct pace *pace) {
    return pace->mean_ns + PACE_DEVIATIONS * pace->deviation_ns;
}
