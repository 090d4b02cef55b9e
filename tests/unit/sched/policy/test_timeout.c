/* test_timeout.c - batches by size and age: the preferred size, the longest delay, and both as shares. */
#include "unit/sched/policy/policy_fixture.h"
#include "unit/test.h"

TEST(without_a_delay_nothing_waits) {
    struct fixture f = fixture_new(&policy_timeout, 1000);
    update(&f);
    struct batch_times t = times(&f, 1, false);
    assert_int_equal(t.start_ns[SUPPLY_SCARCE], 75000000); /* long past */
    assert_int_equal(t.start_ns[SUPPLY_SCARCE], 75000000);
    fixture_free(&f);
}

TEST(a_batch_waits_for_the_preferred_size_or_its_delay) {
    struct fixture f = fixture_new(&policy_timeout, 1000);
    option_set(&f, "max_queue_delay_us", "3000");
    update(&f);
    /* no preferred size: until the largest */
    assert_int_equal(times(&f, 15, false).start_ns[SUPPLY_SCARCE], 78000000);
    assert_int_equal(times(&f, 16, false).start_ns[SUPPLY_SCARCE], 0);
    assert_int_equal(times(&f, 5, true).start_ns[SUPPLY_SCARCE], 0);
    option_set(&f, "preferred_batch_size", "8");
    update(&f);
    assert_int_equal(times(&f, 7, false).start_ns[SUPPLY_SCARCE], 78000000);
    assert_int_equal(times(&f, 7, false).start_ns[SUPPLY_SCARCE], 78000000);
    assert_int_equal(times(&f, 8, false).start_ns[SUPPLY_SCARCE], 0);
    assert_int_equal(times(&f, 9, false).start_ns[SUPPLY_SCARCE], 0);
    assert_int_equal(f.view.items_cap, 0);
    option_set(&f, "max_batch_size", "12");
    update(&f);
    assert_int_equal(f.view.items_cap, 12);
    fixture_free(&f);
}

static const uint32_t sizes[] = {4, 8};

TEST(a_models_own_sizes_and_delay_go_before_the_options) {
    struct fixture f = fixture_new(&policy_timeout, 1000);
    option_set(&f, "max_queue_delay_us", "3000");
    option_set(&f, "preferred_batch_size", "2");
    option_set(&f, "batch_share", "0.42");
    f.view.preferred = sizes;
    f.view.preferred_count = 2;
    f.view.wait_ns = (int64_t)(7 * MS);
    update(&f);
    assert_int_equal(f.view.items_cap, 0);
    assert_int_equal(times(&f, 3, false).start_ns[SUPPLY_SCARCE], 82000000);
    assert_int_equal(times(&f, 4, false).start_ns[SUPPLY_SCARCE], 0);
    f.view.wait_ns = WAIT_NONE_NS;
    update(&f);
    assert_int_equal(times(&f, 3, false).start_ns[SUPPLY_SCARCE], 75000000);
    fixture_free(&f);
}

/* As Triton's: the largest that is there, until the oldest has waited long enough; then all. */
TEST(a_batch_is_cut_to_a_preferred_size) {
    static const struct {
        uint32_t items;
        int64_t waited_ms, delay_ms;
        uint32_t want;
    } cases[] = {{3, 1, 7, 3}, {4, 1, 7, 4}, {7, 1, 7, 4}, {8, 1, 7, 8}, {15, 6, 7, 8}, {15, 7, 7, 15}, {7, 99, 0, 4}};
    struct fixture f = fixture_new(&policy_timeout, 1000);
    f.view.preferred = sizes;
    f.view.preferred_count = 2;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        f.view.wait_ns = cases[i].delay_ms ? cases[i].delay_ms * (int64_t)MS : WAIT_NONE_NS;
        update(&f);
        assert_int_equal(
            policy_timeout.batch_preferred(&f.view, f.own, cases[i].items, 100, 100 + cases[i].waited_ms * (int64_t)MS),
            cases[i].want);
    }
    fixture_free(&f);
}

TEST(the_oldest_goes_first) {
    struct fixture f = fixture_new(&policy_timeout, 1000);
    update(&f);
    assert_int_equal(times(&f, 4, false).order_ns, 75000000);
    assert_int_equal(times(&f, 16, true).order_ns, 75000000);
    fixture_free(&f);
}

TEST(shares_give_every_model_its_own) {
    struct fixture f = fixture_new(&policy_timeout, 1000);
    option_set(&f, "max_queue_delay_us", "3000");
    option_set(&f, "preferred_batch_size", "3");
    option_set(&f, "delay_share", "0.2");  /* of 25 ms */
    option_set(&f, "batch_share", "0.42"); /* of (25 - 5) / 1 */
    update(&f);
    assert_int_equal(f.view.items_cap, 8);
    assert_int_equal(times(&f, 7, false).start_ns[SUPPLY_SCARCE], 80000000);
    assert_int_equal(times(&f, 8, false).start_ns[SUPPLY_SCARCE], 0);
    option_set(&f, "batch_share", "0.01");
    update(&f);
    assert_int_equal(f.view.items_cap, 1);
    fixture_free(&f);
}
