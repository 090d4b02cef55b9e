/* test_model_core.c - one model's queue, batches and refusals. */
#include "core/util/rng.h"
#include "unit/sched/core/model_fixture.h"

TEST(a_batch_is_what_is_queued_in_deadline_order) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 300, 1);
    assert_true(f->out.candidate_changed);
    assert_int_equal(model_core_items(f->core, 0), 1);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 300 - 30);
    arrive(f, 1, 2, 200, 1); /* an earlier deadline */
    arrive(f, 2, 3, 300, 1);
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 200 - 50);
    assert_int_equal(script.seen.due_ns, 200 - 60);
    assert_int_equal(model_core_queued(f->core), 3);
    grant(f, 10, 0);
    assert_int_equal(f->out.batch_requests, 3);
    assert_int_equal(f->out.batch_items, 3);
    assert_int_equal(f->out.batch_finish_ns - f->out.batch_run_ns, 10);
    assert_int_equal(f->out.batch_finish_ns, 60);
    assert_int_equal(handles(f, f->out.batch), 213);
    assert_true(f->out.candidate_changed);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], TIME_NEVER);
    assert_int_equal(f->out.wake_ns, TIME_NEVER);
    assert_true(model_core_idle(f->core));
    fixture_free(f);
}

TEST(a_batch_is_no_larger_than_its_head_has_time_for) {
    struct fixture *f = fixture_new();
    for (int i = 1; i <= 5; i++)
        arrive(f, 0, (uint64_t)i, 55, 1); /* time for l(3) = 50 */
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_true(script.seen.full);
    grant(f, 5, 0);
    assert_int_equal(handles(f, f->out.batch), 123);
    /* the rest: 50 left, time for three, and there are two */
    assert_int_equal(model_core_items(f->core, 0), 2);
    fixture_free(f);
}

TEST(an_arrival_that_cannot_join_changes_nothing_for_the_rank) {
    struct fixture *f = fixture_new();
    for (int i = 0; i < 3; i++)
        arrive(f, 0, (uint64_t)i, 55, 1);
    arrive(f, 1, 3, 55, 1);
    arrive(f, 2, 4, 55, 1);
    assert_false(f->out.candidate_changed);
    fixture_free(f);
}

/* Trap: an invalid candidate was thrown away until the model's next arrival. */
TEST(a_batch_past_its_latest_start_is_composed_anew) {
    struct fixture *f = fixture_new();
    for (int i = 1; i <= 3; i++)
        arrive(f, 0, (uint64_t)i, 100, 1);
    assert_int_equal(f->out.wake_ns, 100 - 50 + 1);
    timer(f, 51);
    assert_quiet(f);
    assert_true(f->out.candidate_changed);
    assert_int_equal(model_core_items(f->core, 0), 2);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 60);
    assert_int_equal(f->out.wake_ns, 61);
    fixture_free(f);
}

/* Trap: refused only at the deadline, and without telling the rank core. */
TEST(a_request_is_refused_as_soon_as_it_is_hopeless) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 100, 1);
    timer(f, 70); /* l(1) = 30 still fits */
    assert_quiet(f);
    timer(f, 71);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_DEADLINE);
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_true(f->out.candidate_changed);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], TIME_NEVER);
    arrive(f, 80, 2, 109, 1); /* hopeless when it comes */
    assert_int_equal(handles(f, f->out.refused), 2);
    arrive(f, 80, 3, 400, BATCH + 1); /* larger than any batch */
    assert_int_equal(handles(f, f->out.refused), 3);
    assert_int_equal(f->pool.used, 0);
    fixture_free(f);
}

