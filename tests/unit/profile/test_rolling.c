/* test_rolling.c - tables corrected from measured runs. */
#include <stdlib.h>

#include "base/rng.h"
#include "profile/rolling.h"
#include "unit/cmocka_all.h"

#define BATCH 16

struct fixture {
    struct profile *table;
    struct rolling *rolling;
};

/* l(b) = 100 b + 1000 */
static struct fixture fixture_new(void) {
    struct fixture f = {malloc(profile_bytes(BATCH)), malloc(rolling_bytes(BATCH))};
    assert_non_null(f.table);
    assert_non_null(f.rolling);
    profile_set_line(f.table, BATCH, 100, 1000);
    rolling_init(f.rolling, f.table);
    return f;
}

static void fixture_free(struct fixture f) {
    free(f.table);
    free(f.rolling);
}

static void runs(struct fixture f, uint32_t items, int64_t run_ns, int count) {
    for (int i = 0; i < count; i++)
        rolling_add(f.rolling, items, run_ns, f.table);
}

static void assert_sound(const struct profile *table) {
    for (uint32_t b = 1; b <= table->batch_max + 1; b++)
        assert_true(table->latency_ns[b] >= table->latency_ns[b - 1] && table->latency_ns[b] > 0);
    assert_true(table->alpha_ns > 0 && table->beta_ns >= 0);
}

static void a_full_window_speaks_for_its_size(void **state) {
    (void)state;
    struct fixture f = fixture_new();
    runs(f, 4, 1540, ROLLING_WINDOW); /* 10 % over 1400 */
    assert_int_equal(f.table->latency_ns[4], 1540);
    runs(f, 4, 1260, ROLLING_WINDOW); /* and 10 % under, when the old ones are gone */
    assert_int_equal(f.table->latency_ns[4], 1260);
    assert_sound(f.table);
    fixture_free(f);
}

static void the_slowest_of_the_window_counts(void **state) {
    (void)state;
    struct fixture f = fixture_new();
    runs(f, 4, 1400, 5);
    runs(f, 4, 1500, 1);
    runs(f, 4, 1400, 4);
    assert_int_equal(f.table->latency_ns[4], 1500);
    runs(f, 4, 1400, 5); /* it is still one of the last ten */
    assert_int_equal(f.table->latency_ns[4], 1500);
    assert_true(rolling_add(f.rolling, 4, 1400, f.table));
    assert_int_equal(f.table->latency_ns[4], 1400);
    fixture_free(f);
}

static void a_size_that_never_ran_follows_its_neighbours(void **state) {
    (void)state;
    struct fixture f = fixture_new();
    runs(f, 2, 1320, ROLLING_WINDOW);  /* 1.1 times */
    runs(f, 10, 2600, ROLLING_WINDOW); /* 1.3 times */
    assert_int_equal(f.table->latency_ns[1], 1210);
    assert_int_equal(f.table->latency_ns[6], 1920); /* 1.2 times 1600 */
    assert_int_equal(f.table->latency_ns[BATCH], 3380);
    assert_int_equal(f.table->latency_ns[BATCH + 1], 3510);
    assert_sound(f.table);
    fixture_free(f);
}

static void a_few_runs_move_it_a_part_of_the_way(void **state) {
    (void)state;
    struct fixture f = fixture_new();
    runs(f, 4, 2800, 2); /* twice as long: believed by a fifth, and by its neighbours no more than it is itself */
    assert_int_equal(f.table->latency_ns[4], 1680);
    assert_int_equal(f.table->latency_ns[5], 1800);
    fixture_free(f);

    f = fixture_new(); /* but single runs of many sizes add up */
    for (uint32_t b = 1; b <= BATCH; b++)
        runs(f, b, 2 * (100 * b + 1000), 1);
    for (uint32_t b = 1; b <= BATCH; b++)
        assert_true(f.table->latency_ns[b] > 4 * (100 * b + 1000) / 3);
    fixture_free(f);
}

static void one_outlier_does_not_throw_the_table_off(void **state) {
    (void)state;
    struct fixture f = fixture_new();
    runs(f, 4, 1400, ROLLING_WINDOW);
    int64_t before = f.table->latency_ns[4];
    runs(f, 4, 14000, 1); /* the machine hiccuped */
    assert_int_equal(f.table->latency_ns[4], before);
    assert_int_equal(f.table->latency_ns[8], 1800);
    runs(f, 4, 14000, 1); /* twice in ten is no accident */
    assert_int_equal(f.table->latency_ns[4], 14000);
    assert_sound(f.table);
    fixture_free(f);
}

static void an_outlier_of_a_size_that_never_ran_weighs_little(void **state) {
    (void)state;
    struct fixture f = fixture_new();
    for (uint32_t b = 1; b <= BATCH; b++)
        if (b != 8)
            runs(f, b, 100 * b + 1000, ROLLING_WINDOW);
    runs(f, 8, 18000, 1); /* ten times */
    assert_true(f.table->latency_ns[8] < 2 * 1800);
    assert_int_equal(f.table->latency_ns[7], 1700);
    assert_sound(f.table);
    fixture_free(f);
}

static void what_changes_nothing_says_so_and_nonsense_is_ignored(void **state) {
    (void)state;
    struct fixture f = fixture_new();
    runs(f, 4, 1400, ROLLING_WINDOW);
    assert_false(rolling_add(f.rolling, 4, 1400, f.table));
    assert_false(rolling_add(f.rolling, 4, 1300, f.table));
    assert_false(rolling_add(f.rolling, 0, 1400, f.table));
    assert_false(rolling_add(f.rolling, BATCH + 1, 1400, f.table));
    assert_false(rolling_add(f.rolling, 4, 0, f.table));
    fixture_free(f);
}

/* Whatever is measured, the table stays usable; and with honest noise it covers nearly all runs. */
static void random_runs_leave_a_sound_table(void **state) {
    (void)state;
    struct fixture f = fixture_new();
    struct rng rng;
    rng_seed(&rng, 3);
    for (int i = 0; i < 5000; i++) {
        rolling_add(f.rolling, (uint32_t)rng_below(&rng, BATCH + 2), (int64_t)rng_below(&rng, 100000), f.table);
        assert_sound(f.table);
    }
    int over = 0;
    for (int i = 0; i < 20000; i++) {
        uint32_t items = 1 + (uint32_t)rng_below(&rng, BATCH);
        int64_t run_ns = (int64_t)((100.0 * items + 1000) * (1 + 0.02 * rng_uniform(&rng)));
        over += i > 2000 && run_ns > f.table->latency_ns[items];
        rolling_add(f.rolling, items, run_ns, f.table);
    }
    assert_true(over < 18000 / 10); /* a run is the slowest of eleven once in eleven */
    assert_true(f.table->latency_ns[8] < 1.03 * 1800);
    fixture_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_window_speaks_for_its_size),
        cmocka_unit_test(the_slowest_of_the_window_counts),
        cmocka_unit_test(a_size_that_never_ran_follows_its_neighbours),
        cmocka_unit_test(a_few_runs_move_it_a_part_of_the_way),
        cmocka_unit_test(one_outlier_does_not_throw_the_table_off),
        cmocka_unit_test(an_outlier_of_a_size_that_never_ran_weighs_little),
        cmocka_unit_test(what_changes_nothing_says_so_and_nonsense_is_ignored),
        cmocka_unit_test(random_runs_leave_a_sound_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
