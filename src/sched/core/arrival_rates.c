/* arrival_rates.c - arrival estimates by ticks. */
#include "sched/core/arrival_rates.h"

#include "core/util/fmath.h"

#define TICK_S (RATE_TICK_NS / 1e9)
/* what a tick leaves of the sums; the compiler computes it */
#define DECAY_SLOW __builtin_exp(-TICK_S / RATE_SLOW_S)
#define DECAY_FAST __builtin_exp(-TICK_S / RATE_FAST_S)

void arrival_rates_init(struct arrival_rates *rates) {
    *rates = (struct arrival_rates){.tick_end_ns = TIME_NEVER};
}

void arrival_rates_count(struct arrival_rates *rates, int64_t now_ns, uint32_t items, int64_t slo_ns) {
    rates->last_arrival_ns = now_ns;
    if (rates->tick_end_ns == TIME_NEVER) {
        /* The first arrival opens the clock and is not counted: seen from an arrival, only later ones tell the rate. */
        rates->tick_end_ns = now_ns + RATE_TICK_NS;
        return;
    }
    rates->tick_requests++;
    rates->tick_items += items;
    rates->tick_slo_ns += slo_ns > 1 ? slo_ns : 1;
}

/* Multiplies the weighted sums by their decay factors `slow` and `fast`, and adds the new weighted seconds. */
static void rates_decay(struct arrival_rates *rates, double slow, double fast, double seconds_slow,
                        double seconds_fast) {
    rates->items_slow *= slow;
    rates->requests_slow *= slow;
    rates->slo_sum_ns *= slow;
    rates->seconds_slow = rates->seconds_slow * slow + seconds_slow;
    rates->items_fast *= fast;
    rates->requests_fast *= fast;
    rates->seconds_fast = rates->seconds_fast * fast + seconds_fast;
}

void arrival_rates_roll(struct arrival_rates *rates, int64_t now_ns) {
    if (!arrival_rates_due(rates, now_ns))
        return;
    int64_t empty = (now_ns - rates->tick_end_ns) / RATE_TICK_NS;
    rates->tick_end_ns += (empty + 1) * RATE_TICK_NS;

    rates_decay(rates, DECAY_SLOW, DECAY_FAST, TICK_S, TICK_S);
    rates->items_slow += rates->tick_items;
    rates->items_fast += rates->tick_items;
    rates->requests_slow += rates->tick_requests;
    rates->requests_fast += rates->tick_requests;
    rates->slo_sum_ns += (double)rates->tick_slo_ns;
    rates->tick_items = rates->tick_requests = 0;
    rates->tick_slo_ns = 0;

    if (empty > 0) { /* the sums of the geometric series */
        double slow = fmath_exp((double)empty * (-TICK_S / RATE_SLOW_S));
        double fast = fmath_exp((double)empty * (-TICK_S / RATE_FAST_S));
        rates_decay(rates, slow, fast, TICK_S * (1 - slow) / (1 - DECAY_SLOW), TICK_S * (1 - fast) / (1 - DECAY_FAST));
    }
}

double arrival_rates_slow(const struct arrival_rates *rates) {
    return rates->seconds_slow > 0 ? rates->items_slow / rates->seconds_slow : 0;
}

double arrival_rates_fast(const struct arrival_rates *rates) {
    return rates->seconds_fast > 0 ? rates->items_fast / rates->seconds_fast : 0;
}

double arrival_rates_slo_ns(const struct arrival_rates *rates, double otherwise) {
    return rates->requests_slow > 1e-3 ? rates->slo_sum_ns / rates->requests_slow : otherwise;
}
