/* test_fifo.c - first come, first served: at once, the oldest head first, whatever the deadline. */
#include "unit/sched/policy/policy_fixture.h"
#include "unit/test.h"

TEST(the_model_whose_head_is_oldest_goes_first_at_once) {
    struct fixture f = fixture_new(&policy_fifo, 1000);
    update(&f);
    struct batch_view old = batch_of(&f, 1), young = batch_of(&f, 9);
    young.head_arrival_ns += 1;
    young.deadline_ns -= 10000000;
    struct batch_times first = policy_fifo.batch_times(&f.view, f.own, 0, &old),
                       second = policy_fifo.batch_times(&f.view, f.own, 0, &young);
    assert_true(first.start_ns[SUPPLY_SCARCE] == 0 && second.start_ns[SUPPLY_SCARCE] == 0);
    assert_true(first.order_ns < second.order_ns);
    fixture_free(&f);
}

TEST(deadlines_are_nobodys_business) {
    struct fixture f = fixture_new(&policy_fifo, 1000);
    update(&f);
    assert_true(policy_fifo.deadline_blind);
    assert_int_equal(f.view.target_items, 1);
    fixture_free(&f);
}
