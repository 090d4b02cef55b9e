/* test_executor_run.c - batches that some of their requests make fail. */
/* Starts threads. */
#include "unit/test.h"

#include "unit/back/executor/bad_engine.h"

TEST(one_bad_request_is_answered_alone) {
    for (uint32_t at = 0; at < BATCH_MAX; at++) {
        struct rig *rig = bad_rig_start(&bad_engine);
        struct crowd c;
        float firsts[BATCH_MAX];

        for (uint32_t i = 0; i < BATCH_MAX; i++)
            firsts[i] = i == at ? BAD + 7 : (float)(i + 1);
        crowd_make(&c, firsts, BATCH_MAX, later());
        run_plan(rig, c.pointers, c.count);
        take_unlike(rig);
        crowd_take(rig, &c);
        for (uint32_t i = 0; i < BATCH_MAX; i++)
            if (i == at)
                expect_failed(&c.requests[i], "1007 is out of range");
            else
                expect_ok(&c.requests[i]);
        assert_true(bad.runs <= 1 + 3 + 2);
        if (at > 0)
            assert_int_equal(bad.trials, 0); /* others ran */
        assert_int_equal(executor_counters(rig->executor, 0)->failed_batches, 1);
        assert_int_equal(executor_counters(rig->executor, 0)->requests, BATCH_MAX);
        rig_stop(rig);
    }
}

TEST(several_bad_requests_have_a_sentence_each) {
    struct rig *rig = bad_rig_start(&bad_engine);
    struct crowd c;
    char want[64];

    crowd_make(&c, (const float[]){BAD, 2, BAD + 1, BAD + 2, 5}, 5, later());
    run_plan(rig, c.pointers, c.count);
    take_unlike(rig);
    crowd_take(rig, &c);
    for (uint32_t i = 0, n = 0; i < 5; i++) {
        if (c.data[i][0] < BAD) {
            expect_ok(&c.requests[i]);
            continue;
        }
        snprintf(want, sizeof(want), "%u is out of range", BAD + n++);
        expect_failed(&c.requests[i], want);
    }
    expect_serving(rig);
    rig_stop(rig);
}

/* Trial runs are for finding out whether the engine works, not for each bad input. */
TEST(bad_requests_do_not_have_the_engine_tried_each_time) {
    struct rig *rig = bad_rig_start(&bad_engine);
    struct crowd c;
    int64_t start_ns = clock_now_ns();

    for (int i = 0; i < 50; i++) {
        crowd_make(&c, (const float[]){BAD}, 1, later());
        run_plan(rig, c.pointers, 1);
        take_unlike(rig);
        crowd_take(rig, &c);
        expect_failed(&c.requests[0], "1000 is out of range");
    }
    assert_true(bad.trials <= 1 + (clock_now_ns() - start_ns) / NS_PER_S);
    rig_stop(rig);
}

TEST(what_is_late_after_a_failure_is_not_run) {
    struct rig *rig = bad_rig_start(&bad_engine);
    struct crowd c;
    int64_t deadline_ns = clock_now_ns() + 50 * NS_PER_MS;

    crowd_make(&c, (const float[]){1, BAD, 3, 4}, 4, later());
    c.requests[0].card.deadline_ns = c.requests[1].card.deadline_ns = deadline_ns;
    atomic_store(&bad.fails_at_ns, deadline_ns + 1);
    run_plan(rig, c.pointers, c.count);
    take_unlike(rig);
    crowd_take(rig, &c);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(c.requests[i].result.status, REQUEST_REFUSED);
        assert_int_equal(c.requests[i].result.refusal, REFUSAL_DEADLINE);
    }
    expect_ok(&c.requests[2]);
    expect_ok(&c.requests[3]);
    rig_stop(rig);
}

TEST(what_takes_too_long_apart_goes_back) {
    struct rig *rig = bad_rig_start(&bad_engine);
    struct crowd c;

    profile_set_line(rig->profile, BATCH_MAX, 1, 1); /* little time for parts */
    atomic_store(&bad.fails_after_ns, 20 * NS_PER_MS);
    crowd_make(&c, (const float[]){BAD, BAD + 1, 3, 4}, 4, later());
    run_plan(rig, c.pointers, c.count);
    take_unlike(rig);
    crowd_take(rig, &c);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(c.requests[i].result.status, REQUEST_LOST);
        assert_true(c.requests[i].result.suspect);
        assert_int_equal(c.requests[i].result.broke, 0);
    }
    assert_int_equal(bad.runs, 2);
    rig_stop(rig);
}

TEST(who_is_under_suspicion_runs_alone) {
    struct rig *rig = bad_rig_start(&bad_engine);
    struct crowd c;

    crowd_make(&c, (const float[]){1, 2, 3, 4}, 4, later());
    c.requests[0].card.alone = c.requests[2].card.alone = true;
    run_plan(rig, c.pointers, c.count);
    take_unlike(rig);
    crowd_take(rig, &c);
    for (int i = 0; i < 4; i++)
        expect_ok(&c.requests[i]);
    assert_int_equal(bad.runs, 3);
    assert_int_equal(bad.sizes[0], 2);
    assert_int_equal(bad.sizes[1], 1);
    assert_int_equal(bad.sizes[2], 1);
    assert_int_equal(executor_counters(rig->executor, 0)->failed_batches, 0);
    rig_stop(rig);
}

/* Who was in the run that broke the engine may have broken it. */
TEST(what_breaks_the_engine_is_known_by_it) {
    struct rig *rig = bad_rig_start(&bad_engine);
    struct crowd c;

    crowd_make(&c, (const float[]){1, 2, BREAKS, 4}, 4, later());
    c.requests[3].card.alone = true;
    run_plan(rig, c.pointers, c.count);
    take_unlike(rig);
    crowd_take(rig, &c);
    take_news(rig, NEWS_LEAVES);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(c.requests[i].result.status, REQUEST_LOST);
        assert_int_equal(c.requests[i].result.broke, i < 3); /* the last had not run */
        assert_int_equal(c.requests[i].result.suspect, i < 3);
    }
    rig_stop(rig);
}
