/* test_executor.c - gathering, slicing, failing and expiring, with an engine that remembers what it was given. */
/* Starts threads. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/engine/fingerprint.h"
#include "unit/back/executor/executor_rig.h"

/* What the engine saw in its last run that was not of zeros (models are warmed with those), and what it shall do. */
static struct {
    float data[BATCH_MAX * 2];
    int64_t dims[2];
    uint32_t items;
    int runs;
    bool fail, fail_load; /* the clients' batches; every load */
    bool broken;          /* every run fails */
    const void *place;
    int released, unloaded;
    pthread_t thread;
} seen;

struct engine {
    char *memory; /* that it has given for inputs */
    size_t bytes;
    int given;
};
struct engine_model {
    int unused;
};
static struct engine the_engine;
static struct engine_model the_model;

static const char *spy_version(void) {
    return "1";
}

static int spy_open(struct engine **engine, const struct engine_options *options, struct sy_error *err) {
    *engine = &the_engine;
    return 0;
}

static void spy_close(struct engine *engine) {
    assert_null(engine->memory);
}

static void *spy_memory(struct engine *engine, size_t bytes) {
    engine->given++;
    engine->bytes = bytes;
    return engine->memory = malloc(bytes);
}

static void spy_memory_free(struct engine *engine, void *memory) {
    if (memory == engine->memory)
        engine->memory = NULL;
    free(memory);
}

static int spy_load(struct engine *engine, const struct engine_model_source *source, struct engine_model **model,
                    struct sy_error *err) {
    if (seen.fail_load)
        return error_set(err, -EINVAL, "it will not load");
    *model = &the_model;
    return 0;
}

static void spy_unload(struct engine_model *model) {
    seen.unloaded++;
}

static void spy_release(struct output_block *block) {
    seen.released++;
    free(block->outputs[0].data);
    free(block);
}

/* y = 2x */
static int spy_run(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
                   struct output_block **outputs, struct sy_error *err) {
    seen.thread = pthread_self();
    const float *x = inputs[0].data;
    if (seen.broken)
        return error_set(err, -EIO, "the device is gone");
    if (x[0] >= 1) { /* a client's: trials are of less */
        seen.runs++;
        seen.items = items;
        seen.place = x;
        memcpy(seen.dims, inputs[0].dims, sizeof(seen.dims));
        memcpy(seen.data, x, inputs[0].bytes);
        if (seen.fail)
            return error_set(err, -EIO, "the engine says no");
    }
    *outputs = block_doubled(x, items, spy_release);
    return 0;
}

static int spy_signature(const char *path, const struct op_libraries *libraries, struct signature_room *signature,
                         struct sy_error *err) {
    return error_set(err, -ENOTSUP, "it has no files");
}

static const struct engine_ops spy = {
    .name = "spy",
    .version = spy_version,
    .open = spy_open,
    .close = spy_close,
    .load = spy_load,
    .unload = spy_unload,
    .run = spy_run,
    .signature = spy_signature,
};

static struct rig *rig_start(void) {
    seen.runs = seen.released = 0;
    return rig_start_with(&spy);
}

/* A request of one item runs, or fails, on its own. */
static void run_alone(struct rig *rig, struct rig_request *r, float *data) {
    struct ran_message ran;

    request_make(r, data, 1, later());
    run_plan(rig, (struct rig_request *const[]){r}, 1);
    take_report(rig, &ran);
    take_done(rig, r);
}

/* Of 1, 2 and 1 items, which lie apart and are 1 to 8. */
static void three_make(struct rig_request r[3]) {
    static float a[] = {1, 2}, b[] = {3, 4, 5, 6}, c[] = {7, 8};
    request_make(&r[0], a, 1, later());
    request_make(&r[1], b, 2, later());
    request_make(&r[2], c, 1, later());
}

static void three_run(struct rig *rig, struct rig_request r[3], struct ran_message *ran) {
    run_plan(rig, (struct rig_request *const[]){&r[0], &r[1], &r[2]}, 3);
    take_report(rig, ran);
}

