/* test_rolling.c - tables corrected from measured runs. */
#include <stdlib.h>

#include "core/data/rolling.h"
#include "core/util/rng.h"
#include "unit/test.h"

#define BATCH        16
#define ACCELERATORS 3

struct fixture {
    struct profile *table;
    struct rolling *rolling;
};

/* l(b) = 100 b + 1000 */
static struct fixture fixture_new(void) {
    struct fixture f = {malloc(profile_bytes(BATCH)), malloc(rolling_bytes(BATCH, ACCELERATORS))};
    assert_non_null(f.table);
    assert_non_null(f.rolling);
    profile_set_line(f.table, BATCH, 100, 1000);
    rolling_init(f.rolling, f.table, ACCELERATORS);
    return f;
}

static void fixture_free(struct fixture f) {
    free(f.table);
    free(f.rolling);
}

static void runs(struct fixture f, uint32_t items, int64_t run_ns, int count) {
    for (int i = 0; i < count; i++)
        rolling_add(f.rolling, 0, items, run_ns, f.table);
}

static void assert_sound(const struct profile *table) {
    for (uint32_t b = 1; b <= table->batch_max + 1; b++)
        assert_true(table->latency_ns[b] >= table->latency_ns[b - 1] && table->latency_ns[b] > 0);
    assert_true(table->alpha_ns > 0 && table->beta_ns >= 0);
}

TEST(a_full_window_speaks_for_its_size) {
    struct fixture f = fixture_new();
    runs(f, 4, 1540, ROLLING_WINDOW); /* 10 % over 1400 */
    assert_int_equal(f.table->latency_ns[4], 1540);
    runs(f, 4, 1260, ROLLING_WINDOW); /* and 10 % under, when the old ones are gone */
    assert_int_equal(f.table->latency_ns[4], 1260);
    assert_sound(f.table);
    fixture_free(f);
}

TEST(all_but_the_slowest_count) {
    struct fixture f = fixture_new();
    runs(f, 4, 1400, ROLLING_WINDOW - 2);
    runs(f, 4, 1700, 1);
    assert_int_equal(f.table->latency_ns[4], 1400);
    runs(f, 4, 1600, 1);
    assert_int_equal(f.table->latency_ns[4], 1600);
    runs(f, 4, 1400, ROLLING_WINDOW - 2); /* both are still among the last hundred */
    assert_int_equal(f.table->latency_ns[4], 1600);
    runs(f, 4, 1400, 1);
    assert_int_equal(f.table->latency_ns[4], 1400);
    fixture_free(f);
}

TEST(a_size_that_never_ran_follows_the_others) {
    struct fixture f = fixture_new();
    runs(f, 2, 2400, ROLLING_WINDOW); /* twice */
    assert_true(f.table->latency_ns[12] > 1.5 * 2200 && f.table->latency_ns[12] <= 2 * 2200);
    assert_true(f.table->latency_ns[BATCH + 1] > 1.5 * 2700);
    assert_sound(f.table);
    fixture_free(f);
}

TEST(a_few_runs_move_it_a_part_of_the_way) {
    struct fixture f = fixture_new();
    runs(f, 4, 2800, 2); /* twice as long */
    assert_true(f.table->latency_ns[4] > 1400 && f.table->latency_ns[4] < 2200);
    fixture_free(f);

    f = fixture_new(); /* but single runs of many sizes add up */
    for (uint32_t b = 1; b <= BATCH; b++)
        runs(f, b, 2 * (100 * b + 1000), 1);
    for (uint32_t b = 1; b <= BATCH; b++)
        assert_true(f.table->latency_ns[b] > 3 * (100 * b + 1000) / 2);
    fixture_free(f);
}

/* A machine that stalls every tenth run for ten times as long: planning for that would refuse what mostly is in
 * time. */
TEST(stalls_do_not_throw_the_table_off) {
    struct fixture f = fixture_new();
    for (int i = 0; i < 500; i++)
        runs(f, 4, i % 10 == 9 ? 14000 : 1400, 1);
    assert_int_equal(f.table->latency_ns[4], 2100); /* half as much again as the median, no more */
    assert_sound(f.table);
    runs(f, 4, 14000, ROLLING_WINDOW); /* a machine that has become slow is another matter */
    assert_int_equal(f.table->latency_ns[4], 14000);
    fixture_free(f);
}

/* A size measured while the machine was slow is tried again, though only other sizes have run since. */
TEST(what_was_slow_long_ago_is_tried_again) {
    struct fixture f = fixture_new();
    runs(f, 8, 18000, ROLLING_WINDOW); /* ten times */
    assert_int_equal(f.table->latency_ns[8], 18000);
    runs(f, 1, 1100, 2000);
    assert_int_equal(f.table->latency_ns[1], 1100);
    assert_true(f.table->latency_ns[8] < 2 * 1800);
    fixture_free(f);
}

