/* test_fine_histogram.c - where values fall, and how finely. */
#include "front/request/fine_histogram.h"
#include "unit/test.h"

TEST(test_edges_meet_and_are_fine) {
    int64_t expected = 0;
    for (uint32_t i = 0; i < FINE_HISTOGRAM_BUCKETS - 1; i++) {
        int64_t least, greatest;
        fine_histogram_edges(i, &least, &greatest);
        assert_int_equal(least, expected);
        assert_true(greatest >= least && greatest - least <= least / 256);
        expected = greatest + 1;
    }
    assert_int_equal(expected, (1ll << 40) - (1ll << 31)); /* the last one begins where 2^40 less a step is */
}

TEST(test_values_fall_between_their_edges) {
    static const int64_t values[] = {0,         1,        255, 256, 511, 512, 37000000, 37123456, (1ll << 40) - 1,
                                     1ll << 40, INT64_MAX};
    for (unsigned v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
        static struct fine_histogram h;
        h = (struct fine_histogram){0};
        fine_histogram_add(&h, values[v]);
        for (uint32_t i = 0; i < FINE_HISTOGRAM_BUCKETS; i++) {
            int64_t least, greatest;
            fine_histogram_edges(i, &least, &greatest);
            assert_int_equal(h.buckets[i], least <= values[v] && values[v] <= greatest);
        }
    }
}

TEST(test_counts) {
    static struct fine_histogram h;
    for (int64_t ms = 1; ms <= 100; ms++)
        fine_histogram_add(&h, ms * 1000000);
    fine_histogram_add(&h, -5);
    assert_int_equal(h.count, 101);
    assert_int_equal(h.sum, 5050ll * 1000000);
    static const int64_t edges[] = {-1, 0, 37500000, 37600000, INT64_MAX};
    uint64_t counts[] = {1000, 0, 0, 0, 0}; /* it adds */
    fine_histogram_count_until(&h, edges, 5, counts);
    assert_memory_equal(counts, ((uint64_t[]){1000, 1, 38, 38, 101}), sizeof(counts));
}
