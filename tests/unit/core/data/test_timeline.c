/* test_timeline.c - what an accelerator did: what is kept, what runs now, why it was idle. */
#include "unit/test.h"

#include "core/data/timeline.h"
#include "core/util/container.h"
#include "core/util/time.h"

#define KEEP 8

static struct timeline_entry entry_of(uint64_t n) {
    return (struct timeline_entry){.start_ns = (int64_t)n,
                                   .took_us = (uint32_t)n,
                                   .predicted_us = (uint32_t)n + 1,
                                   .model_key = (uint32_t)n,
                                   .items = (uint16_t)n,
                                   .kind = TIMELINE_RUN,
                                   .came_us = (uint32_t)n,
                                   .ready_us = (uint32_t)n};
}

static void assert_is(const struct timeline_entry *read, uint64_t n) {
    struct timeline_entry wanted = entry_of(n);
    assert_memory_equal(read, &wanted, sizeof(wanted));
}

TEST(memory_is_divided) {
    static const struct {
        uint32_t count;
        uint64_t bytes, each;
    } cases[] = {{1, 1 << 20, 32768}, {3, 1 << 20, 8192}, {1, 64 << 20, TIMELINE_MOST}, {1000, 1 << 20, 32}};
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct timelines t;
        assert_int_equal(timelines_init(&t, cases[i].count, cases[i].bytes), 0);
        assert_int_equal(t.of[0].tape.mask + 1, cases[i].each);
        assert_ptr_equal(t.of[cases[i].count - 1].tape.slots,
                         t.slots + (cases[i].count - 1) * cases[i].each * TIMELINE_WORDS);
        timelines_free(&t);
    }
}

TEST(without_memory_nothing_is_kept) {
    struct timelines t;
    struct timeline_entry entry = entry_of(1);
    uint32_t key, items;
    int64_t since_ns;
    assert_int_equal(timelines_init(&t, 2, 64), 0);
    timeline_begin(&t.of[0], 1, 1, 1);
    timeline_note(&t.of[1], &entry);
    timeline_note(NULL, &entry);
    timeline_memory(&t.of[0], 1, 1);
    assert_int_equal(timeline_read(&t.of[0], &entry, 1), 0);
    assert_false(timeline_running(&t.of[0], &key, &items, &since_ns));
    timelines_free(&t);
}

TEST(the_newest_stay) {
    struct timelines t;
    struct timeline_entry read[KEEP];
    assert_int_equal(timelines_init(&t, 2, 2 * KEEP * TIMELINE_ENTRY_BYTES), 0);
    for (uint64_t n = 0; n < 21; n++) {
        struct timeline_entry entry = entry_of(n);
        timeline_note(&t.of[0], &entry);
    }
    /* the oldest slot may be being written */
    assert_int_equal(timeline_read(&t.of[0], read, KEEP), KEEP - 1);
    for (uint64_t i = 0; i < KEEP - 1; i++)
        assert_is(&read[i], 14 + i);
    assert_int_equal(timeline_read(&t.of[0], read, 2), 2);
    assert_is(&read[1], 20);
    assert_int_equal(timeline_read(&t.of[1], read, KEEP), 0);
    timelines_free(&t);
}

TEST(what_runs_is_known) {
    struct timelines t;
    struct timeline_entry run = entry_of(1), load = {.kind = TIMELINE_LOAD};
    uint32_t key, items;
    int64_t since_ns;
    assert_int_equal(timelines_init(&t, 1, KEEP * TIMELINE_ENTRY_BYTES), 0);
    assert_false(timeline_running(&t.of[0], &key, &items, &since_ns));
    timeline_begin(&t.of[0], UINT32_MAX, 1024, 77);
    timeline_note(&t.of[0], &load); /* loads go on beside runs */
    assert_true(timeline_running(&t.of[0], &key, &items, &since_ns));
    assert_int_equal(key, UINT32_MAX);
    assert_int_equal(items, 1024);
    assert_int_equal(since_ns, 77);
    timeline_note(&t.of[0], &run);
    assert_false(timeline_running(&t.of[0], &key, &items, &since_ns));
    timelines_free(&t);
}

