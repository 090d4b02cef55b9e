/* test_profile.c - latency tables. */
#include <errno.h>
#include <stdlib.h>

#include "core/data/profile.h"
#include "unit/test.h"

static struct profile *table(uint32_t batch_max) {
    struct profile *profile = malloc(profile_bytes(batch_max));
    assert_non_null(profile);
    return profile;
}

TEST(a_line_fills_the_table_up_to_one_over_the_largest_batch) {
    struct profile *p = table(4);
    profile_set_line(p, 4, 10, 20);
    int64_t expected[] = {0, 30, 40, 50, 60, 70};
    for (uint32_t b = 0; b <= 5; b++)
        assert_int_equal(p->latency_ns[b], expected[b]);
    assert_true(p->alpha_ns > 9.999 && p->alpha_ns < 10.001 && p->beta_ns > 19.99 && p->beta_ns < 20.01);
    free(p);
}

TEST(points_are_joined_by_lines_and_the_last_slope_goes_on) {
    struct profile *p = table(8);
    uint32_t batch[] = {1, 2, 6};
    int64_t latency[] = {100, 120, 200};
    assert_int_equal(profile_set_points(p, 8, batch, latency, 3), 0);
    int64_t expected[] = {0, 100, 120, 140, 160, 180, 200, 220, 240, 260};
    for (uint32_t b = 0; b <= 9; b++)
        assert_int_equal(p->latency_ns[b], expected[b]);
    free(p);
}

TEST(a_table_never_decreases) {
    struct profile *p = table(6);
    uint32_t batch[] = {1, 3, 5};
    int64_t latency[] = {100, 300, 200}; /* a noisy middle; and the last slope goes down */
    assert_int_equal(profile_set_points(p, 6, batch, latency, 3), 0);
    for (uint32_t b = 1; b <= 7; b++)
        assert_true(p->latency_ns[b] >= p->latency_ns[b - 1] && p->latency_ns[b] > 0);
    assert_int_equal(p->latency_ns[3], 300);
    assert_int_equal(p->latency_ns[7], 300);
    assert_true(p->alpha_ns > 0 && p->beta_ns >= 0);
    free(p);
}

TEST(a_steep_first_point_does_not_make_a_latency_negative) {
    struct profile *p = table(4);
    uint32_t batch[] = {3, 4};
    int64_t latency[] = {10, 100};
    assert_int_equal(profile_set_points(p, 4, batch, latency, 2), 0);
    assert_true(p->latency_ns[1] >= 1);
    free(p);
}

TEST(one_point_means_items_that_cost_the_same) {
    struct profile *p = table(3);
    uint32_t batch = 1;
    int64_t latency = 50;
    assert_int_equal(profile_set_points(p, 3, &batch, &latency, 1), 0);
    assert_int_equal(p->latency_ns[3], 150);
    assert_int_equal(profile_batch_best(p), 1);
    free(p);
}

TEST(nonsense_is_refused) {
    struct profile *p = table(4);
    uint32_t batch[] = {1, 2}, twice[] = {2, 2}, zero[] = {0, 1};
    int64_t latency[] = {10, 20}, negative[] = {10, 0};
    assert_int_equal(profile_set_points(p, 4, batch, latency, 0), -EINVAL);
    assert_int_equal(profile_set_points(p, 4, batch, negative, 2), -EINVAL);
    assert_int_equal(profile_set_points(p, 4, twice, latency, 2), -EINVAL);
    assert_int_equal(profile_set_points(p, 4, zero, latency, 2), -EINVAL);
    assert_int_equal(profile_set_points(p, 0, batch, latency, 2), -EINVAL);
    assert_int_equal(profile_set_points(p, PROFILE_BATCH_MAX + 1, batch, latency, 2), -EINVAL);
    free(p);
}

TEST(the_fit_keeps_alpha_positive_and_beta_not_negative) {
    struct profile *p = table(4);
    for (uint32_t b = 1; b <= 5; b++)
        p->latency_ns[b] = 1000; /* flat */
    p->batch_max = 4;
    profile_fit(p);
    assert_true(p->alpha_ns > 0 && p->alpha_ns < 2 && p->beta_ns > 990);
    for (uint32_t b = 1; b <= 5; b++)
        p->latency_ns[b] = (int64_t)b * b * 100; /* steeper and steeper */
    profile_fit(p);
    assert_true(p->alpha_ns > 0 && p->beta_ns == 0);
    p->batch_max = 1; /* one size: its slope to the next */
    p->latency_ns[1] = 30;
    p->latency_ns[2] = 40;
    profile_fit(p);
    assert_true(p->alpha_ns == 10 && p->beta_ns == 20);
    free(p);
}

TEST(larger_items_scale_what_grows_with_the_batch) {
    struct profile *p = table(4), *q = table(4);
    profile_set_line(p, 4, 10, 20);
    profile_scale(q, p, 3);
    assert_int_equal(q->batch_max, 4);
    for (uint32_t b = 1; b <= 5; b++)
        assert_int_equal(q->latency_ns[b], 20 + 30 * b);
    profile_scale(q, p, 1);
    for (uint32_t b = 1; b <= 5; b++)
        assert_int_equal(q->latency_ns[b], p->latency_ns[b]);
    free(p);
    free(q);
}

TEST(the_best_batch_is_where_batching_stops_paying) {
    struct profile *p = table(64);
    profile_set_line(p, 64, 100, 1000);
    /* l(b)/b = 100 + 1000/b; at 64 115.6; within 1 % of it, 116.8, from 60 on */
    assert_int_equal(profile_batch_best(p), 60);
    assert_int_equal(profile_batch_cheapest(p), 64);
    profile_set_line(p, 64, 1000, 10); /* saves 1 %: not worth waiting for, but a batch may grow */
    assert_int_equal(profile_batch_best(p), 1);
    assert_true(profile_batch_cheapest(p) > 1);
    profile_set_line(p, 64, 100, 1000);
    for (uint32_t b = 9; b <= 65; b++)
        p->latency_ns[b] = p->latency_ns[8] + (int64_t)(b - 8) * 300; /* items get dearer over 8 */
    assert_int_equal(profile_batch_best(p), 8);
    assert_int_equal(profile_batch_cheapest(p), 8);
    free(p);
}
