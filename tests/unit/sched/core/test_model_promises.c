/* test_model_promises.c - requests whose inputs are promised for later. */
#include "core/util/rng.h"
#include "unit/sched/core/model_fixture.h"

static void arrive_promised(struct fixture *f, int64_t now_ns, uint64_t handle, int64_t deadline_ns, int64_t ready_ns) {
    struct request_message message = {
        .handle = handle, .arrival_ns = now_ns, .deadline_ns = deadline_ns, .items = 1, .ready_ns = ready_ns};
    step(f, now_ns, (struct model_event){.kind = MODEL_ARRIVED, .request = &message});
}

static void prepared(struct fixture *f, int64_t now_ns, uint64_t handle) {
    struct request_message message = {.kind = REQUEST_READY, .handle = handle};
    step(f, now_ns, (struct model_event){.kind = MODEL_PREPARED, .request = &message});
}

TEST(promised_requests_join_when_their_inputs_are_there) {
    struct fixture *f = fixture_new();
    arrive_promised(f, 0, 1, 400, 100);
    assert_int_equal(model_core_items(f->core, 0), 0); /* no batch yet, but it is known */
    assert_int_equal(model_core_queued(f->core), 1);
    assert_false(model_core_idle(f->core));
    assert_int_equal(f->out.wake_ns, 100);
    arrive_promised(f, 1, 2, 390, 50);
    assert_int_equal(f->out.wake_ns, 50);
    arrive(f, 2, 3, 380, 1); /* waits for nobody */
    assert_int_equal(model_core_items(f->core, 0), 1);
    grant(f, 3, 0);
    assert_int_equal(handles(f, f->out.batch), 3);
    assert_int_equal(f->out.wake_ns, 50);
    timer(f, 50); /* as promised */
    assert_int_equal(model_core_items(f->core, 0), 1);
    assert_true(f->out.candidate_changed);
    prepared(f, 60, 1); /* before its time */
    assert_int_equal(model_core_items(f->core, 0), 2);
    prepared(f, 61, 2); /* it is in the queue already */
    prepared(f, 61, 9);
    grant(f, 70, 0);
    assert_int_equal(handles(f, f->out.batch), 21);
    assert_true(model_core_idle(f->core));
    assert_int_equal(f->out.wake_ns, TIME_NEVER);
    fixture_free(f);
}

TEST(promised_requests_that_cannot_be_in_time_are_refused_at_once) {
    struct fixture *f = fixture_new();
    arrive_promised(f, 0, 1, 300, 271); /* l(1) is 30 */
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_DEADLINE);
    assert_int_equal(handles(f, f->out.refused), 1);
    arrive_promised(f, 0, 2, 300, 270);
    assert_quiet(f);
    timer(f, 270);
    grant(f, 270, 0);
    assert_int_equal(handles(f, f->out.batch), 2);
    fixture_free(f);
}

TEST(promised_requests_can_be_cancelled) {
    struct fixture *f = fixture_new();
    for (uint64_t h = 1; h <= 3; h++)
        arrive_promised(f, 0, h, 400, 100 - (int64_t)h);
    cancel(f, 5, 2, 400);
    assert_int_equal(f->nodes[f->out.refused].refusal, REFUSAL_CANCELLED);
    assert_int_equal(handles(f, f->out.refused), 2);
    cancel(f, 6, 2, 400);
    assert_quiet(f);
    timer(f, 100);
    assert_int_equal(model_core_items(f->core, 0), 2);
    grant(f, 100, 0);
    assert_int_equal(handles(f, f->out.batch), 31); /* of equal deadlines, as they joined */
    fixture_free(f);
}

/* A batch behind one that still runs takes along what is promised until that ends. */
TEST(batches_sealed_ahead_count_on_promises) {
    struct fixture *f = fixture_new();
    arrive(f, 0, 1, 400, 1);
    arrive_promised(f, 0, 2, 401, 80);
    arrive_promised(f, 0, 3, 402, 81);
    struct grant_message message = {.kind = GRANT_ACCELERATOR, .free_ns = 80};
    step(f, 10, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
    assert_int_equal(handles(f, f->out.batch), 12);
    assert_int_equal(model_core_queued(f->core), 1);
    timer(f, 81);
    assert_int_equal(model_core_items(f->core, 0), 1);
    fixture_free(f);
}

/* Whatever comes, each request leaves once. */
TEST(promised_requests_leave_once) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct fixture *f = fixture_new();
        struct rng rng;
        rng_seed(&rng, seed);
        uint64_t away = 0, next = 0;
        int64_t now_ns = 0;
        for (int turn = 0; turn < 300; turn++) {
            now_ns += (int64_t)rng_below(&rng, 30);
            uint64_t some = next ? rng_below(&rng, next) : 0;
            switch (rng_below(&rng, 5)) {
            case 0:
                if (next == 60)
                    continue;
                arrive_promised(f, now_ns, next, now_ns + 40 + (int64_t)rng_below(&rng, 300),
                                rng_below(&rng, 4) ? now_ns + (int64_t)rng_below(&rng, 200) : 0);
                next++;
                break;
            case 1:
                prepared(f, now_ns, some);
                break;
            case 2:
                cancel(f, now_ns, some, 0); /* only who is promised is found without a deadline */
                break;
            case 3: {
                struct grant_message message = {.kind = GRANT_ACCELERATOR,
                                                .free_ns = now_ns + (int64_t)rng_below(&rng, 80)};
                step(f, now_ns, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
                break;
            }
            default:
                if (f->out.wake_ns > now_ns && f->out.wake_ns != TIME_NEVER)
                    now_ns = f->out.wake_ns;
                timer(f, now_ns);
            }
            uint64_t left[] = {bits(f, f->out.refused), bits(f, f->out.batch)};
            assert_int_equal(left[0] & left[1], 0);
            assert_int_equal(away & (left[0] | left[1]), 0);
            away |= left[0] | left[1];
            assert_int_equal(model_core_queued(f->core), next - (uint64_t)__builtin_popcountll(away));
        }
        timer(f, now_ns + 10000);
        away |= bits(f, f->out.refused);
        assert_int_equal(away, ((uint64_t)1 << next) - 1);
        assert_true(model_core_idle(f->core));
        fixture_free(f);
    }
}