TEST(test_a_batch_is_gathered_and_sliced) {
    struct rig *rig = rig_start();
    struct rig_request r[3];
    struct ran_message ran;

    three_make(r);
    three_run(rig, r, &ran);
    assert_int_equal(ran.items, 4);
    assert_true(ran.run_ns > 0);
    for (int i = 0; i < 3; i++)
        take_done(rig, &r[i]);
    assert_int_equal(seen.items, 4);
    assert_int_equal(seen.dims[0], 4);
    for (int i = 0; i < 8; i++)
        assert_true(seen.data[i] == (float)(i + 1));
    const uint32_t firsts[] = {0, 1, 3};
    int released = seen.released; /* of the warm-up */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i].result.status, REQUEST_OK);
        assert_int_equal(r[i].result.first_item, firsts[i]);
        assert_int_equal(r[i].result.batch_items, 4);
        const float *y = (const float *)r[i].result.block->outputs[0].data + 2 * r[i].result.first_item;
        assert_true(y[0] == 2 * request_data(&r[i])[0]);
        assert_int_equal(seen.released, released); /* until the last has been sent */
        output_block_put(r[i].result.block);
    }
    assert_int_equal(seen.released, released + 1);
    rig_stop(rig);
}

/* It is taken once, and given back before the engine is closed. */
/* In an isolated backend: who rings the sleeping executor's bell may run the batch, which is over then. Without an
 * offer to help, and in other processes, the executor runs it. */
TEST(test_a_turn_that_is_lent_runs_a_batch_where_it_is_taken) {
    struct running *running = calloc(1, sizeof(*running));
    for (uint32_t i = 0; i < 3; i++) {
        float data[2] = {1, 2};
        struct rig_request r;
        struct ran_message ran;
        bool helps = i == 1;
        struct rig *rig = rig_start_as(&spy, 1, i < 2 ? running : NULL);
        struct doorbell *bell = &rig->wiring.executor_bells[0];
        struct batch_plan *plan = ring_reserve_run(&rig->wiring.plans[0], batch_plan_slots(1));
        enum doorbell_state sleeps = i < 2 ? DOORBELL_LENT : DOORBELL_ASLEEP;
        while (atomic_load(&bell->sleeping) != sleeps)
            sched_yield();
        request_make(&r, data, 1, later());
        *plan = (struct batch_plan){.request_count = 1, .items = 1, .earliest_ns = INT64_MIN, .latest_ns = TIME_NEVER};
        plan->handles[0] = request_send(rig, &r);
        ring_push_run(&rig->wiring.plans[0], batch_plan_slots(1));
        ring_publish(&rig->wiring.plans[0]);
        doorbell_ring_or_help(bell, helps);
        assert_true(!helps || ring_peek(&rig->wiring.results[0]));
        take_done(rig, &r);
        take_report(rig, &ran);
        assert_int_equal(r.result.status, REQUEST_OK);
        assert_int_equal(pthread_equal(seen.thread, pthread_self()) != 0, helps);
        output_block_put(r.result.block);
        assert_int_equal(atomic_load(&running->count), 0);
        rig_stop(rig);
    }
    free(running);
}

TEST(test_inputs_are_gathered_in_memory_of_the_engine) {
    float a[] = {1, 2}, b[] = {3, 4};
    struct rig_request r[2];
    struct ran_message ran;
    struct engine_ops pinned = spy;
    pinned.memory = spy_memory;
    pinned.memory_free = spy_memory_free;
    the_engine.given = 0;
    struct rig *rig = rig_start_with(&pinned);
    for (int times = 0; times < 2; times++) {
        request_make(&r[0], a, 1, later());
        request_make(&r[1], b, 1, later());
        run_plan(rig, (struct rig_request *const[]){&r[0], &r[1]}, 2);
        take_report(rig, &ran);
        for (int i = 0; i < 2; i++) {
            take_done(rig, &r[i]);
            assert_int_equal(r[i].result.status, REQUEST_OK);
            output_block_put(r[i].result.block);
        }
        const char *place = seen.place;
        assert_true(place >= the_engine.memory && place < the_engine.memory + the_engine.bytes);
    }
    assert_int_equal(the_engine.given, 1);
    rig_stop(rig);
    assert_null(the_engine.memory);
}

/* The request's input lies in memory of its frontend, whose own card has `handle`. */
static void lies_elsewhere(struct rig_request *r, const uint64_t *handle) {
    r->card.inputs[0].region = REGION_FRONTEND;
    r->card.origin = handle;
    r->card.origin_handle = 5;
}

