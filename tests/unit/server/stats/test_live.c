/* test_live.c - rates and quantiles over the last seconds. */
#include "server/stats/live.h"

#include <stdlib.h>

#include "unit/test.h"

#define S NS_PER_S

TEST(looks_are_compared_with_earlier_ones) {
    struct live_window w = {.before_ns = 100 * S, .base_ns = 100 * S};
    bool both;
    assert_false(live_window_turn(&w, 101 * S, &both));
    assert_int_equal(w.before_ns, 100 * S);
    assert_true(live_window_turn(&w, 102 * S, &both));
    assert_false(both);
    assert_int_equal(w.before_ns, 100 * S);
    assert_int_equal(w.base_ns, 102 * S);
    assert_false(live_window_turn(&w, 103 * S, &both));
    assert_true(live_window_turn(&w, 104 * S, &both)); /* the next look is compared with that at 102 s */
    assert_int_equal(w.before_ns, 102 * S);
    assert_true(live_window_turn(&w, 1000 * S, &both)); /* nobody looked for long */
    assert_true(both);
    assert_int_equal(w.before_ns, 1000 * S);
    assert_int_equal(w.base_ns, 1000 * S);
}

TEST(another_models_counts_begin_at_0) {
    assert_int_equal(live_grown(5, 9), 4);
    assert_int_equal(live_grown(5, 3), 3);
}

static int64_t edge(uint32_t bucket) {
    return 10 * (int64_t)bucket + 9;
}

TEST(quantiles_are_of_what_came_since) {
    struct live_histogram h = {.base = NULL};
    uint32_t now[4] = {90, 10, 0, 0};
    live_histogram_look(&h, now, 4, edge, 1);
    assert_true(h.p50 == 9 && h.p99 == 19 && h.at_ns == 1);
    live_histogram_look(&h, now, 4, edge, 2);
    assert_true(h.p50 < 0 && h.p99 < 0); /* nothing came */
    now[2] = 1;
    live_histogram_look(&h, now, 4, edge, 3);
    assert_true(h.p50 == 29 && h.p99 == 29);
    uint32_t others[4] = {0, 0, 0, 7}; /* of another model */
    live_histogram_look(&h, others, 4, edge, 4);
    assert_true(h.p50 == 39 && h.p99 == 39);
    free(h.base);
}

TEST(counts_may_wrap) {
    struct live_histogram h = {.base = NULL};
    uint32_t now[2] = {UINT32_MAX, 0};
    live_histogram_look(&h, now, 2, edge, 1);
    now[0] = 1; /* two more */
    live_histogram_look(&h, now, 2, edge, 2);
    assert_true(h.p50 == 9 && h.p99 == 9);
    free(h.base);
}
