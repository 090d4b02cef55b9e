/* test_autoscale.c - looks at the load, worked by hand; and loads drawn from seeds. */
#include "sched/plan/autoscale.h"

#include <math.h>

#include "core/util/rng.h"
#include "core/util/time.h"
#include "unit/test.h"

static struct autoscale make(double headroom, int64_t start_delay_s) {
    struct autoscale a;
    autoscale_init(&a, &(struct autoscale_config){.min = 4,
                                                  .max = 100,
                                                  .headroom = headroom,
                                                  .every_ns = 10 * NS_PER_S,
                                                  .start_delay_ns = start_delay_s * NS_PER_S});
    return a;
}

/* A look without noise: no requests are counted. */
static uint32_t look(struct autoscale *a, uint32_t asked, double needed) {
    return autoscale_look(a, &(struct autoscale_seen){.present = asked, .needed = needed});
}

TEST(test_what_is_needed_and_the_headroom) {
    static const struct {
        double needed, headroom;
        uint32_t wanted;
    } cases[] = {
        {0, 0.1, 4},   {3.2, 0.1, 4}, {9, 0.1, 10},   {9.01, 0.1, 11}, {9.01, 0, 10},
        {10, 0.5, 20}, {89, 0.1, 99}, {91, 0.1, 100}, {1e9, 0.1, 100}, {-1, 0.1, 4},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint32_t asked = 4; asked <= 100; asked += 32) {
            struct autoscale a = make(cases[i].headroom, 0);
            assert_int_equal(look(&a, asked, cases[i].needed), cases[i].wanted);
        }
}

TEST(test_noise_changes_nothing) {
    struct autoscale a = make(0, 0);
    struct autoscale_seen seen = {.present = 20, .needed = 20.7, .requests = 10000}; /* 5 * 0.207 */
    assert_int_equal(autoscale_look(&a, &seen), 20);
    seen.needed = 18.4;
    assert_int_equal(autoscale_look(&a, &seen), 20);
    seen.needed = 30;
    assert_int_equal(autoscale_look(&a, &seen), 30);
    seen.needed = 15;
    assert_int_equal(autoscale_look(&a, &seen), 16); /* 15, and 5 * 0.15 */
}

TEST(test_bad_requests_that_chance_does_not_explain) {
    struct autoscale a = make(0.1, 0);
    struct autoscale_seen seen = {.present = 20, .needed = 18, .requests = 1000000, .bad = 10000};
    for (int i = 0; i < 100; i++)
        assert_int_equal(autoscale_look(&a, &seen), 20); /* goodput: nothing */
    seen.bad = 30000; /* two per cent too many, for three looks: as many as six looks may have */
    for (int i = 0; i < 3; i++)
        assert_int_equal(autoscale_look(&a, &seen), 20);
    assert_int_equal(autoscale_look(&a, &seen), 21); /* 20 + 20 * 0.03 / 0.97 */
    for (int i = 0; i < 100; i++)
        assert_int_equal(autoscale_look(&a, &seen), 21); /* until those that were asked for are there */
    seen.present = 21;
    seen.bad = 200000;
    assert_int_equal(autoscale_look(&a, &seen), 27); /* 21 + 21 * 0.2 / 0.8 = 26.25, at once */
    seen.present = 27;
    seen.bad = 0;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(autoscale_look(&a, &seen), 27); /* what was learned stays */
    seen.needed = 4.5;                                   /* at most as many again */
    seen.present = autoscale_look(&a, &seen);
    for (int i = 0; i < 100; i++)
        seen.present = autoscale_look(&a, &seen);
    assert_int_equal(seen.present, 10); /* 4.5 + 4.5, and noise */
    seen.bad = 1000000;
    assert_int_equal(autoscale_look(&a, &seen), 20); /* likewise */
}

TEST(test_a_surge_adds_its_share) {
    struct autoscale a = make(0.1, 0);
    struct autoscale_seen seen = {.present = 20, .needed = 18, .requests = 1000000};
    assert_int_equal(autoscale_look(&a, &seen), 20);
    seen.needed = 22;
    seen.bad = 500000; /* so the load was more at the end of the look */
    assert_int_equal(autoscale_look(&a, &seen), 40);
}