/* Inputs in a frontend's memory are copied, even those of a lone request. One that its frontend has ended, so that they
 * may be anything by now, changes nothing for the others of its batch, and runs on zeros. */
TEST(test_inputs_of_a_frontend_are_copied_unless_it_has_ended_the_request) {
    struct rig *rig = rig_start();
    float a[] = {1, 2};
    const uint64_t alive = 5, ended = 0, next = 6;
    const uint64_t *const handles[][3] = {{&alive, &alive, &alive}, {&alive, &ended, &alive}, {&alive, &next, &ended}};
    static const float wanted[][8] = {{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 0, 0, 0, 0, 7, 8}, {1, 2, 0, 0, 0, 0, 0, 0}};
    struct rig_request r[3];
    struct ran_message ran;

    for (unsigned n = 0; n < ARRAY_COUNT(handles); n++) {
        three_make(r);
        for (int i = 0; i < 3; i++)
            lies_elsewhere(&r[i], handles[n][i]);
        three_run(rig, r, &ran);
        for (int i = 0; i < 3; i++) {
            take_done(rig, &r[i]);
            assert_int_equal(r[i].result.status, REQUEST_OK);
            output_block_put(r[i].result.block);
        }
        assert_int_equal(seen.dims[0], 4);
        assert_memory_equal(seen.data, wanted[n], sizeof(wanted[n]));
    }
    request_make(&r[0], a, 1, later());
    lies_elsewhere(&r[0], &alive);
    run_plan(rig, (struct rig_request *const[]){&r[0]}, 1);
    take_report(rig, &ran);
    take_done(rig, &r[0]);
    output_block_put(r[0].result.block);
    assert_ptr_not_equal(seen.place, a);
    assert_int_equal(seen.dims[0], 1);
    assert_memory_equal(seen.data, a, sizeof(a));
    rig_stop(rig);
}

/* Inputs that are promised and not there: the rest of the batch runs without them, at once. */
TEST(test_a_batch_leaves_out_what_is_not_prepared) {
    struct rig *rig = rig_start();
    float a[] = {1, 2};
    struct rig_request r[3];
    struct ran_message ran;

    for (int all = 0; all < 2; all++) {
        int runs = seen.runs;
        three_make(r);
        for (int i = 0; i < 3; i++)
            atomic_init(&r[i].card.unready, i == 1 || all);
        three_run(rig, r, &ran);
        assert_int_equal(ran.items, 4);
        assert_int_equal(ran.run_ns, 0); /* it did not run as it was planned */
        for (int i = 0; i < 3; i++)
            take_result(rig);
        assert_int_equal(seen.runs, runs + !all);
        for (int i = 0; i < 3; i++) {
            bool out = i == 1 || all;
            assert_int_equal(r[i].result.status, out ? REQUEST_LOST : REQUEST_OK);
            assert_int_equal(r[i].result.unready, out);
            assert_false(r[i].result.suspect || r[i].result.broke || r[i].result.absent);
            if (out)
                continue;
            assert_int_equal(r[i].result.batch_items, 2);
            const float *y = (const float *)r[i].result.block->outputs[0].data + 2 * r[i].result.first_item;
            assert_true(y[0] == 2 * request_data(&r[i])[0]);
            output_block_put(r[i].result.block);
        }
    }
    run_alone(rig, &r[0], a); /* the accelerator serves on */
    assert_int_equal(r[0].result.status, REQUEST_OK);
    output_block_put(r[0].result.block);
    rig_stop(rig);
}

/* The scheduler puts requests of one shape together, which it knows by a hash; whatever comes, nobody is answered with
 * what was computed under another's shape, nor is anybody failed by another. */
