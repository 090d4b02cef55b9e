/* test_clock.c - a skewed clock, and sleeping until its times. */
#include "core/system/clock.h"

#include <errno.h>
#include <math.h>

#include "core/system/doorbell.h"
#include "core/util/container.h"
#include "unit/test.h"

#define YEAR_NS (365 * 86400 * NS_PER_S)

static int unskewed(void **state) {
    (void)state;
    clock_skew = (struct clock_skew){0};
    return 0;
}

static int64_t ns_of(struct timespec ts) {
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

TEST_WITH(unset_it_is_the_kernels, unskewed, NULL) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    int64_t now_ns = clock_now_ns();
    assert_true(now_ns >= ns_of(ts));
    ts = clock_sleep_end(12 * NS_PER_S + 34);
    assert_int_equal(ts.tv_sec, 12);
    assert_int_equal(ts.tv_nsec, 34);
}

TEST_WITH(it_is_ahead_and_gains, unskewed, NULL) {
    clock_skew = (struct clock_skew){true, 1000 * NS_PER_S, 3600 * NS_PER_S, 200e-6};
    assert_int_equal(clock_skewed_ns(1000 * NS_PER_S), 4600 * NS_PER_S);
    assert_int_equal(clock_skewed_ns(1010 * NS_PER_S), 4610 * NS_PER_S + 2 * NS_PER_MS);
    clock_skew = (struct clock_skew){true, 1000 * NS_PER_S, -500 * NS_PER_S, -100e-6};
    assert_int_equal(clock_skewed_ns(1010 * NS_PER_S), 510 * NS_PER_S - NS_PER_MS);
}

/* Whoever sleeps until the time that comes out finds that his own has come, and hardly more than that. */
TEST_WITH(times_are_turned_back, unskewed, NULL) {
    static const int64_t offsets_ns[] = {0, 3600 * NS_PER_S, -1800 * NS_PER_S, 30 * YEAR_NS};
    static const double ppm[] = {0, 200, -200, 0.01, 1e5, -1e5};
    static const int64_t after_ns[] = {-NS_PER_S, 0, 1, 999, NS_PER_MS + 7, 10 * NS_PER_S, 86400 * NS_PER_S, YEAR_NS};
    for (size_t i = 0; i < ARRAY_COUNT(offsets_ns); i++)
        for (size_t j = 0; j < ARRAY_COUNT(ppm); j++)
            for (size_t k = 0; k < ARRAY_COUNT(after_ns); k++) {
                clock_skew = (struct clock_skew){true, 4000 * NS_PER_S, offsets_ns[i], ppm[j] * 1e-6};
                int64_t time_ns = clock_skewed_ns(4000 * NS_PER_S) + after_ns[k];
                int64_t kernel_ns = clock_kernel_ns(time_ns);
                assert_int_equal(ns_of(clock_sleep_end(time_ns)), kernel_ns);
                assert_in_range(clock_skewed_ns(kernel_ns) - time_ns, 0, 10);
            }
}

TEST_WITH(what_is_no_time_stays, unskewed, NULL) {
    static const int64_t marks[] = {TIME_NEVER, INT64_MIN, 0, -1};
    clock_skew = (struct clock_skew){true, NS_PER_S, 3600 * NS_PER_S, 200e-6};
    for (size_t i = 0; i < ARRAY_COUNT(marks); i++)
        assert_int_equal(clock_kernel_ns(marks[i]), marks[i]);
    assert_int_equal(clock_kernel_ns(60 * NS_PER_S), 0); /* before the kernel's clock began */
    clock_kernel_ns(99 * YEAR_NS);                       /* nothing overflows */
}

TEST_WITH(what_cannot_be_is_refused, unskewed, NULL) {
    int64_t now_ns = clock_now_ns();
    assert_int_equal(clock_skew_set(31 * YEAR_NS, 0), -EINVAL);
    assert_int_equal(clock_skew_set(-now_ns - 3600 * NS_PER_S, 0), -EINVAL);
    assert_int_equal(clock_skew_set(INT64_MIN, 0), -EINVAL);
    assert_int_equal(clock_skew_set(0, 2e5), -EINVAL);
    assert_int_equal(clock_skew_set(0, NAN), -EINVAL);
    assert_false(clock_skew.set);
    assert_int_equal(clock_skew_set(3600 * NS_PER_S, 200), 0);
    assert_true(clock_now_ns() >= now_ns + 3600 * NS_PER_S);
    assert_int_equal(clock_skew_set(0, 0), 0);
    assert_true(clock_now_ns() >= now_ns);
}

/* Were its end not turned, this sleep would take an hour, or would not happen. */
TEST_WITH(a_sleep_ends_when_it_is_due, unskewed, NULL) {
    static const int64_t offsets_ns[] = {3600 * NS_PER_S, -NS_PER_S / 2};
    for (size_t i = 0; i < ARRAY_COUNT(offsets_ns); i++) {
        struct doorbell bell;
        assert_int_equal(clock_skew_set(offsets_ns[i], 200), 0);
        assert_int_equal(doorbell_init(&bell, false, false), 0);
        int64_t until_ns = clock_now_ns() + 5 * NS_PER_MS;
        doorbell_arm(&bell);
        doorbell_sleep(&bell, until_ns);
        assert_true(clock_now_ns() >= until_ns);
        doorbell_destroy(&bell);
    }
}