/* Trap: dropping only what can no longer make it is not flat-top; the window drop keeps batches at the target. */
TEST(the_window_drop_removes_heads_until_the_target_fits) {
    struct fixture *f = fixture_new();
    script.target = 3;
    arrive(f, 0, 1, 90, 1);
    arrive(f, 0, 2, 95, 1);
    arrive(f, 0, 3, 120, 1);
    arrive(f, 0, 4, 130, 1);
    target(f, 0, 3);
    assert_int_equal(model_core_items(f->core, 0), 4);
    target(f, 40, 3); /* l(3) = 50 fits before 90 */
    assert_quiet(f);
    timer(f, 41); /* and now it does not: 2 heads a batch of 3 */
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 95 - 50);
    timer(f, 46); /* two are left, which is all there is: no more is wanted than that */
    assert_int_equal(handles(f, f->out.refused), 2);
    assert_int_equal(model_core_items(f->core, 0), 2);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 120 - 40);
    fixture_free(f);
}

/* With few queued, all of them are wanted; one more may be too many for the head. */
TEST(an_arrival_may_cost_the_head_its_place) {
    struct fixture *f = fixture_new();
    script.target = 3;
    arrive(f, 0, 1, 100, 1);
    target(f, 0, 3);
    arrive(f, 65, 2, 200, 1); /* l(1) = 30 fits before 100, l(2) = 40 does not */
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_int_equal(model_core_items(f->core, 0), 1);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 200 - 30);
    fixture_free(f);
}

/* Trap: a granted batch that starts in the future seals it and idles the accelerator. */
TEST(a_grant_before_the_batch_is_ready_gives_the_accelerator_back) {
    struct fixture *f = fixture_new();
    script.start_ns[SUPPLY_SCARCE] = 60;
    script.start_ns[SUPPLY_AMPLE] = 50;
    arrive(f, 0, 1, 500, 1);
    grant(f, 49, 0);
    assert_quiet(f);
    assert_int_equal(f->out.batch_items, 0);
    assert_true(f->out.candidate_changed); /* the answer brings the candidate all the same */
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 60);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_AMPLE], 50);
    grant(f, 50, 0); /* of one that is scarce */
    assert_int_equal(f->out.batch_items, 0);
    grant_at(f, 50, 0, SUPPLY_AMPLE);
    assert_int_equal(handles(f, f->out.batch), 1);
    fixture_free(f);
}

/* Trap: `earliest` depends on delay(b), and b on it. */
TEST(the_delay_before_a_batch_counts_with_its_size) {
    script_reset();
    struct fixture *f = fixture_with(
        (struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .ctrl_ns = 5, .data_ns = 2});
    for (int i = 1; i <= 4; i++)
        arrive(f, 0, (uint64_t)i, 70, 1); /* l(4) + delay(4) = 60 + 13 > 70; l(3) + delay(3) = 61 */
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 70 - 61);
    step(f, 0, (struct model_event){.kind = MODEL_DELAYS, .delays = {1, 0}});
    assert_int_equal(model_core_items(f->core, 0), 4);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 70 - 61);
    grant(f, 3, 0);
    assert_int_equal(f->out.batch_finish_ns - f->out.batch_run_ns, 4);
    assert_int_equal(f->out.batch_finish_ns, 64);
    fixture_free(f);
}

TEST(a_batch_counts_items) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 500, 3);
    arrive(f, 0, 2, 500, 2);
    assert_int_equal(model_core_items(f->core, 0), 5);
    arrive(f, 0, 3, 500, 4); /* 9 are too many: the batch is full with 5 */
    assert_int_equal(model_core_items(f->core, 0), 5);
    assert_true(script.seen.full);
    arrive(f, 0, 4, 500, 1); /* it fits beside the first two */
    assert_int_equal(model_core_items(f->core, 0), 6);
    grant(f, 0, 0);
    assert_int_equal(f->out.batch_requests, 3);
    assert_int_equal(handles(f, f->out.batch), 124);
    assert_int_equal(model_core_items(f->core, 0), 4);
    assert_false(script.seen.full);
    fixture_free(f);
}

/* Small requests keep coming, and fill every batch so that the large one does not fit beside them. It has three before
 * it, so the fourth batch has it. */
