/* test_arrival_rates.c - rates by ticks, against what is known of the arrivals fed in. */
#include "sched/core/arrival_rates.h"
#include "unit/assert_near.h"
#include "unit/test.h"

#define SLO_NS 25000000

static void arrive(struct arrival_rates *rates, int64_t now_ns, uint32_t items) {
    arrival_rates_roll(rates, now_ns);
    arrival_rates_count(rates, now_ns, items, SLO_NS);
}

/* Constant gaps from `from_ns` on; returns the time after the last. */
static int64_t constant(struct arrival_rates *rates, int64_t from_ns, int64_t gap_ns, int count, uint32_t items) {
    for (int i = 0; i < count; i++, from_ns += gap_ns)
        arrive(rates, from_ns, items);
    return from_ns;
}

TEST(nothing_is_known_at_first) {
    struct arrival_rates rates;
    arrival_rates_init(&rates);
    assert_false(arrival_rates_due(&rates, INT64_MAX - 1));
    assert_near(arrival_rates_slow(&rates), 0, 1e-12);
    assert_near(arrival_rates_fast(&rates), 0, 1e-12);
    assert_near(arrival_rates_slo_ns(&rates, 7), 7, 1e-12);
    arrive(&rates, 5, 1); /* one arrival says nothing of the rate */
    arrival_rates_roll(&rates, NS_PER_S);
    assert_near(arrival_rates_slow(&rates), 0, 1e-12);
}

/* Weights divided by 2 s from the start would say 0.5 % of the rate after the first tick, and 22 % after half a second.
 */
TEST(the_start_is_not_underestimated) {
    struct arrival_rates rates;
    arrival_rates_init(&rates);
    int64_t now = constant(&rates, 1000, NS_PER_MS, 31, 2);
    assert_near(arrival_rates_slow(&rates), 2000, 80);
    now = constant(&rates, now, NS_PER_MS, 500, 2);
    assert_near(arrival_rates_slow(&rates), 2000, 20);
    assert_near(arrival_rates_fast(&rates), 2000, 20);
    assert_near(arrival_rates_slo_ns(&rates, 0), SLO_NS, 1);
    assert_near(rates.requests_fast, 100, 10); /* weighted over 0.1 s */
}

TEST(a_step_is_followed_with_the_time_constants) {
    struct arrival_rates rates;
    arrival_rates_init(&rates);
    int64_t now = constant(&rates, 0, NS_PER_MS, 20000, 1); /* 20 s at 1000/s */
    now = constant(&rates, now, NS_PER_MS / 4, 400, 1);     /* 0.1 s at 4000/s */
    arrival_rates_roll(&rates, now);
    assert_near(arrival_rates_fast(&rates), 1000 + 3000 * (1 - 0.3679), 120);
    assert_near(arrival_rates_slow(&rates), 1000 + 3000 * (1 - 0.9512), 30);
}

/* Empty ticks in closed form are the same as one by one. */
TEST(silence_decays_in_closed_form) {
    struct arrival_rates one, many;
    arrival_rates_init(&one);
    int64_t now = constant(&one, 0, NS_PER_MS, 3000, 3);
    many = one;
    for (int i = 1; i <= 700; i++)
        arrival_rates_roll(&many, now + i * RATE_TICK_NS);
    arrival_rates_roll(&one, now + 700 * RATE_TICK_NS);
    assert_int_equal(one.tick_end_ns, many.tick_end_ns);
    assert_near(arrival_rates_slow(&one) / arrival_rates_slow(&many), 1, 1e-9);
    assert_near(arrival_rates_fast(&one) / arrival_rates_fast(&many), 1, 1e-9);
    /* 3 s of 3000/s, 7 s ago: 3000 * (1 - exp(-1.5)) * exp(-3.5) / (1 - exp(-5)) */
    assert_near(arrival_rates_slow(&one), 70.8, 1);
    arrival_rates_roll(&one, now + NS_PER_S * 86400 * 30); /* a month */
    assert_near(arrival_rates_slow(&one), 0, 1e-12);
    constant(&one, now + NS_PER_S * 86400 * 30, NS_PER_MS, 1000, 1);
    assert_true(arrival_rates_slow(&one) > 300); /* and it comes back */
}
