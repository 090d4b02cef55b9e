/* arrival_rates.h - how fast one model's requests come, by exponentially weighted estimates.
 *
 * An arrival is only counted. The weighted sums decay once per tick of 10 ms, and for many empty ticks at once. A rate
 * is a weighted sum divided by the weighted time since the first arrival, so the rate of the first seconds is not
 * underestimated. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/time.h"

#define RATE_TICK_NS (10 * NS_PER_MS)
#define RATE_SLOW_S  2.0
#define RATE_FAST_S  0.1

struct arrival_rates {
    int64_t tick_end_ns; /* end of the present tick; TIME_NEVER: nothing has arrived yet */
    int64_t last_arrival_ns;
    /* sums of the present tick */
    uint32_t tick_requests, tick_items;
    int64_t tick_slo_ns;
    /* sums of the ticks that are over, weighted over 2 s */
    double seconds_slow, items_slow, requests_slow, slo_sum_ns;
    /* sums of the ticks that are over, weighted over 0.1 s */
    double seconds_fast, items_fast, requests_fast;
};

void arrival_rates_init(struct arrival_rates *rates);
/* Counts an arrival; the caller first calls arrival_rates_roll() if arrival_rates_due(). `slo_ns` is the time from
 * arrival to deadline. A `slo_ns` that is not positive (policies that are blind to deadlines take such requests too)
 * counts as 1 ns, because callers divide by the mean SLO. */
void arrival_rates_count(struct arrival_rates *rates, int64_t now_ns, uint32_t items, int64_t slo_ns);
/* Adds the ticks that have ended by now_ns to the weighted sums. */
void arrival_rates_roll(struct arrival_rates *rates, int64_t now_ns);

static inline bool arrival_rates_due(const struct arrival_rates *rates, int64_t now_ns) {
    return now_ns >= rates->tick_end_ns;
}

/* Items per second over 2 s and over 0.1 s; 0 until the first tick is over. */
double arrival_rates_slow(const struct arrival_rates *rates);
double arrival_rates_fast(const struct arrival_rates *rates);
/* Mean time from arrival to deadline; `otherwise` while nothing is known. */
double arrival_rates_slo_ns(const struct arrival_rates *rates, double otherwise);
