/* test_window.c - the best batch and the window drop's target, for l(b) = b + 5 ms and an SLO of 25 ms. */
#include "sched/policy/window.h"
#include "unit/sched/policy/policy_fixture.h"
#include "unit/test.h"

TEST(the_best_batch_gathers_while_its_head_can_wait) {
    struct fixture f = fixture_new(&policy_eager, 1000);
    /* one a millisecond: 10.5 come in 9.5 ms (one is there), and run for 15.5 ms */
    assert_near(batch_best(&f.view), 10.5, 1e-9);
    f.view.rate_per_ns = 0;
    assert_near(batch_best(&f.view), 1, 1e-9);
    f.view.rate_per_ns = 1;
    assert_near(batch_best(&f.view), 16, 1e-4); /* no more than pays */
    f.view.data_ns = 1000000;                   /* 2 ms an item with its transfer */
    assert_near(batch_best(&f.view), 10, 1e-4);
    f.view.ctrl_ns = 4000000;
    assert_near(batch_best(&f.view), 8, 1e-4);
    f.view.slo_ns = 3 * MS;
    assert_near(batch_best(&f.view), 1, 1e-9);
    fixture_free(&f);
}

TEST(the_target_is_a_share_of_it_or_one) {
    struct fixture f = fixture_new(&policy_eager, 1000);
    window_update(&f.view, DROP_WINDOW, 0.7);
    assert_near(f.view.batch_best, 10.5, 1e-9);
    assert_int_equal(f.view.target_items, 7); /* 7.35 */
    window_update(&f.view, DROP_WINDOW, 0.01);
    assert_int_equal(f.view.target_items, 1);
    f.view.items_worth = 4;
    window_update(&f.view, DROP_WINDOW, 0.9);
    assert_int_equal(f.view.target_items, 4); /* 3.6 */
    window_update(&f.view, DROP_TIMEOUT, 0.9);
    assert_int_equal(f.view.target_items, 1);
    fixture_free(&f);
}
