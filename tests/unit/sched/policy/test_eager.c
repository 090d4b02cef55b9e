/* test_eager.c - the work-conserving policy: nothing waits; the order and the drop are options. */
#include "unit/sched/policy/policy_fixture.h"
#include "unit/test.h"

TEST(nothing_waits) {
    struct fixture f = fixture_new(&policy_eager, 1000);
    update(&f);
    for (uint32_t items = 1; items <= BATCH_MAX; items++) {
        struct batch_times t = times(&f, items, false);
        for (int level = 0; level < SUPPLY_LEVELS; level++)
            assert_int_equal(t.start_ns[level], 0);
    }
    fixture_free(&f);
}

TEST(the_order_is_an_option) {
    static const struct {
        const char *order;
        int64_t order_ns; /* of a batch of 4 */
    } cases[] = {
        {"frontrun", 90000000},
        {"invalid_after", 91000000},
        {"first_come", 75000000},
        {"last_update", 80000000},
    };
    struct fixture f = fixture_new(&policy_eager, 1000);
    update(&f);
    assert_int_equal(times(&f, 4, false).order_ns, cases[0].order_ns); /* the preset */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        option_set(&f, "order", cases[i].order);
        update(&f);
        assert_int_equal(times(&f, 4, false).order_ns, cases[i].order_ns);
    }
    f.view.rates.last_arrival_ns = 85000000; /* of a request that cannot join */
    assert_int_equal(times(&f, 4, true).order_ns, 85000000);
    fixture_free(&f);
}

TEST(only_what_is_hopeless_is_dropped_unless_asked) {
    struct fixture f = fixture_new(&policy_eager, 1000);
    update(&f);
    assert_int_equal(f.view.target_items, 1);
    option_set(&f, "drop", "window");
    update(&f);
    assert_int_equal(f.view.target_items, 7); /* 0.7 of 10.5 */
    option_set(&f, "target_share", "0.4");
    update(&f);
    assert_int_equal(f.view.target_items, 4);
    fixture_free(&f);
}
