/* test_slices.c - which requests and which pauses belong to which slice of time. */
#include "lab/stress/slices.h"
#include "unit/test.h"

#define MS NS_PER_MS

TEST(test_slices_are_no_shorter_than_an_slo) {
    static const struct {
        int64_t slo_ns, run_ns, slice_ns;
        uint32_t count;
    } rows[] = {
        {20 * MS, 4000 * MS, 20 * MS, 201},
        {NS_PER_US, 4000 * MS, SLICE_NS_MIN, 401},
        {500 * MS, 100 * MS, 500 * MS, 1},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slicing s = slicing_of(rows[i].slo_ns, rows[i].run_ns);
        assert_int_equal(s.slice_ns, rows[i].slice_ns);
        assert_int_equal(s.count, rows[i].count);
    }
    assert_in_range(slicing_of(MS, 1000000 * MS).count, SLICES_MOST / 2, SLICES_MOST + 1); /* a bound on memory */
}

TEST(test_what_comes_after_the_run_is_in_the_last_slice) {
    struct slicing s = slicing_of(20 * MS, 100 * MS);

    assert_int_equal(slice_at(&s, 0), 0);
    assert_int_equal(slice_at(&s, 20 * MS - 1), 0);
    assert_int_equal(slice_at(&s, 20 * MS), 1);
    assert_int_equal(slice_at(&s, 100 * MS), 5);
    assert_int_equal(slice_at(&s, 5000 * MS), 5);
}

/* A pause disturbs the slice before it, whose requests may wait, and the two after it, which it left a backlog. */
TEST(test_pauses_disturb_their_neighbours) {
    struct slicing s = slicing_of(10 * MS, 100 * MS);
    static const struct {
        struct pause pause;
        uint32_t first, last;
    } rows[] = {
        {{41 * MS, 44 * MS}, 3, 6},  {{49 * MS, 51 * MS}, 3, 7},   {{0, 2 * MS}, 0, 2},
        {{12 * MS, 85 * MS}, 0, 10}, {{95 * MS, 300 * MS}, 8, 10},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool disturbed[11] = {false};
        assert_int_equal(s.count, 11);
        slices_disturb(&s, &rows[i].pause, disturbed);
        for (uint32_t k = 0; k < s.count; k++)
            assert_int_equal(disturbed[k], k >= rows[i].first && k <= rows[i].last);
    }
}