TEST(relaxing_goes_back_to_the_profile) {
    struct fixture f = fixture_new();
    assert_false(rolling_relax(f.rolling, f.table));
    runs(f, 4, 11200, ROLLING_WINDOW); /* eight times */
    assert_true(rolling_relax(f.rolling, f.table));
    assert_true(f.table->latency_ns[4] < 5 * 1400);
    int steps = 0;
    while (rolling_relax(f.rolling, f.table))
        assert_true(++steps < 20);
    assert_true(f.table->latency_ns[4] < 1.02 * 1400);
    assert_sound(f.table);
    runs(f, 4, 1260, ROLLING_WINDOW); /* what is faster than profiled stays */
    assert_false(rolling_relax(f.rolling, f.table));
    assert_int_equal(f.table->latency_ns[4], 1260);
    fixture_free(f);
}

/* A run after the table was relaxed says whether the corrections were right: one is enough either way. */
TEST(the_run_after_relaxing_decides) {
    struct fixture f = fixture_new();
    runs(f, 4, 11200, ROLLING_WINDOW); /* eight times */
    for (int i = 0; i < 3; i++)
        assert_true(rolling_relax(f.rolling, f.table));
    assert_true(f.table->latency_ns[4] < 2 * 1400);
    runs(f, 4, 11200, 1);
    assert_int_equal(f.table->latency_ns[4], 11200);
    for (int i = 0; i < 3; i++)
        assert_true(rolling_relax(f.rolling, f.table));
    runs(f, 4, 1400, 1);
    assert_true(f.table->latency_ns[4] < 2 * 1400);
    assert_sound(f.table);
    fixture_free(f);
}

/* As engines do that take memory and choose kernels when they first see a size. */
TEST(first_runs_are_not_learned_from) {
    struct fixture f = fixture_new();
    for (uint32_t a = 0; a < ACCELERATORS; a++)
        for (uint32_t b = 1; b <= BATCH; b++)
            rolling_add(f.rolling, a, b, 100 * f.table->latency_ns[b], f.table);
    for (uint32_t b = 1; b <= BATCH; b++)
        assert_int_equal(f.table->latency_ns[b], 100 * b + 1000);
    /* a second one as slow is believed in part, a third entirely */
    runs(f, 4, 14000, 1);
    assert_in_range(f.table->latency_ns[4], 1401, 1800);
    runs(f, 4, 14000, 9);
    assert_int_equal(f.table->latency_ns[4], 14000);
    assert_sound(f.table);
    fixture_free(f);

    f = fixture_new(); /* first runs that say nothing unheard of are learned from as others */
    rolling_add(f.rolling, 1, 4, 1700, f.table);
    assert_in_range(f.table->latency_ns[4], 1401, 1700);
    fixture_free(f);
}

/* One accelerator's second run, held up by chance. */
TEST(a_lone_run_says_little) {
    struct fixture f = fixture_new();
    runs(f, 4, 140000, 2);
    for (uint32_t b = 1; b <= BATCH; b++)
        assert_true((double)f.table->latency_ns[b] < 1.3 * (100 * b + 1000));
    runs(f, 4, 1400, 1);
    assert_true(f.table->latency_ns[4] < 1450);
    fixture_free(f);
}

TEST(what_changes_nothing_says_so_and_nonsense_is_ignored) {
    struct fixture f = fixture_new();
    runs(f, 4, 1400, ROLLING_WINDOW);
    assert_false(rolling_add(f.rolling, 0, 4, 1400, f.table));
    assert_false(rolling_add(f.rolling, 0, 4, 1399, f.table));
    assert_false(rolling_add(f.rolling, 0, 0, 1400, f.table));
    assert_false(rolling_add(f.rolling, 0, BATCH + 1, 1400, f.table));
    assert_false(rolling_add(f.rolling, 0, 4, 0, f.table));
    fixture_free(f);
}

/* Whatever is measured, the table stays usable; and with honest noise it covers nearly all runs. */
TEST(random_runs_leave_a_sound_table) {
    struct fixture f = fixture_new();
    struct rng rng;
    rng_seed(&rng, 3);
    for (int i = 0; i < 5000; i++) {
        rolling_add(f.rolling, 0, (uint32_t)rng_below(&rng, BATCH + 2), (int64_t)rng_below(&rng, 100000), f.table);
        assert_sound(f.table);
    }
    int over = 0;
    for (int i = 0; i < 20000; i++) {
        uint32_t items = 1 + (uint32_t)rng_below(&rng, BATCH);
        int64_t run_ns = (int64_t)((100.0 * items + 1000) * (1 + 0.02 * rng_uniform(&rng)));
        over += i > 4000 && run_ns > f.table->latency_ns[items];
        rolling_add(f.rolling, 0, items, run_ns, f.table);
    }
    assert_true(over < 16000 / 25); /* two in a hundred, and what sharing between sizes and rounding add */
    assert_true(f.table->latency_ns[8] < 1.03 * 1800);
    fixture_free(f);
}