/* Times in microseconds; an idle time begins at 1000 and ends at 2000. */
TEST(idle_time_is_explained) {
    static const struct {
        uint32_t came_us, ready_us, load_from, load_us;
        uint32_t count;
        struct {
            enum idle_why why;
            uint32_t until_us;
        } parts[IDLE_WHYS];
    } cases[] = {
        {.came_us = 0, .ready_us = UINT32_MAX, .count = 1, .parts = {{IDLE_UNKNOWN, 2000}}},
        {.came_us = 10, .ready_us = UINT32_MAX, .count = 2, .parts = {{IDLE_NOTHING, 1990}, {IDLE_HANDED, 2000}}},
        {.came_us = 500,
         .ready_us = 100,
         .count = 3,
         .parts = {{IDLE_NOTHING, 1500}, {IDLE_COMPANY, 1900}, {IDLE_HANDED, 2000}}},
        {.came_us = 5000, .ready_us = 0, .count = 1, .parts = {{IDLE_COMPANY, 2000}}},
        {.came_us = 5000, .ready_us = 4000, .count = 1, .parts = {{IDLE_HANDED, 2000}}},
        {.came_us = 500,
         .ready_us = UINT32_MAX,
         .load_from = 1400,
         .load_us = 550,
         .count = 3,
         .parts = {{IDLE_NOTHING, 1500}, {IDLE_ABSENT, 1950}, {IDLE_HANDED, 2000}}},
        {.came_us = 500,
         .ready_us = UINT32_MAX,
         .load_from = 100,
         .load_us = 50,
         .count = 2,
         .parts = {{IDLE_NOTHING, 1500}, {IDLE_HANDED, 2000}}},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct timeline_entry batch = {
            .start_ns = 2000 * NS_PER_US, .came_us = cases[i].came_us, .ready_us = cases[i].ready_us};
        const struct timeline_entry load = {
            .start_ns = cases[i].load_from * NS_PER_US, .took_us = cases[i].load_us, .kind = TIMELINE_LOAD};
        struct idle_part parts[IDLE_WHYS];
        int64_t at_ns = 1000 * NS_PER_US;
        assert_int_equal(timeline_idle(at_ns, &batch, cases[i].load_us ? &load : NULL, parts), cases[i].count);
        for (uint32_t k = 0; k < cases[i].count; k++) {
            assert_int_equal(parts[k].why, cases[i].parts[k].why);
            assert_int_equal(parts[k].from_ns, at_ns);
            at_ns = parts[k].until_ns;
            assert_int_equal(at_ns, cases[i].parts[k].until_us * NS_PER_US);
        }
    }
    const struct timeline_entry batch = {.start_ns = 1000, .came_us = 1, .ready_us = 0};
    struct idle_part parts[IDLE_WHYS];
    assert_int_equal(timeline_idle(1000, &batch, NULL, parts), 0);
}

TEST(the_last_load_of_a_model_is_found) {
    struct timeline_loads loads = {.count = 0};
    assert_null(timeline_loads_find(&loads, 1));
    for (uint32_t n = 0; n < TIMELINE_LOADS + 2; n++)
        timeline_loads_note(&loads, &(struct timeline_entry){.start_ns = n, .model_key = n % TIMELINE_LOADS});
    assert_int_equal(timeline_loads_find(&loads, 1)->start_ns, TIMELINE_LOADS + 1);
    assert_int_equal(timeline_loads_find(&loads, 2)->start_ns, 2);
    assert_null(timeline_loads_find(&loads, TIMELINE_LOADS));
}

TEST(waits_fit_into_a_byte) {
    static const uint32_t times_us[] = {0, 1, 7, 8, 100, 12345, 1000000, UINT32_MAX - 1, UINT32_MAX};
    assert_int_equal(wait_of(0), 0);
    for (unsigned i = 0; i < ARRAY_COUNT(times_us); i++) {
        uint8_t code = wait_code(times_us[i]);
        assert_true(code > 0 && wait_of(code) <= times_us[i]);
        assert_true(times_us[i] - wait_of(code) <= times_us[i] / 8);
    }
}
