/* test_executor_watch.c - runs that hang: they are stopped, or given up with their accelerator. The watch is handed the
 * time. */
/* Starts threads. */
#include "unit/test.h"

#include "unit/back/executor/bad_engine.h"

static void wait_a_little(void) {
    nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
}

/* A second at a time. */
static void watch_for(struct rig *rig, int64_t *now_ns, int64_t ns) {
    for (int64_t until_ns = *now_ns + ns; *now_ns < until_ns;) {
        *now_ns += NS_PER_S;
        executor_watch(rig->executor, *now_ns, false);
    }
}

static void hang(struct rig *rig, struct crowd *c, int64_t *now_ns) {
    run_plan(rig, c->pointers, c->count);
    while (!atomic_load(&bad.hanging))
        wait_a_little();
    *now_ns = 1000 * NS_PER_S;
    executor_watch(rig->executor, *now_ns, false);
}

static struct rig *rig_hanging(const struct engine_ops *engine, const float *firsts, uint32_t count, struct crowd *c,
                               int64_t *now_ns) {
    struct rig *rig = bad_rig_start(engine);
    crowd_make(c, firsts, count, later());
    hang(rig, c, now_ns);
    return rig;
}

/* The run is over after so long. */
static void watch_until_answered(struct rig *rig, const struct crowd *c, int64_t *now_ns, int64_t ns) {
    watch_for(rig, now_ns, ns);
    take_unlike(rig);
    crowd_take(rig, c);
}

/* What a batch of so many may take, by the rig's profile. */
static int64_t limit_ns(uint32_t items) {
    return RUN_TIMES_MOST * (1 + (int64_t)items) * NS_PER_S;
}

TEST(a_run_that_hangs_is_stopped) {
    struct crowd c;
    int64_t now_ns;
    struct rig *rig = rig_hanging(&bad_engine, (const float[]){HANGS}, 1, &c, &now_ns);

    watch_for(rig, &now_ns, limit_ns(1) - NS_PER_S);
    assert_false(atomic_load(&bad.stopped));
    watch_until_answered(rig, &c, &now_ns, NS_PER_S);
    assert_int_equal(c.requests[0].result.status, REQUEST_FAILED);
    assert_non_null(strstr(c.requests[0].result.block->failure, "took too long, and was stopped"));
    output_block_put(c.requests[0].result.block);
    assert_false(c.requests[0].result.read);
    expect_serving(rig);
    rig_stop(rig);
}

TEST(who_hangs_together_runs_alone_from_then_on) {
    struct crowd c;
    int64_t now_ns;
    struct rig *rig = rig_hanging(&bad_engine, (const float[]){1, HANGS, 3}, 3, &c, &now_ns);

    watch_until_answered(rig, &c, &now_ns, limit_ns(3));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c.requests[i].result.status, REQUEST_LOST);
        assert_true(c.requests[i].result.suspect);
        assert_int_equal(c.requests[i].result.broke, 0);
    }
    assert_null(ring_peek(&rig->wiring.freed[0])); /* it does not leave */
    expect_serving(rig);
    rig_stop(rig);
}

/* A look after a long pause says nothing of the run. */
TEST(a_process_that_was_stopped_blames_nobody) {
    struct crowd c;
    int64_t now_ns;
    struct rig *rig = rig_hanging(&bad_engine, (const float[]){HANGS}, 1, &c, &now_ns);

    for (int i = 0; i < 3; i++)
        executor_watch(rig->executor, now_ns += 3600 * NS_PER_S, false);
    assert_false(atomic_load(&bad.stopped));
    atomic_store(&bad.let_go, true);
    take_unlike(rig);
    crowd_take(rig, &c);
    expect_failed(&c.requests[0], "it was terminated");
    rig_stop(rig);
}

