/* test_sim_times.c - quantiles against sorted values. */
#include "lab/sim/sim_times.h"

#include <stdlib.h>

#include "core/util/rng.h"
#include "core/util/time.h"
#include "unit/test.h"

#define COUNT 5000

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Times from a microsecond to minutes, in two parts that are merged. */
TEST(test_quantiles_are_within_a_percent) {
    struct sim_times *parts = calloc(2, sizeof(*parts));
    int64_t values[COUNT];
    struct rng rng;
    rng_seed(&rng, 3);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (int64_t)(rng_next(&rng) >> (27 + rng_below(&rng, 17)));
        sim_times_add(&parts[i % 2], values[i]);
    }
    sim_times_merge(&parts[0], &parts[1]);
    qsort(values, COUNT, sizeof(values[0]), compare);
    assert_int_equal(parts[0].count, COUNT);
    assert_int_equal(parts[0].max_ns, values[COUNT - 1]);
    static const double quantiles[] = {0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
        int64_t wanted = values[(int)(quantiles[i] * COUNT) - 1];
        int64_t off = sim_times_quantile_ns(&parts[0], quantiles[i]) - wanted, may = 512 + wanted / 128;
        if (off > may || off < -may)
            fail_msg("quantile %g is %lld ns off", quantiles[i], (long long)off);
    }
    free(parts);
}

TEST(test_the_greatest_is_exact_and_never_passed) {
    struct sim_times *times = calloc(1, sizeof(*times));
    assert_int_equal(sim_times_quantile_ns(times, 0.5), 0);
    for (int i = 0; i < 1000; i++)
        sim_times_add(times, 25 * NS_PER_MS);
    assert_true(sim_times_quantile_ns(times, 0.99) <= 25 * NS_PER_MS);
    assert_true(sim_times_quantile_ns(times, 0.99) >= 25 * NS_PER_MS * 0.992);
    free(times);
}

TEST(test_what_is_none_is_none) {
    struct sim_times *times = calloc(1, sizeof(*times));
    sim_times_add(times, -5);
    sim_times_add(times, 0);
    sim_times_add(times, 1000);
    assert_int_equal(sim_times_quantile_ns(times, 1), 0);
    sim_times_add(times, INT64_MAX); /* falls into the last bucket */
    assert_true(sim_times_quantile_ns(times, 1) > 4 * 3600 * NS_PER_S);
    free(times);
}
