/* autoscale.h - how many accelerators there should be, from what the load needs and how much of it went badly. Pure.
 *
 * Symphony (arXiv 2308.07470), section 4.4: at bad rate r, allocate N*r/(1-r) more (the paper prints b for r); at idle
 * share f, release N*f. Here the idle share is not measured, for a policy may use idle accelerators for shorter
 * queueing: the accelerators that the load needs are given instead, and a headroom is kept on top of them.
 *
 * Advice changes only for a reason that chance does not give.
 *
 * The load is measured with noise. The noise is learned from how much the load changes from look to look. More
 * accelerators are asked for when the load needs more than there are, and some are released when it needs fewer, by
 * more than the noise.
 *
 * Bad requests count if there are so many for so long that more than goodput's 1 % of the last looks must be bad (a
 * cumulative sum: Page, "Continuous inspection schemes", Biometrika 1954), and only while all accelerators that were
 * asked for are there. From bad requests it is learned how many accelerators a load needs besides those that it keeps
 * busy. Half of that is forgotten a day later.
 *
 * Accelerators that were wanted within the time that an accelerator takes to start are not released, as they could not
 * be had back sooner. Once the advice has settled, none is released unless the load is lower than it was then.
 *
 * The forecast of the load is its last value. */
#pragma once

#include <stdint.h>

#define AUTOSCALE_LOOKS_MAX 64   /* looks that are remembered, at most */
#define AUTOSCALE_BAD_MOST  0.01 /* a bad rate up to this is goodput */

struct autoscale_config {
    uint32_t min, max;                /* accelerators at least, at most */
    double headroom;                  /* share of the accelerators to be kept idle, under 1 */
    int64_t every_ns, start_delay_ns; /* time between looks; time that an accelerator takes to start */
};

/* What a look sees. */
struct autoscale_seen {
    uint32_t present;       /* accelerators in service */
    double needed;          /* accelerators that the load keeps busy, mean since the last look */
    uint64_t requests, bad; /* requests that have ended since the last look; bad ones among them */
};

struct autoscale {
    struct autoscale_config config;
    uint32_t looks, wanted;              /* looks so far; accelerators that there should be, by the last one */
    uint32_t remembered;                 /* looks that are made while an accelerator starts */
    uint32_t least[AUTOSCALE_LOOKS_MAX]; /* [remembered] accelerators that each look asked for at least, in a circle */
    double needed[AUTOSCALE_LOOKS_MAX];  /* accelerators that the load kept busy at each look, in a circle */
    uint32_t learned;                    /* looks from which the noise was learned */
    double noise;                        /* variance of the measured load, divided by that of independent arrivals */
    double extra;         /* accelerators that the load was found to need besides those that it keeps busy */
    uint32_t extra_looks; /* looks since `extra` was learned or halved */
    uint32_t unchanged;   /* looks since the advice changed, up to the number at which it counts as settled */
    double settled;       /* mean load of those looks since the advice changed that came after a start's time */
    /* Sums over the looks since which more requests have been bad than goodput allows. */
    uint32_t bad_looks;
    uint64_t bad_requests, bad;
};

/* The usual settings: at least one accelerator, a tenth kept idle, a look every 10 s, a minute to start. */
struct autoscale_config autoscale_usual(uint32_t max);
void autoscale_init(struct autoscale *autoscale, const struct autoscale_config *config);
/* One look; called every `every_ns`. Returns how many accelerators there should be, including those that are starting.
 * The first look begins with the number that is in service. */
uint32_t autoscale_look(struct autoscale *autoscale, const struct autoscale_seen *seen);