TEST(a_large_request_is_not_starved) {
    struct fixture *f = fixture_new();
    for (uint64_t i = 1; i <= 3; i++)
        arrive(f, 0, i, 500, 5);
    arrive(f, 0, 4, 500, 8);
    uint64_t small = 5;
    for (int batch = 1; batch <= 4; batch++) {
        for (int i = 0; i < 4; i++)
            arrive(f, 0, small++, 500, 1);
        grant(f, 0, 0);
        bool large = false;
        for (uint32_t node = f->out.batch; node != REQUEST_NONE; node = f->nodes[node].next)
            large |= f->nodes[node].handle == 4;
        assert_int_equal(large, batch == 4);
        assert_int_equal(f->out.batch_items, 8);
        handles(f, f->out.batch);
    }
    fixture_free(f);
}

/* A table that gets dearer over 4 items caps batches there, but a single request may be larger. */
TEST(a_request_over_the_usual_cap_runs_alone) {
    script_reset();
    struct profile *bent = line(10, 20);
    for (uint32_t b = 5; b <= BATCH + 1; b++)
        bent->latency_ns[b] = 60 + 30 * (b - 4);
    struct fixture *f = fixture_with((struct model_core_config){.types = 1, .profiles = {bent}, .slo_ns = 1000});
    for (int i = 1; i <= 5; i++)
        arrive(f, 0, (uint64_t)i, 500, 1);
    assert_int_equal(model_core_items(f->core, 0), 4);
    grant(f, 0, 0);
    assert_int_equal(handles(f, f->out.batch), 1234);
    arrive(f, 0, 6, 400, 7); /* earlier than 5 */
    assert_int_equal(model_core_items(f->core, 0), 7);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 400 - 150);
    grant(f, 0, 0);
    assert_int_equal(handles(f, f->out.batch), 6);
    fixture_free(f);
}

TEST(a_cancelled_request_leaves_wherever_it_waits) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 100, 1);
    arrive(f, 0, 2, 200, 1);
    cancel(f, 1, 1, 100);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_CANCELLED);
    assert_int_equal(handles(f, f->out.refused), 1);
    assert_int_equal(model_core_items(f->core, 0), 1);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 170);
    cancel(f, 1, 1, 100); /* twice */
    assert_quiet(f);
    grant(f, 3, 0);
    assert_int_equal(handles(f, f->out.batch), 2);
    cancel(f, 4, 2, 200); /* in a batch already */
    assert_quiet(f);
    assert_int_equal(f->pool.used, 0);
    fixture_free(f);
}

TEST(each_type_has_its_own_candidate) {
    script_reset();
    struct fixture *f =
        fixture_with((struct model_core_config){.types = 2, .profiles = {line(10, 20), line(20, 40)}, .slo_ns = 1000});
    arrive(f, 0, 1, 100, 1);
    arrive(f, 0, 2, 110, 1);
    arrive(f, 0, 3, 300, 1);
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 100 - 50);
    assert_int_equal(model_core_items(f->core, 1), 3);
    assert_int_equal(f->out.candidates[1].invalid_after_ns, 100 - 100);
    timer(f, 41); /* the slow type can no longer make 1 (l(1) = 60), but 2 and 3 */
    assert_int_equal(model_core_items(f->core, 0), 3);
    assert_int_equal(model_core_items(f->core, 1), 1);
    assert_int_equal(f->out.candidates[1].invalid_after_ns, 110 - 60);
    timer(f, 51); /* nor 2 */
    assert_int_equal(f->out.candidates[1].invalid_after_ns, 300 - 60);
    grant(f, 51, 1);
    assert_int_equal(handles(f, f->out.batch), 3); /* out of the middle of the queue */
    assert_int_equal(f->out.batch_finish_ns, 51 + 60);
    assert_int_equal(model_core_items(f->core, 0), 2);
    assert_int_equal(f->out.candidates[1].start_ns[SUPPLY_SCARCE], TIME_NEVER);
    /* nobody is refused while the fast type can make them */
    assert_int_equal(f->out.refused, REQUEST_NONE);
    grant(f, 52, 0);
    assert_int_equal(handles(f, f->out.batch), 12);
    fixture_free(f);
}

