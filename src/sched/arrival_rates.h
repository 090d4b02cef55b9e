/* arrival_rates.h - how fast one model's requests come, by exponentially weighted estimates, and how bursty.
 *
 * Counting is all that an arrival costs: the weights decay once per tick of 10 ms, empty ticks in closed form. Weights
 * are divided by the time really seen, so that the first seconds are not underestimated. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define RATE_TICK_NS     (10 * NS_PER_MS)
#define RATE_SLOW_S      2.0
#define RATE_FAST_S      0.1
#define GAP_BINS         28 /* gaps in [0, 1 us), then powers of two up to over a minute */
#define GAP_BIN_FIRST_NS 1024LL

struct arrival_rates {
    int64_t tick_end_ns; /* TIME_NEVER before the first arrival */
    int64_t last_arrival_ns;
    /* in this tick */
    uint32_t tick_requests, tick_items;
    int64_t tick_slo_ns;
    /* weighted over 2 s */
    double seconds_slow, items_slow, requests_slow, slo_sum_ns;
    /* weighted over 0.1 s */
    double seconds_fast, items_fast, requests_fast;
    struct gap_bin {
        double ended, inside_ns;
    } gaps[GAP_BINS]; /* between arrivals, by length, weighted over 2 s: how many ended in the bin, time they spent in
                         it */
};

void arrival_rates_init(struct arrival_rates *rates);
/* Counts an arrival; arrival_rates_roll() first if its tick is over. */
void arrival_rates_count(struct arrival_rates *rates, int64_t now_ns, uint32_t items, int64_t slo_ns);
/* Closes the ticks that ended by now. */
void arrival_rates_roll(struct arrival_rates *rates, int64_t now_ns);

static inline bool arrival_rates_due(const struct arrival_rates *rates, int64_t now_ns) {
    return now_ns >= rates->tick_end_ns;
}

/* Items per second over 2 s and over 0.1 s; 0 until the first tick is over. */
double arrival_rates_slow(const struct arrival_rates *rates);
double arrival_rates_fast(const struct arrival_rates *rates);
/* Mean time between arrival and deadline; `otherwise` while nothing is known. */
double arrival_rates_slo_ns(const struct arrival_rates *rates, double otherwise);

/* Start of a bin of gaps. */
static inline int64_t gap_bin_start(uint32_t bin) {
    return bin == 0 ? 0 : GAP_BIN_FIRST_NS << (bin - 1);
}

static inline uint32_t gap_bin_of(int64_t gap_ns) {
    if (gap_ns < GAP_BIN_FIRST_NS)
        return 0;
    uint32_t bin = 64 - (uint32_t)__builtin_clzll((uint64_t)(gap_ns / GAP_BIN_FIRST_NS));
    return bin < GAP_BINS ? bin : GAP_BINS - 1;
}

/* The hazard h for every bin: items to be expected per nanosecond, given that the last arrival was that long ago. */
void arrival_rates_hazard(const struct arrival_rates *rates, double items_per_ns[GAP_BINS]);
