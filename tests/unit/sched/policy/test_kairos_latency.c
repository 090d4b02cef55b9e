/* test_kairos_latency.c - what is expected of a query's latency, after runs given by hand. */
#include <stdlib.h>

#include "sched/policy/kairos_latency.h"
#include "unit/test.h"

#define ITEMS_MAX 100

static struct kairos_latency *latency_new(const struct profile *profile) {
    struct kairos_latency *latency = malloc(kairos_latency_bytes(ITEMS_MAX));
    assert_non_null(latency);
    kairos_latency_init(latency, ITEMS_MAX, profile);
    return latency;
}

TEST(from_nothing_a_line_is_found_before_a_table) {
    struct kairos_latency *latency = latency_new(NULL);
    assert_int_equal(kairos_latency_ns(latency, 10), 0); /* nothing is known */
    kairos_latency_add(latency, 10, 200);
    assert_int_equal(kairos_latency_ns(latency, 10), 200);
    assert_int_equal(kairos_latency_ns(latency, 90), 200); /* one size tells of no other */
    kairos_latency_add(latency, 20, 300);
    assert_int_equal(kairos_latency_ns(latency, 50), 600); /* 10 an item, 100 each time */
    assert_int_equal(kairos_latency_ns(latency, 10), 200);
    kairos_latency_add(latency, 10, 230);
    kairos_latency_add(latency, 10, 260); /* a size seen three times has a mean of its own */
    assert_int_equal(kairos_latency_ns(latency, 10), 230);
    free(latency);
}

TEST(a_line_that_falls_is_not_believed) {
    struct kairos_latency *latency = latency_new(NULL);
    kairos_latency_add(latency, 10, 300);
    kairos_latency_add(latency, 20, 100);
    assert_int_equal(kairos_latency_ns(latency, 100), 200); /* the mean; the line says -1500 */
    free(latency);
}

TEST(a_profile_counts_until_runs_say_otherwise) {
    struct profile *profile = malloc(profile_bytes(ITEMS_MAX));
    assert_non_null(profile);
    profile_set_line(profile, ITEMS_MAX, 1000, 0);
    struct kairos_latency *latency = latency_new(profile);
    assert_int_equal(kairos_latency_ns(latency, 7), 7000);
    kairos_latency_add(latency, 7, 11000); /* as if it had been seen three times before */
    assert_int_equal(kairos_latency_ns(latency, 7), 8000);
    assert_int_equal(kairos_latency_ns(latency, 8), 8000);
    for (int i = 0; i < 200; i++)
        kairos_latency_add(latency, 7, 11000);
    assert_in_range(kairos_latency_ns(latency, 7), 10980, 11000);

    kairos_latency_relax(latency, 7); /* half of what it is over the profile */
    assert_in_range(kairos_latency_ns(latency, 7), 8990, 9000);
    for (int i = 0; i < 20; i++)
        kairos_latency_relax(latency, 7);
    assert_int_equal(kairos_latency_ns(latency, 7), 7000);
    kairos_latency_relax(latency, 7);
    assert_int_equal(kairos_latency_ns(latency, 7), 7000);
    free(latency);
    free(profile);
}

TEST(the_line_follows_a_change) {
    struct kairos_latency *latency = latency_new(NULL);
    for (int i = 0; i < 1000; i++)
        kairos_latency_add(latency, 10 + i % 2 * 10, 1000 + i % 2 * 1000); /* 100 an item */
    assert_in_range(kairos_latency_ns(latency, 50), 4999, 5000);
    for (int i = 0; i < 5000; i++)
        kairos_latency_add(latency, 10 + i % 2 * 10, 2000 + i % 2 * 2000); /* twice as slow */
    assert_in_range(kairos_latency_ns(latency, 50), 9900, 10000);
    free(latency);
}
