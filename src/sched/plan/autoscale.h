/* autoscale.h - how many accelerators there should be, from what the load needs and how much of it went badly. Pure.
 *
 * Symphony (arXiv 2308.07470), section 4.4: at bad rate r, allocate N*r/(1-r) more (the paper prints b for r); at idle
 * share f, release N*f. Here the idle share is not measured, for a policy may use idle accelerators for shorter
 * queueing: the accelerators that the load needs are given instead, and a headroom is kept on top of them.
 *
 * Advice changes only for a reason that chance does not give.
 *
 * The load is measured with noise, which is learned from how much it changes from look to look. More are asked for when
 * the load is over what there is, and some are released when it is under it, by more than the noise.
 *
 * Bad requests count if there are so many for so long that more than goodput's 1 % of the last looks must be bad (a
 * cumulative sum: Page, "Continuous inspection schemes", Biometrika 1954), and only while everything that was asked for
 * is there. What they teach, how many accelerators a load needs beside those that it keeps busy, is kept for a day.
 *
 * Accelerators that were wanted within the time that one takes to start are not released, as they could not be had back
 * sooner. Once the advice has settled, none is released unless the load is lower than it was then.
 *
 * The forecast of the load is its last value. */
#pragma once

#include <stdint.h>

#define AUTOSCALE_LOOKS_MAX 64   /* that are remembered */
#define AUTOSCALE_BAD_MOST  0.01 /* a bad rate up to this is goodput */

struct autoscale_config {
    uint32_t min, max; /* accelerators */
    double headroom;   /* share of them to be kept idle, under 1 */
    int64_t every_ns, start_delay_ns;
};

/* What a look sees. */
struct autoscale_seen {
    uint32_t present;       /* accelerators in service */
    double needed;          /* that the load keeps busy, in the mean since the last look */
    uint64_t requests, bad; /* that have ended since the last look */
};

struct autoscale {
    struct autoscale_config config;
    uint32_t looks, wanted;
    /* Of the last looks, in circles. */
    uint32_t remembered; /* how many looks are made while an accelerator starts */
    uint32_t least[AUTOSCALE_LOOKS_MAX];
    double needed[AUTOSCALE_LOOKS_MAX];
    uint32_t learned;     /* looks */
    double noise;         /* of the measured load: its variance, over that of independent arrivals */
    double extra;         /* accelerators that the load was found to need beside those it keeps busy */
    uint32_t extra_looks; /* since it was learned, or forgotten in part */
    uint32_t unchanged;   /* looks since the advice changed, until it counts as settled */
    double settled;       /* the mean load of the last of these */
    /* Since when more than goodput allows has been bad. */
    uint32_t bad_looks;
    uint64_t bad_requests, bad;
};

/* One accelerator at the least, a tenth of them to be kept idle, a look every 10 s, a minute to start. */
struct autoscale_config autoscale_usual(uint32_t max);
void autoscale_init(struct autoscale *autoscale, const struct autoscale_config *config);
/* One look, every `every_ns`. Returns how many accelerators there should be, those that are starting included. The
 * first look begins with as many as are in service then. */
uint32_t autoscale_look(struct autoscale *autoscale, const struct autoscale_seen *seen);
