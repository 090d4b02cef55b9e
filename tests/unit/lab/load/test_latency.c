/* test_latency.c - resolution, quantiles and sums of the latency histogram. */
#include "unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/util/container.h"
#include "core/util/rng.h"
#include "lab/load/latency.h"

static int latency_new(void **state) {
    *state = calloc(2, sizeof(struct latency));
    return *state ? 0 : -1;
}

static int latency_delete(void **state) {
    free(*state);
    return 0;
}

TEST(single_values_come_back_within_a_fifth_of_a_percent) {
    struct latency *l = *state;
    for (int64_t ns = 1; ns < 10000000000000LL; ns = ns * 17 / 13 + 1) {
        *l = (struct latency){0};
        latency_add(l, ns);
        latency_add(l, ns * 3); /* so that the maximum does not stand in for the middle of the bucket */
        double middle = (double)latency_quantile_ns(l, 0.5);
        assert_true(fabs(middle - (double)ns) <= 0.002 * (double)ns);
    }
}

TEST(quantiles_of_a_ramp) {
    struct latency *l = *state;
    *l = (struct latency){0};
    assert_int_equal(latency_quantile_ns(l, 0.5), 0);
    for (int64_t i = 1; i <= 1000; i++)
        latency_add(l, i * 1000000);
    static const double quantiles[] = {0.001, 0.25, 0.5, 0.99, 0.999, 1.0};
    for (size_t i = 0; i < ARRAY_COUNT(quantiles); i++) {
        double want = quantiles[i] * 1e9;
        assert_true(fabs((double)latency_quantile_ns(l, quantiles[i]) - want) <= 0.002 * want);
    }
    assert_int_equal(l->max_ns, 1000000000);
    latency_add(l, 1000000001);
    assert_true(latency_quantile_ns(l, 1.0) <= 1000000001); /* never over the maximum */
}

TEST(merging_equals_adding_to_one) {
    struct latency *l = *state, *other = l + 1, *one = calloc(1, sizeof(*one));
    struct rng rng;
    rng_seed(&rng, 3);
    *l = *other = (struct latency){0};
    assert_non_null(one);
    for (int i = 0; i < 10000; i++) {
        int64_t ns = (int64_t)rng_below(&rng, 1u << 30);
        latency_add(i % 3 ? l : other, ns);
        latency_add(one, ns);
    }
    latency_merge(l, other);
    assert_int_equal(l->count, one->count);
    assert_int_equal(l->max_ns, one->max_ns);
    for (int i = 0; i < LATENCY_BUCKETS; i++)
        assert_int_equal(l->buckets[i], one->buckets[i]);
    free(one);
}

TEST(odd_values_do_no_harm) {
    struct latency *l = *state;
    *l = (struct latency){0};
    latency_add(l, -5);
    latency_add(l, INT64_MAX);
    assert_int_equal(latency_quantile_ns(l, 0.5), 0);
    assert_int_equal(l->count, 2);
    assert_int_equal(l->buckets[LATENCY_BUCKETS - 1], 1);
}

int main(void) {
    return tests_run(latency_new, latency_delete);
}
