/* test_goodput_search.c - the search finds the edge, wherever it starts, and believes no single failure. */
#include "unit/test.h"

#include "core/util/container.h"
#include "core/util/rng.h"
#include "lab/load/goodput_search.h"

/* Searches where every rate up to `edge` holds; how many trials it took. */
static int edge_search(struct goodput_search *s, double start, double edge, double precision) {
    int trials = 0;
    goodput_search_init(s, start, 0.2, 1e6, precision);
    while (!s->done) {
        assert_true(s->rate_rps >= 0.2 && s->rate_rps <= 1e6);
        goodput_search_report(s, s->rate_rps <= edge);
        assert_true(++trials < 200);
    }
    return trials;
}

TEST(the_edge_is_found_from_anywhere) {
    static const double starts[] = {1, 50, 1000, 1300, 70000}, edges[] = {3, 103.7, 1000, 54321};
    for (size_t i = 0; i < ARRAY_COUNT(starts); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(edges); j++) {
            struct goodput_search s;
            edge_search(&s, starts[i], edges[j], 0.02);
            assert_true(s.held_rps <= edges[j]);
            assert_true(s.held_rps * 1.02 >= edges[j]);
        }
    }
}

TEST(a_good_start_takes_few_trials) {
    struct goodput_search s;
    assert_true(edge_search(&s, 70, 100, 0.02) <= 14);
}

TEST(one_failure_is_repeated_and_forgiven) {
    struct goodput_search s;
    goodput_search_init(&s, 100, 1, 1e6, 0.02);
    goodput_search_report(&s, false);
    assert_true(s.rate_rps == 100.0);
    assert_true(s.failed_rps == 0.0);
    goodput_search_report(&s, true);
    assert_true(s.held_rps == 100.0);
    assert_true(s.rate_rps > 100.0);
    /* and the next failure is again the first of its rate */
    double rate = s.rate_rps;
    goodput_search_report(&s, false);
    assert_true(s.rate_rps == rate && s.failed_rps == 0.0);
    goodput_search_report(&s, false);
    assert_true(s.failed_rps == rate && s.rate_rps < rate);
}

/* Something else kept the machine busy while 1120 was tried: it is tried again once everything below has held. */
TEST(a_false_bound_is_found_out) {
    struct goodput_search s;
    int trials = 0;
    goodput_search_init(&s, 700, 1, 1e6, 0.02);
    for (; !s.done; trials++)
        goodput_search_report(&s, s.rate_rps <= 1500 && !(trials == 1 || trials == 2));
    assert_true(s.held_rps <= 1500 && s.held_rps * 1.02 >= 1500);
    /* a true bound is tried again once, not for ever */
    goodput_search_init(&s, 700, 1, 1e6, 0.02);
    for (trials = 0; !s.done; trials++)
        goodput_search_report(&s, s.rate_rps < 1119);
    assert_true(s.held_rps < 1119 && s.held_rps * 1.02 >= 1119);
    assert_true(trials <= 11);
}

/* One trial in ten fails for no reason: twice in a row is rare enough that the result stays near. */
TEST(noise_does_not_mislead_much) {
    struct rng rng;
    rng_seed(&rng, 5);
    int near = 0;
    for (int n = 0; n < 200; n++) {
        struct goodput_search s;
        goodput_search_init(&s, 700, 1, 1e6, 0.02);
        while (!s.done)
            goodput_search_report(&s, s.rate_rps <= 1000 && rng_below(&rng, 10) != 0);
        assert_true(s.held_rps <= 1000);
        near += s.held_rps >= 970;
    }
    assert_true(near >= 190);
}

TEST(limits_end_the_search) {
    struct goodput_search s;
    goodput_search_init(&s, 10, 5, 40, 0.02);
    while (!s.done)
        goodput_search_report(&s, true);
    assert_true(s.held_rps == 40.0);
    goodput_search_init(&s, 10, 5, 40, 0.02);
    while (!s.done)
        goodput_search_report(&s, false);
    assert_true(s.held_rps == 0.0);
}
