/* test_rank_accelerators.c - when accelerators are offered, and how long before they are free. */
#include "unit/sched/core/rank_rig.h"

/* A batch has been sealed that runs from 10 to 110, and its model has another candidate. */
static struct fixture fixture_sealed(void) {
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    sealed(&f, 0, 0, 10, candidate_at(0, 1000));
    return f;
}

/* The same, and while that runs the accelerator has been offered ahead, at 100. */
static struct fixture fixture_granted_ahead(void) {
    struct fixture f = fixture_sealed();
    timer(&f, 100);
    assert_granted(&f, 0, 0);
    return f;
}

TEST(a_batch_is_sealed_while_the_one_before_it_runs) {
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    assert_granted(&f, 0, 0);
    assert_true(f.out.grants[0].free_ns == INT64_MIN);
    sealed(&f, 0, 0, 10, candidate_at(0, 1000));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 100); /* 10 before it ends at 110 */
    timer(&f, 99);
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_free(f.core), 0);
    timer(&f, 100);
    assert_granted(&f, 0, 0);
    assert_int_equal(f.out.grants[0].free_ns, 110);
    sealed(&f, 100, 0, 110, candidate_at(0, 1000));
    /* two are enough, however late the first one is */
    timer(&f, 205);
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, TIME_NEVER);
    /* the second began when the first one ended */
    ran_until(&f, 230, 230);
    assert_nothing(&f);
    assert_true(f.out.wake_ns > 230 && f.out.wake_ns < 330);
    free(f.core);
}

/* When the next batch may be sealed after one of 100 that took 300. */
static int64_t offered_after(bool unlike) {
    struct fixture f = fixture_sealed();
    rank_told_end(f.core, 310, 0, 310, unlike, &f.out);
    assert_granted(&f, 0, 0);
    sealed(&f, 310, 0, 310, candidate_at(0, 10000));
    assert_nothing(&f);
    free(f.core);
    return f.out.wake_ns;
}

TEST(a_batch_that_did_not_run_as_others_do_says_nothing_of_the_pace) {
    assert_true(offered_after(true) < offered_after(false));
}

TEST(what_ends_before_it_was_due_is_free_at_once) {
    struct fixture f = fixture_sealed();
    ran_until(&f, 52, 50);
    assert_granted(&f, 0, 0);
    assert_true(f.out.grants[0].free_ns == INT64_MIN);
    assert_int_equal(rank_core_accelerators_busy(f.core), 1);
    free(f.core);
}

TEST(ends_while_the_next_is_being_sealed_are_told_apart) {
    struct fixture f = fixture_granted_ahead();
    ran_until(&f, 105, 105); /* the first */
    assert_nothing(&f);
    ran_until(&f, 107, 107); /* the second: a short one that overtook its answer */
    assert_nothing(&f);
    sealed(&f, 108, 0, 110, candidate_at(0, 1000));
    assert_granted(&f, 0, 0);
    assert_true(f.out.grants[0].free_ns == INT64_MIN);
    sealed(&f, 109, 0, 119, none);
    ran_until(&f, 219, 219);
    assert_int_equal(rank_core_accelerators_busy(f.core), 0);
    assert_int_equal(rank_core_accelerators_free(f.core), 1);
    free(f.core);
}

TEST(nobody_is_woken_for_an_offer_that_nobody_wants) {
    struct fixture f = fixture_ahead();
    candidate(&f, 0, 0, candidate_at(0, 1000));
    sealed(&f, 0, 0, 10, none);
    assert_int_equal(f.out.wake_ns, TIME_NEVER);
    /* who comes later finds it free as if it had been before: what is only ready waits for its time */
    candidate(&f, 105, 1, candidate_at(108, 1000));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 108);
    timer(&f, 108);
    assert_granted(&f, 1, 0);
    assert_int_equal(f.out.grants[0].free_ns, 110);
    free(f.core);
}

TEST(what_runs_faster_than_its_table_is_offered_earlier) {
    struct fixture f = fixture_ahead();
    int64_t now = 0;
    candidate(&f, now, 0, candidate_at(0, 1000000));
    for (int i = 0; i < 200; i++) { /* each takes 60 instead of 100 */
        assert_granted(&f, 0, 0);
        sealed(&f, now, 0, now + 10, none);
        now += 70;
        ran_until(&f, now, now);
        candidate(&f, now, 0, candidate_at(now, 1000000));
    }
    sealed(&f, now, 0, now + 10, candidate_at(now, 1000000));
    assert_in_range(f.out.wake_ns, now + 50, now + 61); /* 10 before 70, less a little for the hops that were seen */
    free(f.core);
}

TEST(a_slow_answer_makes_the_next_offer_earlier) {
    struct fixture f = fixture_ahead();
    int64_t now = 0;
    candidate(&f, now, 0, candidate_at(0, 1000000));
    for (int i = 0; i < 500; i++) {
        assert_granted(&f, 0, 0);
        now += 5; /* from the grant to the answer */
        sealed(&f, now, 0, now, none);
        now += 100;
        ran_until(&f, now, now);
        candidate(&f, now, 0, candidate_at(now, 1000000));
    }
    sealed(&f, now, 0, now, candidate_at(now, 1000000));
    assert_in_range(f.out.wake_ns, now + 83, now + 86); /* 10 for the way, 5 for the answer */
    free(f.core);
}

TEST(what_is_given_back_ahead_is_offered_when_it_is_free) {
    struct fixture f = fixture_granted_ahead();
    answer(&f, 101, 0, 0, 0, candidate_at(0, 1000));
    assert_nothing(&f);
    assert_int_equal(f.out.wake_ns, 110);
    assert_int_equal(rank_core_accelerators_busy(f.core), 1);
    ran_until(&f, 109, 109);
    assert_granted(&f, 0, 0);
    free(f.core);
}

TEST(what_is_down_is_not_offered_and_is_free_when_it_is_back) {
    struct fixture f = fixture_sealed();
    timer(&f, 100);
    sealed(&f, 100, 0, 110, candidate_at(0, 1000));
    event(&f, 150, RANK_ACCELERATOR_DOWN, 0);
    ran_until(&f, 160, 160);
    timer(&f, 300);
    assert_nothing(&f);
    ran_until(&f, 310, 310);
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_busy(f.core), 0);
    event(&f, 320, RANK_ACCELERATOR_UP, 0);
    assert_granted(&f, 0, 0);
    free(f.core);
}

/* Found by tests/sim/test_grants.c. */
TEST(what_is_down_is_not_offered_when_it_is_given_back_ahead) {
    struct fixture f = fixture_granted_ahead();
    event(&f, 100, RANK_ACCELERATOR_DOWN, 0);
    answer(&f, 101, 0, 0, 0, candidate_at(0, 1000));
    timer(&f, 300);
    assert_nothing(&f);
    ran_until(&f, 310, 310);
    assert_nothing(&f);
    assert_int_equal(rank_core_accelerators_free(f.core), 0);
    event(&f, 320, RANK_ACCELERATOR_UP, 0);
    assert_granted(&f, 0, 0);
    free(f.core);
}