TEST(test_release_waits_as_long_as_a_start_takes) {
    struct autoscale a = make(0, 30);       /* four looks back */
    assert_int_equal(look(&a, 50, 20), 50); /* nothing is known of the time before */
    assert_int_equal(look(&a, 50, 30), 50);
    assert_int_equal(look(&a, 50, 10), 50);
    assert_int_equal(look(&a, 50, 10), 30);
    assert_int_equal(look(&a, 30, 10), 30);
    assert_int_equal(look(&a, 30, 10), 10);
    assert_int_equal(look(&a, 10, 60), 60); /* more at once */
}

/* 9.9 to 10 accelerators, known within 0.5 to begin with: 11 are wanted. Later the noise is less, and known to be. */
TEST(test_a_settled_advice_is_left_alone) {
    struct autoscale a = make(0, 30);
    struct autoscale_seen seen = {.present = 11, .requests = 10000};
    for (int i = 0; i < 3000; i++) {
        seen.needed = i >= 60 ? 9.95 : i % 2 ? 10 : 9.9;
        assert_int_equal(autoscale_look(&a, &seen), 11);
    }
    for (int i = 0; i < 3; i++) {
        seen.needed = 9.5; /* that is less */
        assert_int_equal(autoscale_look(&a, &seen), 11);
    }
    assert_int_equal(autoscale_look(&a, &seen), 10);
}

/* A start may take longer than advice takes to settle; and there may be no load at all. */
TEST(test_what_is_too_much_from_the_start_is_released) {
    static const int64_t delays_s[] = {0, 60, 300, 600, 6000};
    for (size_t i = 0; i < sizeof(delays_s) / sizeof(delays_s[0]); i++)
        for (uint64_t requests = 0; requests <= 1000000; requests += 1000000) {
            struct autoscale a = make(0.1, delays_s[i]);
            struct autoscale_seen seen = {.present = 30, .needed = requests ? 5.0 : 0, .requests = requests};
            uint32_t wanted = 0;
            for (int look = 0; look < 70; look++)
                wanted = autoscale_look(&a, &seen);
            assert_int_equal(wanted, requests ? 6 : 4);
        }
}

/* About normal: with no more than `sigma * 4` to either side. */
static double noise(struct rng *rng, double sigma) {
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += rng_uniform(rng);
    return sigma * (sum - 6);
}

/* Steady loads of any size, as looks see them: in the ten hours after the first hardly any has its advice changed. */
TEST(test_steady_loads_settle) {
    uint32_t changes = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct rng rng;
        rng_seed(&rng, seed);
        struct autoscale a;
        struct autoscale_config config = {.min = 1,
                                          .max = 1000,
                                          .headroom = 0.3 * rng_uniform(&rng),
                                          .every_ns = 10 * NS_PER_S,
                                          .start_delay_ns = (int64_t)(100 * rng_uniform(&rng)) * NS_PER_S};
        double load = pow(10, 3 * rng_uniform(&rng)), requests = load * pow(10, 2 + 3 * rng_uniform(&rng));
        double sigma = load / sqrt(requests) * (0.5 + 3 * rng_uniform(&rng)); /* arrivals may be burstier */
        uint32_t asked = 1 + (uint32_t)(1000 * rng_uniform(&rng));
        autoscale_init(&a, &config);
        for (int i = 0; i < 360 + 3600; i++) {
            uint32_t before = asked;
            struct autoscale_seen seen = {
                .present = asked, .needed = load + noise(&rng, sigma), .requests = (uint64_t)requests};
            asked = autoscale_look(&a, &seen);
            changes += i >= 360 && asked != before;
        }
        assert_true(asked + 1 + 4 * sigma > load && asked <= 1000);
        assert_true(asked == 1000 || asked < (load + 16 * sigma) / (1 - config.headroom) + 2);
    }
    assert_true(changes <= 30); /* in ten thousand hours */
}