TEST(test_requests_of_different_shapes_are_run_apart) {
    struct rig *rig = rig_start();
    float a[] = {1, 2}, b[] = {3, 4, 5, 6}, c[] = {7, 8};
    struct rig_request r[3];
    struct ran_message ran;

    rig->model.signature.inputs[0].dims[1] = -1;
    rig->model.signature.variable_shapes = true;
    request_make(&r[0], a, 1, later());
    request_make(&r[1], b, 1, later());
    request_make(&r[2], c, 1, later());
    r[1].card.inputs[0].bytes = sizeof(b);
    r[1].card.inputs[0].dims[1] = 4;
    three_run(rig, r, &ran);
    assert_int_equal(ran.items, 3);
    assert_int_equal(ran.run_ns, 0); /* it was no batch: nothing is learnt of its size */
    take_done(rig, &r[0]);
    take_done(rig, &r[2]); /* those that are alike run together */
    take_done(rig, &r[1]);
    assert_int_equal(seen.runs, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i].result.status, REQUEST_OK);
        assert_int_equal(r[i].result.first_item, i == 2);
        assert_int_equal(r[i].result.batch_items, i == 1 ? 1 : 2);
        const float *y = r[i].result.block->outputs[0].data;
        assert_true(y[2 * r[i].result.first_item] == 2 * request_data(&r[i])[0]);
        output_block_put(r[i].result.block);
    }
    /* the last one was the model's, at its own place, and of its own shape */
    assert_ptr_equal(seen.place, b);
    assert_int_equal(seen.dims[1], 4);
    rig_stop(rig);
}

/* Nor does one that gives an optional input run with one that does not. */
TEST(test_requests_of_different_inputs_are_run_apart) {
    struct rig *rig = rig_start();
    float a[] = {1, 2}, b[] = {3, 4}, more[] = {9, 9};
    struct rig_request r[2];
    struct ran_message ran;

    rig->model.signature.inputs[1] = rig->model.signature.inputs[0];
    rig->model.signature.input_count = 2;
    rig->model.signature.inputs_optional = 2;
    rig->model.signature.variable_shapes = true;
    request_make(&r[0], a, 1, later());
    request_make(&r[1], b, 1, later());
    for (int i = 0; i < 2; i++) {
        r[i].card.input_count = 2;
        r[i].card.inputs[1].region = REGION_NONE;
    }
    r[1].card.inputs[1] = (struct card_input){.offset = (uintptr_t)more, .bytes = 8, .dim_count = 2, .dims = {1, 2}};
    run_plan(rig, (struct rig_request *const[]){&r[0], &r[1]}, 2);
    take_report(rig, &ran);
    for (int i = 0; i < 2; i++) {
        take_done(rig, &r[i]);
        assert_int_equal(r[i].result.status, REQUEST_OK);
        assert_int_equal(r[i].result.batch_items, 1);
        output_block_put(r[i].result.block);
    }
    assert_int_equal(seen.runs, 2);
    rig_stop(rig);
}

TEST(test_a_lone_request_is_not_copied) {
    struct rig *rig = rig_start();
    float a[] = {1, 2};
    struct rig_request r;

    run_alone(rig, &r, a);
    assert_ptr_equal(seen.place, a);
    output_block_put(r.result.block);
    rig_stop(rig);
}

TEST(test_a_failure_is_told_and_survived) {
    struct rig *rig = rig_start();
    float a[] = {1, 2}, b[] = {3, 4};
    struct rig_request r[2];
    struct ran_message ran;

    seen.fail = true;
    request_make(&r[0], a, 1, later());
    request_make(&r[1], b, 1, later());
    run_plan(rig, (struct rig_request *const[]){&r[0], &r[1]}, 2);
    take_report(rig, &ran);
    assert_int_equal(ran.run_ns, 0); /* teaches nothing about l(b) */
    assert_int_equal(ran.late, 0);
    for (int i = 0; i < 2; i++) {
        take_done(rig, &r[i]);
        assert_int_equal(r[i].result.status, REQUEST_FAILED);
        assert_string_equal(r[i].result.block->failure, "the engine says no");
        output_block_put(r[i].result.block);
    }
    seen.fail = false;
    run_alone(rig, &r[0], a);
    assert_int_equal(r[0].result.status, REQUEST_OK);
    output_block_put(r[0].result.block);
    rig_stop(rig);
}

/* A request on its own that is lost: it is reported and handed back. */
static void expect_lost(struct rig *rig) {
    float a[] = {1, 2};
    struct rig_request r;
    struct ran_message ran;

    request_make(&r, a, 1, later());
    run_plan(rig, (struct rig_request *const[]){&r}, 1);
    take_news(rig, NEWS_ENDED);
    take(&rig->wiring.ran[0], &ran);
    assert_int_equal(ran.run_ns, 0);
    take_done(rig, &r);
    assert_int_equal(r.result.status, REQUEST_LOST);
    assert_null(r.result.block);
}

