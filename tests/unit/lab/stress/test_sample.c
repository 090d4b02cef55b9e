/* test_sample.c - the sample loses nothing and finds everything, and handles keep what they were made of. */
#include <stdlib.h>

#include "core/util/rng.h"
#include "lab/stress/handle.h"
#include "lab/stress/sample.h"
#include "unit/test.h"

#define HANDLES 4000

TEST(test_handles_keep_what_they_hold) {
    static const struct {
        int64_t arrival_ns;
        uint32_t model, world;
    } rows[] = {{1, 0, 0}, {123456789012, 999, 3}, {(1LL << 40) - 1, 65535, 255}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t handle = handle_make(rows[i].arrival_ns, rows[i].model, rows[i].world);
        assert_int_equal(handle_arrival_ns(handle), rows[i].arrival_ns);
        assert_int_equal(handle_model(handle), rows[i].model);
        assert_int_equal(handle_world(handle), rows[i].world);
    }
}

/* Handles in random order, in and out: removals close gaps of all shapes. */
TEST(test_what_is_in_is_found_once) {
    uint64_t *handles = calloc(HANDLES, sizeof(*handles));
    bool in[HANDLES] = {false};
    struct sample sample;
    struct rng rng;
    uint32_t count = 0, members = 0;

    rng_seed(&rng, 5);
    assert_int_equal(sample_init(&sample, 1), 0); /* the least room: many meet */
    for (uint32_t i = 0; i < HANDLES; i++) {
        handles[i] = handle_make(1 + 100 * (int64_t)i, i % 7, 1);
        members += sample_has(handles[i]);
    }
    assert_in_range(members, HANDLES / SAMPLE_EVERY / 2, HANDLES / SAMPLE_EVERY * 2);
    for (int step = 0; step < 200000; step++) {
        uint32_t i = (uint32_t)rng_below(&rng, HANDLES);
        if (in[i] || count > 800) {
            assert_int_equal(sample_remove(&sample, handles[i]), in[i]);
            count -= in[i];
            in[i] = false;
        } else {
            sample_add(&sample, handles[i]);
            in[i] = true;
            count++;
        }
        assert_int_equal(sample.count, count);
    }
    for (uint32_t i = 0; i < HANDLES; i++)
        assert_int_equal(sample_remove(&sample, handles[i]), in[i]);
    assert_int_equal(sample.count, 0);
    sample_free(&sample);
    free(handles);
}