/* An accelerator that is granted before it is free: the batch ends after that. */
TEST(a_batch_sealed_ahead_ends_when_its_accelerator_has_had_time) {
    script_reset();
    /* without fetch_ahead the 2*b pass on the accelerator, with it they pass before */
    for (int ahead = 0; ahead <= 1; ahead++) {
        struct fixture *f = fixture_with((struct model_core_config){
            .types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .ctrl_ns = 5, .data_ns = 2, .fetch_ahead = ahead});
        for (int i = 1; i <= 6; i++)
            arrive(f, 0, (uint64_t)i, 100, 1);
        assert_int_equal(model_core_items(f->core, 0), 6); /* 5 + 2*6 + 80 */
        struct grant_message message = {.kind = GRANT_ACCELERATOR, .free_ns = 43};
        step(f, 0, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
        assert_int_equal(f->out.batch_items, 3); /* 43 + 50 and the inputs; l(4) is 60 */
        assert_int_equal(f->out.batch_finish_ns, ahead ? 93 : 99);
        assert_int_equal(f->out.batch_run_ns, ahead ? 50 : 56);
        assert_int_equal(handles(f, f->out.batch), 123);
        assert_int_equal(model_core_items(f->core, 0), 3); /* for the others, every accelerator counts again */
        assert_int_equal(f->out.candidates[0].invalid_after_ns, 100 - 50 - 11);
        fixture_free(f);
    }
}

TEST(an_accelerator_that_would_be_free_too_late_is_given_back) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 60, 1);
    struct grant_message message = {.kind = GRANT_ACCELERATOR, .free_ns = 31};
    step(f, 0, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
    assert_quiet(f);
    assert_true(f->out.candidate_changed);
    assert_int_equal(f->out.candidates[0].invalid_after_ns, 30); /* another one may be free */
    grant(f, 30, 0);
    assert_int_equal(handles(f, f->out.batch), 1);
    fixture_free(f);
}

TEST(a_batch_knows_when_it_changed) {
    struct fixture *f = fixture_new();
    arrive(f, 3, 1, 100, 1);
    assert_int_equal(script.seen.changed_ns, 3);
    arrive(f, 7, 2, 100, 1);
    assert_int_equal(script.seen.changed_ns, 7);
    target(f, 9, 1); /* composed anew, as it was */
    assert_int_equal(script.seen.changed_ns, 7);
    cancel(f, 11, 2, 100);
    assert_int_equal(script.seen.changed_ns, 11);
    arrive(f, 12, 3, 50, 1); /* another head */
    assert_int_equal(script.seen.changed_ns, 12);
    fixture_free(f);
}

/* Two cores of two types get the same arrivals, grants and timers; one is told of arrivals one by one, the other that
 * more come. In the end of each instant they say the same, if deadlines come in order: which of two heads is dropped
 * may depend on which was known first. */