static void expect_run(struct rig *rig) {
    float a[] = {1, 2};
    struct rig_request r;

    run_alone(rig, &r, a);
    assert_int_equal(r.result.status, REQUEST_OK);
    output_block_put(r.result.block);
}

TEST(test_what_a_failed_accelerator_has_is_lost_until_it_joins) {
    struct rig *rig = rig_start();

    assert_int_equal(wiring_command(&rig->wiring, 0, ACCELERATOR_FAIL), 0);
    take_news(rig, NEWS_LEAVES);
    expect_lost(rig);
    expect_lost(rig);
    assert_int_equal(executor_counters(rig->executor, 0)->lost_batches, 2);
    assert_int_equal(wiring_command(&rig->wiring, 0, ACCELERATOR_JOIN), 0);
    take_news(rig, NEWS_JOINS);
    expect_run(rig);
    rig_stop(rig);
}

TEST(test_what_drains_runs_what_it_is_sent) {
    struct rig *rig = rig_start();

    assert_int_equal(wiring_command(&rig->wiring, 0, ACCELERATOR_DRAIN), 0);
    take_news(rig, NEWS_LEAVES);
    expect_run(rig);
    rig_stop(rig);
}

/* An engine that fails a batch and then runs nothing at all takes its accelerator with it, for good. */
TEST(test_an_engine_that_runs_nothing_any_more_is_lost) {
    struct rig *rig = rig_start();

    expect_run(rig);
    seen.broken = true;
    expect_lost(rig);
    take_news(rig, NEWS_LEAVES);
    seen.broken = false;
    assert_int_equal(wiring_command(&rig->wiring, 0, ACCELERATOR_JOIN), 0);
    expect_lost(rig);
    assert_null(ring_peek(&rig->wiring.freed[0]));
    rig_stop(rig);
}

/* A model that never ran a trial says nothing about the engine. */
TEST(test_a_model_without_a_trial_does_not_take_the_engine_with_it) {
    seen.broken = true;
    struct rig *rig = rig_start();
    float a[] = {1, 2};
    struct rig_request r;

    run_alone(rig, &r, a);
    assert_int_equal(r.result.status, REQUEST_FAILED);
    output_block_put(r.result.block);
    seen.broken = false;
    expect_run(rig);
    rig_stop(rig);
}

TEST(test_what_has_expired_is_not_run) {
    struct rig *rig = rig_start();
    float a[] = {1, 2}, b[] = {3, 4};
    struct rig_request r[2];
    struct ran_message ran;
    int64_t now = clock_now_ns();

    request_make(&r[0], a, 1, now - 1);
    request_make(&r[1], b, 1, now - 1);
    run_plan(rig, (struct rig_request *const[]){&r[0], &r[1]}, 2);
    take_report(rig, &ran);
    assert_int_equal(ran.run_ns, 0);
    assert_int_equal(ran.late, 2);
    for (int i = 0; i < 2; i++) {
        take_done(rig, &r[i]);
        assert_int_equal(r[i].result.status, REQUEST_REFUSED);
        assert_int_equal(r[i].result.refusal, REFUSAL_DEADLINE);
    }
    assert_int_equal(seen.runs, 0);
    assert_int_equal(executor_counters(rig->executor, 0)->expired_batches, 1);
    rig_stop(rig);
}

TEST(test_what_ends_after_its_deadline_is_counted) {
    struct rig *rig = rig_start();
    float a[] = {1, 2}, b[] = {3, 4}, c[] = {5, 6};
    struct rig_request r[3];
    struct ran_message ran;
    int64_t now = clock_now_ns();

    request_make(&r[0], a, 1, now - 2);
    request_make(&r[1], b, 1, now - 1);
    request_make(&r[2], c, 1, later());
    three_run(rig, r, &ran);
    assert_true(ran.run_ns > 0);
    assert_int_equal(ran.late, 2);
    for (int i = 0; i < 3; i++) {
        take_done(rig, &r[i]);
        assert_int_equal(r[i].result.status, REQUEST_OK);
        output_block_put(r[i].result.block);
    }
    rig_stop(rig);
}

