/* test_pace.c - means and deviations of work. */
#include "core/util/pace.h"
#include "unit/test.h"

TEST(the_first_takes_the_place_of_a_guess) {
    struct pace pace = {.mean_ns = 1000};
    assert_true(pace_promise_ns(&pace) == 1000);
    pace_add(&pace, 40, 1, 1);
    assert_true(pace.measured);
    assert_true(pace.mean_ns == 40);
    assert_true(pace.deviation_ns == 15); /* half of it, and a quarter of the way to none */
}

TEST(promises_follow_both) {
    struct pace steady = {.mean_ns = 1}, shaky = {.mean_ns = 1};
    for (int i = 0; i < 100; i++) {
        pace_add(&steady, 100, 1, i);
        pace_add(&shaky, i % 2 ? 150 : 50, 1, i);
    }
    assert_true(pace_promise_ns(&steady) > 99.9 && pace_promise_ns(&steady) < 100.1);
    assert_true(shaky.mean_ns > 90 && shaky.mean_ns < 110);
    assert_true(pace_promise_ns(&shaky) > 180 && pace_promise_ns(&shaky) < 220);
}

TEST(little_work_counts_little) {
    struct pace pace = {.mean_ns = 100};
    for (int i = 0; i < 10; i++)
        pace_add(&pace, 1000, 0.01, i);
    assert_true(!pace.measured && pace.mean_ns > 100 && pace.mean_ns < 120);
    for (int i = 0; i < 10000; i++) /* where there is no other */
        pace_add(&pace, 1000, 0.01, i);
    assert_true(pace.mean_ns > 990 && pace.mean_ns < 1010);
    pace_add(&pace, 100, 1, 1);
    assert_true(pace.measured && pace.mean_ns == 100);
}

/* A promise that is too long is broken off again and again, and yet corrected; not by how often. */
TEST(what_is_never_measured_is_doubted) {
    struct pace pace = {.mean_ns = 1};
    int64_t now_ns = 0;
    pace_add(&pace, 100, 1, now_ns);
    for (int i = 0; i < 10; i++)
        pace_add(&pace, 10000, 1, now_ns);
    double too_long_ns = pace_promise_ns(&pace);
    for (int i = 0; i < 1000; i++)
        pace_doubt(&pace, i % 2 ? 50 : 0, now_ns + PACE_DOUBT_NS);
    assert_true(pace_promise_ns(&pace) == too_long_ns);
    for (int seconds = 2; seconds < 20; seconds++) {
        double before_ns = pace_promise_ns(&pace);
        for (int i = 0; i < 1000; i++)
            pace_doubt(&pace, 0, now_ns + seconds * (PACE_DOUBT_NS + 1));
        assert_true(pace_promise_ns(&pace) >= before_ns / 2);
    }
    assert_true(pace_promise_ns(&pace) >= 100 && pace_promise_ns(&pace) < 101); /* the least that was measured */
}

TEST(what_was_given_up_takes_longer_than_that) {
    struct pace pace = {.mean_ns = 1};
    pace_add(&pace, 100, 1, 0);
    pace_doubt(&pace, 5000, 1);
    assert_true(pace_promise_ns(&pace) >= 5000);
    pace_doubt(&pace, 0, PACE_DOUBT_NS);
    assert_true(pace_promise_ns(&pace) >= 5000);
}
