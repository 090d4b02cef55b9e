/* test_trail.c - the rings of trails: what is kept, what is overwritten, and which are noted. */
#include "unit/test.h"

#include <string.h>

#include "core/data/trail.h"

#define KEEP 8

static struct trail trail_of(uint64_t n, enum trail_state state) {
    struct trail trail = {
        .arrival_ns = (int64_t)n, .model = (uint32_t)n, .took_us = (uint32_t)n, .state = (uint8_t)state};
    memset(trail.id, (int)('a' + n % 26), sizeof(trail.id));
    trail.id_length = sizeof(trail.id);
    return trail;
}

static void assert_is(const struct trail *read, uint64_t n, enum trail_state state) {
    struct trail wanted = trail_of(n, state);
    assert_memory_equal(read, &wanted, sizeof(wanted));
}

TEST(the_newest_of_each_state_stay) {
    struct trails trails;
    struct trail read[KEEP];
    assert_int_equal(trails_init(&trails, KEEP + 3, 1), 0);
    for (uint64_t n = 0; n < 21; n++) {
        struct trail trail = trail_of(n, TRAIL_REFUSED);
        trails_note(&trails, trail.state, &trail);
    }
    struct trail failed = trail_of(100, TRAIL_FAILED);
    trails_note(&trails, failed.state, &failed);
    /* the oldest slot may be being written */
    assert_int_equal(trails_read(&trails, TRAIL_REFUSED, read, KEEP), KEEP - 1);
    for (uint64_t i = 0; i < KEEP - 1; i++)
        assert_is(&read[i], 14 + i, TRAIL_REFUSED);
    assert_int_equal(trails_noted(&trails, TRAIL_REFUSED), 21);
    assert_int_equal(trails_read(&trails, TRAIL_FAILED, read, KEEP), 1);
    assert_is(&read[0], 100, TRAIL_FAILED);
    assert_int_equal(trails_read(&trails, TRAIL_LATE, read, KEEP), 0);
    assert_int_equal(trails_read(&trails, TRAIL_REFUSED, read, 2), 2);
    assert_is(&read[1], 20, TRAIL_REFUSED);
    trails_free(&trails);
}

TEST(without_room_none_is_kept) {
    struct trails trails;
    struct trail trail = trail_of(1, TRAIL_LATE);
    assert_int_equal(trails_init(&trails, 0, 1), 0);
    assert_false(trails_kept(&trails));
    assert_false(trails_sample(&trails));
    trails_note(&trails, trail.state, &trail);
    assert_int_equal(trails_read(&trails, TRAIL_LATE, &trail, 1), 0);
    trails_free(&trails);
}

TEST(one_in_so_many_is_sampled) {
    static const uint32_t everies[] = {0, 1, 2, 100};
    for (unsigned i = 0; i < 4; i++) {
        struct trails trails;
        uint32_t sampled = 0;
        assert_int_equal(trails_init(&trails, KEEP, everies[i]), 0);
        for (int n = 0; n < 1000000; n++)
            sampled += trails_sample(&trails);
        uint32_t wanted = everies[i] ? 1000000 / everies[i] : 0;
        assert_in_range(sampled, wanted - wanted / 20, wanted + wanted / 20);
        trails_free(&trails);
    }
}
