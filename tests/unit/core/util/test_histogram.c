/* test_histogram.c - quantiles against the sorted values. */
#include <stdlib.h>

#include "core/util/histogram.h"
#include "core/util/rng.h"
#include "unit/test.h"

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

TEST(test_quantiles_within_a_step) {
    enum { N = 20000 };
    static struct histogram h;
    static int64_t values[N];
    uint64_t sum = 0;
    struct rng rng;

    rng_seed(&rng, 3);
    for (int i = 0; i < N; i++) {
        values[i] = (int64_t)(rng_exponential(&rng) * 1e6);
        sum += (uint64_t)values[i];
        histogram_add(&h, values[i]);
    }
    qsort(values, N, sizeof(values[0]), compare);
    const double quantiles[] = {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0};
    for (unsigned i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
        int64_t exact = values[(int)(quantiles[i] * N) ? (int)(quantiles[i] * N) - 1 : 0];
        int64_t got = histogram_quantile(&h, quantiles[i]);
        assert_true(got >= exact);
        assert_true(got <= exact + exact / 8 + 1); /* sixteen steps a power of two, and the rank's own neighbour */
    }
    assert_int_equal(h.count, N);
    assert_int_equal(h.sum, sum);
    uint64_t until[4] = {1000}; /* it adds */
    static const int64_t edges[] = {-1, 1048575, 16777215, INT64_MAX};
    histogram_count_until(&h, edges, 4, until);
    for (int i = 0; i < N; i++)
        for (unsigned e = 0; e < 4; e++)
            until[e] -= values[i] <= edges[e]; /* these edges are buckets' */
    assert_memory_equal(until, ((uint64_t[]){1000, 0, 0, 0}), sizeof(until));
}

TEST(test_edges) {
    static struct histogram h, all;
    assert_int_equal(histogram_quantile(&h, 0.5), 0);
    histogram_add(&h, -5);
    assert_int_equal(histogram_quantile(&h, 0.5), 0);
    histogram_add(&h, INT64_MAX); /* falls into the last bucket */
    assert_true(histogram_quantile(&h, 1.0) > 3600LL * 1000000000);
    histogram_merge(&all, &h);
    histogram_merge(&all, &h);
    assert_int_equal(all.count, 4);
    uint64_t until[3] = {0};
    static const int64_t edges[] = {0, INT64_MAX - 1, INT64_MAX};
    histogram_count_until(&all, edges, 3, until);
    assert_memory_equal(until, ((uint64_t[]){2, 4, 4}), sizeof(until));
}
