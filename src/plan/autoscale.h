/* autoscale.h - how many accelerators there should be, from what the load needs and how much of it went badly. Pure.
 *
 * Symphony (arXiv 2308.07470), section 4.4: at bad rate r, allocate N*r/(1-r) more (the paper prints b for r); at idle
 * share f, release N*f. Here the idle share is not measured, for a policy may use idle accelerators for shorter
 * queueing: the accelerators that the load needs are given instead, and a headroom is kept on top of them. Accelerators
 * that were wanted within the time that one takes to start are not released, as they could not be had back sooner. */
#pragma once

#include <stdint.h>

#define AUTOSCALE_LOOKS_MAX 64   /* that are remembered */
#define AUTOSCALE_BAD_LEAST 0.01 /* a bad rate up to this is goodput */

struct autoscale_config {
    uint32_t min, max; /* accelerators */
    double headroom;   /* share of them to be kept idle, under 1 */
    int64_t every_ns, start_delay_ns;
};

struct autoscale {
    struct autoscale_config config;
    uint32_t wanted[AUTOSCALE_LOOKS_MAX]; /* a circle */
    uint32_t looks, remembered;
};

void autoscale_init(struct autoscale *autoscale, const struct autoscale_config *config);
/* One look, every `every_ns`. `present`: in service; `asked`: with those that are starting; `needed`: that the load
 * keeps busy; `bad_rate`: of the requests since the last look. Returns how many there should be. */
uint32_t autoscale_look(struct autoscale *autoscale, uint32_t present, uint32_t asked, double needed, double bad_rate);