TEST(test_what_would_start_after_its_latest_is_not_run) {
    struct rig *rig = rig_start();
    float a[] = {1, 2};
    struct rig_request r;
    struct ran_message ran;

    request_make(&r, a, 1, later());
    run_plan_between(rig, (struct rig_request *const[]){&r}, 1, INT64_MIN, clock_now_ns() - 1);
    take_report(rig, &ran);
    assert_int_equal(ran.run_ns, 0);
    assert_int_equal(ran.tag, 77);
    take_done(rig, &r);
    assert_int_equal(r.result.status, REQUEST_REFUSED);
    assert_int_equal(seen.runs, 0);
    rig_stop(rig);
}

TEST(test_what_may_not_start_yet_waits) {
    struct rig *rig = rig_start();
    float a[] = {1, 2};
    struct rig_request r;
    struct ran_message ran;
    int64_t earliest_ns = clock_now_ns() + 20 * NS_PER_MS;

    request_make(&r, a, 1, later());
    run_plan_between(rig, (struct rig_request *const[]){&r}, 1, earliest_ns, TIME_NEVER);
    take_report(rig, &ran);
    take_done(rig, &r);
    assert_int_equal(r.result.status, REQUEST_OK);
    assert_true(r.result.run_start_ns >= earliest_ns);
    output_block_put(r.result.block);
    rig_stop(rig);
}

/* Of two batches that may not start yet the one that may first does, whichever thread it is of. */
TEST(test_the_earliest_start_is_kept_to) {
    struct rig *rig = rig_start_threads(&spy, 2);
    float a[] = {1, 2}, b[] = {3, 4};
    struct rig_request soon, late;
    int64_t now_ns = clock_now_ns();

    request_make(&soon, a, 1, now_ns + 600 * NS_PER_S);
    request_make(&late, b, 1, now_ns + 600 * NS_PER_S);
    run_plan_of(rig, 1, (struct rig_request *const[]){&late}, 1, now_ns + 300 * NS_PER_S, TIME_NEVER);
    run_plan_of(rig, 0, (struct rig_request *const[]){&soon}, 1, now_ns + 50 * NS_PER_MS, TIME_NEVER);
    take_done(rig, &soon);
    assert_int_equal(soon.result.status, REQUEST_OK);
    assert_true(clock_now_ns() < now_ns + 300 * NS_PER_S);
    output_block_put(soon.result.block);
    rig_stop(rig);
}

TEST(test_a_model_that_does_not_load_is_set_aside) {
    seen.fail_load = true;
    struct rig *rig = rig_start();
    seen.fail_load = false;
    assert_int_equal(rig->model.state, MODEL_UNAVAILABLE);
    assert_string_equal(rig->model.reason, "it will not load");
    rig_stop(rig);
}

/* A model whose trials fail may simply be slow or short of memory; but one whose file is not the measured one any more
 * has perhaps another signature. */
TEST(test_a_file_that_has_changed_since_it_was_measured_is_not_loaded) {
    struct rig *rig = rig_start();
    struct served_model *model = &rig->model;
    struct fingerprint fingerprint;
    struct sy_error err;
    char path[] = "/tmp/symphony-test-XXXXXX";
    int fd = mkstemp(path);
    model->path = path;
    assert_true(fd >= 0);
    assert_int_equal(fingerprint_model(model->path, &fingerprint, &err), 0);
    fingerprint_format(&fingerprint, model->contents);
    seen.broken = true;
    assert_int_equal(executor_load(rig->executor, (struct place_id){0}, NULL, &err), 0);
    executor_unload(rig->executor, (struct place_id){0});
    assert_int_equal(write(fd, "anew", 4), 4);
    seen.unloaded = 0;
    assert_int_equal(executor_load(rig->executor, (struct place_id){0}, NULL, &err), -ESTALE);
    assert_non_null(strstr(err.text, "has changed since it was measured"));
    assert_int_equal(seen.unloaded, 1);
    seen.broken = false;
    assert_int_equal(executor_load(rig->executor, (struct place_id){0}, NULL, &err), 0); /* it runs all the same */
    close(fd);
    unlink(model->path);
    rig_stop(rig);
}

/* Has the executor take the model up, or put it down, and waits for its answer. */
static bool resident_after(struct rig *rig, uint32_t version, bool resident) {
    struct timespec ts = {.tv_nsec = 100000};
    struct model_answer answer;
    assert_int_equal(wiring_model_command(&rig->wiring, 0, (struct place_id){0}, version, resident), 0);
    while (!wiring_model_answer(&rig->wiring, 0, &answer))
        nanosleep(&ts, NULL);
    assert_int_equal(answer.place.n, 0);
    assert_int_equal(answer.version, version);
    return answer.resident;
}

