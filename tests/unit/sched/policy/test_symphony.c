/* test_symphony.c - when Symphony's candidates are schedulable, which goes first, and what is dropped. */
#include "unit/sched/policy/policy_fixture.h"
#include "unit/test.h"

static struct fixture symphony_new(const char *schedulable) {
    struct fixture f = fixture_new(&policy_symphony, 1000);
    option_set(&f, "schedulable", schedulable);
    update(&f);
    return f;
}

TEST(a_batch_waits_until_nobody_can_join) {
    struct fixture f = symphony_new("frontrun");
    for (uint32_t items = 1; items < BATCH_MAX; items++) {
        struct batch_times t = times(&f, items, false);
        assert_int_equal(t.start_ns[SUPPLY_SCARCE], (100 - 5 - (int64_t)items - 1) * 1000000); /* dl - l(b+1) */
        assert_int_equal(t.start_ns[SUPPLY_AMPLE], t.start_ns[SUPPLY_SCARCE]);
    }
    assert_int_equal(times(&f, 5, true).start_ns[SUPPLY_SCARCE], 0); /* more is queued, and does not fit */
    assert_int_equal(times(&f, BATCH_MAX, false).start_ns[SUPPLY_SCARCE], 0);
    fixture_free(&f);
}

TEST(it_may_start_at_once) {
    struct fixture f = symphony_new("immediately");
    assert_int_equal(times(&f, 1, false).start_ns[SUPPLY_SCARCE], 0);
    fixture_free(&f);
}

TEST(it_may_start_with_more_than_come_in_the_fixed_part_of_its_run) {
    struct fixture f = symphony_new("beta_lambda"); /* 5 ms at one a millisecond */
    assert_int_equal(times(&f, 5, false).start_ns[SUPPLY_SCARCE], 89000000);
    assert_int_equal(times(&f, 6, false).start_ns[SUPPLY_SCARCE], 0);
    f.view.rate_per_ns = 0;
    update(&f);
    assert_int_equal(times(&f, 1, false).start_ns[SUPPLY_SCARCE], 0);
    f.view.rate_per_ns = 1e6; /* absurd, but finite */
    update(&f);
    assert_int_equal(times(&f, 15, false).start_ns[SUPPLY_SCARCE], 79000000);
    fixture_free(&f);
}

TEST(it_may_start_with_the_target_batch) {
    struct fixture f = symphony_new("target_batch"); /* 0.7 of 10.5: 7 */
    assert_int_equal(times(&f, 6, false).start_ns[SUPPLY_SCARCE], 88000000);
    assert_int_equal(times(&f, 7, false).start_ns[SUPPLY_SCARCE], 0);
    option_set(&f, "target_share", "0.4");
    update(&f);
    assert_int_equal(times(&f, 3, false).start_ns[SUPPLY_SCARCE], 91000000);
    assert_int_equal(times(&f, 4, false).start_ns[SUPPLY_SCARCE], 0);
    fixture_free(&f);
}

TEST(the_order_is_by_frontrun_latest_start_or_the_codes_start) {
    struct fixture f = symphony_new("beta_lambda");
    assert_int_equal(times(&f, 4, false).order_ns, 90000000);
    option_set(&f, "order", "invalid_after");
    update(&f);
    assert_int_equal(times(&f, 4, false).order_ns, 91000000);
    option_set(&f, "order", "exec_at");
    update(&f);
    assert_int_equal(times(&f, 4, false).order_ns, 90000000); /* it is still to come */
    assert_int_equal(times(&f, 8, false).order_ns, 80000000); /* it may start: when it last changed */
    struct batch_view late = batch_of(&f, 4);
    late.changed_ns = 90500000;
    assert_int_equal(policy_symphony.batch_times(&f.view, f.own, 0, &late).order_ns, 90500000);
    f.view.rates.last_arrival_ns = 90600000; /* of a request that cannot join: the code sets it all the same */
    assert_int_equal(policy_symphony.batch_times(&f.view, f.own, 0, &late).order_ns, 90600000);
    fixture_free(&f);
}

TEST(the_drop_is_an_option) {
    struct fixture f = symphony_new("frontrun");
    assert_int_equal(f.view.target_items, 7);
    option_set(&f, "target_share", "0.5");
    update(&f);
    assert_int_equal(f.view.target_items, 5);
    option_set(&f, "drop", "timeout");
    update(&f);
    assert_int_equal(f.view.target_items, 1);
    fixture_free(&f);
}