TEST(what_does_not_stop_takes_its_accelerator_along_until_it_is_back) {
    struct rig *rig = bad_rig_start(&bad_engine);
    struct crowd c, next;
    struct ran_message ran;
    int64_t now_ns;

    crowd_make(&c, (const float[]){DEAF}, 1, later());
    hang(rig, &c, &now_ns);
    watch_for(rig, &now_ns, limit_ns(1) + RUN_STOP_NS);
    assert_true(atomic_load(&bad.stopped));
    watch_until_answered(rig, &c, &now_ns, NS_PER_S);
    take_news(rig, NEWS_LEAVES);
    assert_int_equal(c.requests[0].result.status, REQUEST_LOST);
    assert_int_equal(c.requests[0].result.broke, 1);
    assert_true(c.requests[0].result.read);

    crowd_make(&next, (const float[]){1}, 1, later()); /* lost without having run */
    run_plan(rig, next.pointers, 1);
    take_report(rig, &ran);
    crowd_take(rig, &next);
    assert_int_equal(next.requests[0].result.status, REQUEST_LOST);
    assert_int_equal(next.requests[0].result.broke, 0);
    assert_false(next.requests[0].result.read);

    assert_null(ring_peek(&rig->wiring.results[0]));
    atomic_store(&bad.let_go, true);
    take_done(rig, &c.requests[0]);
    assert_int_equal(c.requests[0].result.status, REQUEST_RELEASED);
    take_news(rig, NEWS_JOINS);
    expect_serving(rig);
    rig_stop(rig);
}

/* Of the others in the batch, who was in the run that hangs is under suspicion, the rest is not. */
TEST(who_waits_behind_a_run_that_hangs_is_sent_elsewhere) {
    struct rig *rig = bad_rig_start(&bad_engine);
    struct crowd c;
    int64_t now_ns;

    crowd_make(&c, (const float[]){1, DEAF, 3, 4}, 4, later());
    c.requests[1].card.alone = c.requests[3].card.alone = true; /* two runs before it, one after */
    hang(rig, &c, &now_ns);
    watch_until_answered(rig, &c, &now_ns, limit_ns(1) + RUN_STOP_NS + NS_PER_S);
    expect_ok(&c.requests[0]);
    expect_ok(&c.requests[2]);
    assert_int_equal(c.requests[1].result.status, REQUEST_LOST);
    assert_int_equal(c.requests[1].result.broke, 1);
    assert_int_equal(c.requests[3].result.status, REQUEST_LOST);
    assert_int_equal(c.requests[3].result.broke, 0);
    atomic_store(&bad.let_go, true);
    take_news(rig, NEWS_LEAVES);
    take_news(rig, NEWS_JOINS);
    take_done(rig, &c.requests[1]); /* it was read until now */
    expect_serving(rig);
    rig_stop(rig);
}

TEST(an_engine_that_cannot_stop_runs_is_given_up_at_once) {
    struct engine_ops engine = bad_engine;
    engine.stop = NULL;
    engine.go_on = NULL;
    struct crowd c;
    int64_t now_ns;
    struct rig *rig = rig_hanging(&engine, (const float[]){HANGS}, 1, &c, &now_ns);

    watch_until_answered(rig, &c, &now_ns, limit_ns(1));
    take_news(rig, NEWS_LEAVES);
    assert_int_equal(c.requests[0].result.broke, 1);
    atomic_store(&bad.let_go, true);
    take_news(rig, NEWS_JOINS);
    rig_stop(rig);
}

/* Memory that a run may read stays; the executor ends all the same. */
TEST(an_executor_ends_without_a_run_that_hangs) {
    struct rig *rig = bad_rig_start(&bad_engine);
    struct crowd c;
    int64_t now_ns;
    int rc;

    crowd_make(&c, (const float[]){DEAF}, 1, later());
    hang(rig, &c, &now_ns);
    watch_until_answered(rig, &c, &now_ns, limit_ns(1) + RUN_STOP_NS + NS_PER_S);
    assert_int_equal(executor_stop(rig->executor), -EBUSY);
    assert_true(c.requests[0].result.read);
    atomic_store(&bad.let_go, true);
    while ((rc = executor_stop(rig->executor)) == -EBUSY)
        wait_a_little();
    assert_int_equal(rc, 0);
    take_done(rig, &c.requests[0]);
    assert_int_equal(c.requests[0].result.status, REQUEST_RELEASED);
    wiring_destroy(&rig->wiring);
    free(rig->profile);
    served_model_release(&rig->model);
    free(rig);
}