TEST(arrivals_of_one_time_settle_as_if_each_had) {
    struct rng rng;

    rng_seed(&rng, 11);
    for (int round = 0; round < 200; round++) {
        struct fixture *f[2];
        uint64_t handle = 0;
        int64_t now_ns = 0, deadline_ns = 0, slack_ns = 20 + (int64_t)rng_below(&rng, 200);
        script_reset();
        script.target = 1 + (uint32_t)rng_below(&rng, 6);
        for (int i = 0; i < 2; i++)
            f[i] = fixture_with(
                (struct model_core_config){.types = 2, .profiles = {line(10, 20), line(25, 10)}, .slo_ns = 300});
        for (int turn = 0; turn < 60; turn++) {
            uint64_t refused[2] = {0, 0};
            uint32_t count = (uint32_t)rng_below(&rng, 6), most = CAPACITY - f[0]->pool.used;
            now_ns += (int64_t)rng_below(&rng, 60);
            if (deadline_ns < now_ns + slack_ns)
                deadline_ns = now_ns + slack_ns;
            for (uint32_t n = 0; n < count && n < most; n++) {
                struct request_message message = {.handle = handle++,
                                                  .arrival_ns = now_ns,
                                                  .deadline_ns = deadline_ns += (int64_t)rng_below(&rng, 10),
                                                  .items = 1 + (uint32_t)rng_below(&rng, 2)};
                for (int i = 0; i < 2; i++) {
                    step(f[i], now_ns,
                         (struct model_event){.kind = i ? MODEL_ARRIVING : MODEL_ARRIVED, .request = &message});
                    refused[i] |= bits(f[i], f[i]->out.refused);
                }
            }
            for (int i = 0; i < 2; i++) {
                if (rng_below(&rng, 2) == 0) /* need not be said if something else happens */
                    continue;
                step(f[i], now_ns, (struct model_event){.kind = MODEL_SETTLED});
                refused[i] |= bits(f[i], f[i]->out.refused);
            }
            bool granted = rng_below(&rng, 3) == 0;
            for (int i = 0; i < 2; i++) {
                if (granted)
                    grant(f[i], now_ns, (uint32_t)turn % 2);
                else
                    timer(f[i], now_ns);
                refused[i] |= bits(f[i], f[i]->out.refused);
            }
            assert_int_equal(f[0]->out.batch_items, f[1]->out.batch_items);
            assert_int_equal(bits(f[0], f[0]->out.batch), bits(f[1], f[1]->out.batch));
            assert_int_equal(refused[0], refused[1]);
            assert_int_equal(f[0]->out.wake_ns, f[1]->out.wake_ns);
            assert_int_equal(model_core_queued(f[0]->core), model_core_queued(f[1]->core));
            if (f[0]->out.candidate_changed && f[1]->out.candidate_changed)
                assert_memory_equal(f[0]->out.candidates, f[1]->out.candidates, 2 * sizeof(struct candidate));
        }
        fixture_free(f[0]);
        fixture_free(f[1]);
    }
}

/* It starts at once, with what has joined it; what comes when it is gone waits as the policy says. */
TEST(a_batch_that_others_wait_for_does_not_wait) {
    struct fixture *f = fixture_new();
    script.start_ns[SUPPLY_SCARCE] = script.start_ns[SUPPLY_AMPLE] = 900;
    arrive(f, 100, 1, 1000, 1);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 900);
    step(f, 110, (struct model_event){.kind = MODEL_HURRIED, .hurried_ns = 110});
    assert_true(f->out.candidate_changed);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 0);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_AMPLE], 0);
    arrive(f, 120, 2, 1100, 1);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 0);
    grant(f, 130, 0);
    assert_int_equal(handles(f, f->out.batch), 12);
    arrive(f, 140, 3, 1200, 1);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 900);
    step(f, 150, (struct model_event){.kind = MODEL_HURRIED, .hurried_ns = TIME_NEVER});
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 0);
    fixture_free(f);
}

/* Triton's dynamic batcher: with a delay of 500, a request of another shape at 150 sends off what came before. */
TEST(with_timeouts_another_shape_sends_the_batch_off) {
    struct fixture *f = fixture_with((struct model_core_config){
        .types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .policy = &policy_timeout, .wait_ns = 500});
    arrive(f, 100, 1, 10000, 1);
    arrive(f, 120, 2, 10000, 1);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 600);
    step(f, 150, (struct model_event){.kind = MODEL_HURRIED, .hurried_ns = 150});
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 0);
    grant(f, 160, 0);
    assert_int_equal(handles(f, f->out.batch), 12);
    assert_int_equal(f->out.batch_ready_ns, 150); /* it waited for an accelerator from then on */
    arrive(f, 170, 3, 10000, 1);
    assert_int_equal(f->out.candidates[0].start_ns[SUPPLY_SCARCE], 670);
    grant(f, 700, 0);
    assert_int_equal(f->out.batch_ready_ns, 670);
    fixture_free(f);
}