TEST(test_a_model_is_taken_up_and_put_down) {
    struct rig *rig = rig_start();
    float a[] = {1, 2};
    struct rig_request r;
    struct sy_error err;

    rig->model.version = 3;
    seen.unloaded = 0;
    assert_false(resident_after(rig, 3, false));
    executor_unload(rig->executor, (struct place_id){0}); /* the one that was there from the start */
    assert_int_equal(seen.unloaded, 1);
    run_alone(rig, &r, a);
    assert_int_equal(r.result.status, REQUEST_LOST); /* no failure: another accelerator may have it */
    assert_true(r.result.absent);
    assert_false(r.result.suspect);
    assert_int_equal(executor_counters(rig->executor, 0)->absent_batches, 1);
    assert_int_equal(executor_counters(rig->executor, 0)->failed_batches, 0);
    assert_int_equal(executor_load(rig->executor, (struct place_id){0}, NULL, &err), 0);
    assert_false(resident_after(rig, 2, true)); /* another version */
    assert_true(resident_after(rig, 3, true));
    run_alone(rig, &r, a);
    assert_int_equal(r.result.status, REQUEST_OK);
    output_block_put(r.result.block);
    seen.fail_load = true;
    assert_true(executor_load(rig->executor, (struct place_id){0}, NULL, &err) < 0);
    seen.fail_load = false;
    rig_stop(rig);
}

/* Two samples of the model, whose floats the spy takes for a client's. */
static void samples_put(struct rig *rig) {
    char path[256];
    char folder[] = "/tmp/symphony-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    rig->model.folder = mem_pool_text(&rig->model.memory, folder);
    snprintf(path, sizeof(path), "%.60s/warmup", rig->model.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/x");
    FILE *file = fopen(path, "w");
    fwrite((float[]){3, 4}, sizeof(float), 2, file);
    fclose(file);
    snprintf(path, sizeof(path), "%.60s/config.pbtxt", rig->model.folder);
    file = fopen(path, "w");
    fputs("max_batch_size: 8 model_warmup [ { batch_size: 1 count: 3 inputs { key: 'x' value {\n"
          "data_type: TYPE_FP32 dims: 2 input_data_file: 'x' } } }, { batch_size: 4 inputs { key: 'x' value {\n"
          "data_type: TYPE_FP32 dims: 2 input_data_file: 'x' } } } ]",
          file);
    fclose(file);
}

static void samples_remove(struct rig *rig) {
    static const char *const names[] = {"warmup/x", "warmup", "config.pbtxt", ""};
    char path[256];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%.60s/%s", rig->model.folder, names[i]);
        assert_int_equal(remove(path), 0);
    }
    rig->model.folder = NULL;
}

TEST(test_a_model_warms_up_with_its_samples_or_is_not_loaded) {
    struct rig *rig = rig_start();
    struct sy_error err;
    char want[256];
    static const _Atomic bool stop = true;

    samples_put(rig);
    assert_int_equal(executor_load(rig->executor, (struct place_id){0}, NULL, &err), 0);
    assert_int_equal(seen.runs, 6 + 3 + 1); /* trials of 1, 2, 3, 4, 6 and 8 have the values of the samples, too */
    assert_int_equal(seen.items, 4);
    assert_float_equal(seen.data[7], 4, 0);
    executor_unload(rig->executor, (struct place_id){0});

    seen.unloaded = 0;
    seen.fail = true;
    assert_int_equal(executor_load(rig->executor, (struct place_id){0}, NULL, &err), -EIO);
    seen.fail = false;
    snprintf(want, sizeof(want), "%.60s/config.pbtxt:1:19: model_warmup: sample '' failed: the engine says no",
             rig->model.folder);
    assert_string_equal(err.text, want);
    assert_int_equal(seen.unloaded, 1);

    assert_int_equal(executor_load(rig->executor, (struct place_id){0}, &stop, &err), -EINTR);
    assert_int_equal(seen.unloaded, 2);
    samples_remove(rig);
    rig_stop(rig);
}
