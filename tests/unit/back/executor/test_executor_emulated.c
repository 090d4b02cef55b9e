/* test_executor_emulated.c - many accelerators in one thread: they run beside each other, each one batch after the
 * other, and say who they are. */
/* Starts threads. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "back/executor/executor.h"
#include "core/system/clock.h"
#include "specs.h"
#include "unit/test.h"

#define ACCELERATORS 200
#define BATCH_MAX    4
#define RUN_NS       (20 * NS_PER_MS)
#define REQUESTS     (2 * ACCELERATORS * BATCH_MAX)

struct rig {
    struct wiring wiring;
    struct served_model model;
    struct profile *profile;
    struct executor *executor;
    struct request_card *cards;     /* [REQUESTS] by slot */
    struct result_message *results; /* likewise */
    uint32_t zero[1], executor_of[ACCELERATORS];
};

static struct rig *rig_start(void) {
    struct rig *rig = aligned_alloc(CACHE_LINE, (sizeof(*rig) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    struct wiring *w = &rig->wiring;
    struct sy_error err;

    memset(rig, 0, sizeof(*rig));
    w->frontends = w->model_threads = w->executors = w->models = 1;
    w->accelerators = ACCELERATORS;
    w->batch_max = BATCH_MAX;
    w->thread_of_variant = w->thread_of_served = rig->zero;
    w->executor_of = rig->executor_of;
    assert_int_equal(wiring_init(w, false, &err), 0);
    struct tensor_spec spec = {.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 1}};
    specs_set(
        &rig->model,
        (struct signature){.input_count = 1, .output_count = 1, .batched = true, .inputs = &spec, .outputs = &spec});
    rig->model.batch_max = BATCH_MAX;
    atomic_init(&rig->model.state, MODEL_READY);
    rig->profile = malloc(profile_bytes(BATCH_MAX));
    profile_set_line(rig->profile, BATCH_MAX, 1, RUN_NS);
    rig->cards = aligned_alloc(CACHE_LINE, REQUESTS * sizeof(*rig->cards));
    rig->results = aligned_alloc(CACHE_LINE, REQUESTS * sizeof(*rig->results));
    w->cards[0] = rig->cards;
    w->regions[0] = (struct region){0, SIZE_MAX, -1}; /* inputs lie anywhere */
    struct executor_config config = {.wiring = w,
                                     .accelerators = ACCELERATORS,
                                     .engine = &engine_emulated,
                                     .models = &rig->model,
                                     .profiles = (const struct profile *const *)&rig->profile,
                                     .model_count = 1};
    assert_int_equal(executor_start(&rig->executor, &config, &err), 0);
    assert_int_equal(executor_wait_ready(rig->executor, &err), 0);
    return rig;
}

/* Once its executor has been stopped. */
static void rig_free(struct rig *rig) {
    wiring_destroy(&rig->wiring);
    free(rig->profile);
    served_model_release(&rig->model);
    free(rig->cards);
    free(rig->results);
    free(rig);
}

static void rig_stop(struct rig *rig) {
    assert_int_equal(executor_stop(rig->executor), 0);
    rig_free(rig);
}

/* Pushes the n-th plan, of `count` requests. */
static void plan_push(struct rig *rig, uint32_t n, uint32_t accelerator, uint32_t count, int64_t earliest_ns,
                      int64_t latest_ns) {
    static float input;
    struct ring *ring = &rig->wiring.plans[0];
    struct batch_plan *plan = ring_reserve_run(ring, batch_plan_slots(count));
    assert_non_null(plan);
    *plan = (struct batch_plan){.accelerator = accelerator,
                                .request_count = count,
                                .items = count,
                                .sealed_ns = clock_now_ns(),
                                .earliest_ns = earliest_ns,
                                .latest_ns = latest_ns,
                                .tag = n};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = n * BATCH_MAX + i;
        rig->cards[slot] = (struct request_card){
            .handle = handle_of(0, slot, 1),
            .items = 1,
            .deadline_ns = clock_now_ns() + 600 * NS_PER_S,
            .input_count = 1,
            .inputs = {{.offset = (uintptr_t)&input, .bytes = sizeof(input), .dim_count = 2, .dims = {1, 1}}},
        };
        plan->handles[i] = rig->cards[slot].handle;
    }
    ring_push_run(ring, batch_plan_slots(count));
}

static void plans_send(struct rig *rig) {
    ring_publish(&rig->wiring.plans[0]);
    doorbell_ring(&rig->wiring.executor_bells[0]);
}

static struct ran_message take_ran(struct rig *rig) {
    struct ring *freed = &rig->wiring.freed[0], *ran = &rig->wiring.ran[0];
    struct timespec ts = {.tv_nsec = 100000};
    while (!ring_peek(freed) || !ring_peek(ran))
        nanosleep(&ts, NULL);
    struct ran_message message = *(struct ran_message *)ring_peek(ran);
    assert_int_equal(((struct freed_message *)ring_peek(freed))->accelerator, message.accelerator);
    ring_pop(freed);
    ring_release(freed);
    ring_pop(ran);
    ring_release(ran);
    return message;
}

static void take_done(struct rig *rig, uint32_t count) {
    struct ring *ring = &rig->wiring.results[0];
    struct timespec ts = {.tv_nsec = 100000};
    while (count > 0) {
        const struct result_message *result = ring_peek(ring);
        if (!result) {
            nanosleep(&ts, NULL);
            continue;
        }
        rig->results[handle_slot(result->handle)] = *result;
        output_block_put(result->block);
        ring_pop(ring);
        ring_release(ring);
        count--;
    }
}

/* Two batches each: together they run for longer than the time from the first one's start to the last one's end,
 * however slow the machine. */
TEST(test_accelerators_run_beside_each_other) {
    struct rig *rig = rig_start();
    uint32_t last[ACCELERATORS] = {0}, requests = 0;
    int64_t began_ns = INT64_MAX, ended_ns = 0, runs_ns = 0;

    for (uint32_t n = 0; n < 2 * ACCELERATORS; n++) {
        uint32_t count = 1 + n % BATCH_MAX;
        plan_push(rig, n, n % ACCELERATORS, count, INT64_MIN, TIME_NEVER);
        requests += count;
    }
    plans_send(rig);
    for (uint32_t n = 0; n < 2 * ACCELERATORS; n++) {
        struct ran_message ran = take_ran(rig);
        assert_true(ran.run_ns >= RUN_NS);
        runs_ns += ran.run_ns;
        assert_int_equal(ran.accelerator, ran.tag % ACCELERATORS);
        assert_int_equal(ran.tag / ACCELERATORS, last[ran.accelerator]++); /* in the order sent */
        assert_int_equal(ran.items, 1 + ran.tag % BATCH_MAX);
        assert_int_equal(ran.dispatch_ns < 0, ran.tag >= ACCELERATORS); /* the second waited for the first */
    }
    take_done(rig, requests);
    for (uint32_t n = 0; n < 2 * ACCELERATORS; n++)
        for (uint32_t i = 0; i < 1 + n % BATCH_MAX; i++) {
            const struct result_message *result = &rig->results[n * BATCH_MAX + i];
            assert_int_equal(result->status, REQUEST_OK);
            began_ns = result->run_start_ns < began_ns ? result->run_start_ns : began_ns;
            ended_ns = result->run_end_ns > ended_ns ? result->run_end_ns : ended_ns;
        }
    assert_true(ended_ns - began_ns < runs_ns);
    for (uint32_t a = 0; a < ACCELERATORS; a++)
        assert_int_equal(executor_counters(rig->executor, a)->batches, 2);
    rig_stop(rig);
}

TEST(test_starts_are_kept_to) {
    struct rig *rig = rig_start();
    int64_t now_ns = clock_now_ns();

    plan_push(rig, 0, 5, 1, now_ns + 2 * RUN_NS, TIME_NEVER);
    plan_push(rig, 1, 6, 2, INT64_MIN, now_ns - 1); /* too late */
    plan_push(rig, 2, 6, 2, INT64_MIN, TIME_NEVER);
    plans_send(rig);
    struct ran_message ran[3] = {{0}}; /* by tag; they come in any order where the machine is slow */
    for (int i = 0; i < 3; i++) {
        struct ran_message next = take_ran(rig);
        assert_in_range(next.tag, 0, 2);
        ran[next.tag] = next;
    }
    assert_int_equal(ran[1].run_ns, 0);
    assert_true(ran[0].run_ns > 0 && ran[2].run_ns > 0);
    take_done(rig, 5);
    assert_true(rig->results[0].run_start_ns >= now_ns + 2 * RUN_NS);
    assert_int_equal(rig->results[BATCH_MAX].status, REQUEST_REFUSED);
    assert_int_equal(executor_counters(rig->executor, 6)->expired_batches, 1);
    rig_stop(rig);
}

/* Inputs that are promised and not there. */
TEST(test_batches_leave_out_what_is_not_prepared) {
    struct rig *rig = rig_start();

    plan_push(rig, 0, 3, 4, INT64_MIN, TIME_NEVER);
    plan_push(rig, 1, 3, 2, INT64_MIN, TIME_NEVER);
    atomic_init(&rig->cards[0].unready, 1);
    atomic_init(&rig->cards[2].unready, 1);
    atomic_init(&rig->cards[BATCH_MAX].unready, 1);
    atomic_init(&rig->cards[BATCH_MAX + 1].unready, 1);
    plans_send(rig);
    struct ran_message ran = take_ran(rig);
    assert_int_equal(ran.items, 2); /* what ran */
    assert_true(ran.run_ns >= RUN_NS);
    ran = take_ran(rig);
    assert_int_equal(ran.tag, 1);
    assert_int_equal(ran.run_ns, 0);
    take_done(rig, 6);
    for (uint32_t slot = 0; slot < BATCH_MAX + 2; slot++) {
        bool out = slot != 1 && slot != 3;
        assert_int_equal(rig->results[slot].status, out ? REQUEST_LOST : REQUEST_OK);
        assert_int_equal(rig->results[slot].unready, out);
        assert_int_equal(rig->results[slot].first_item, slot == 3);
    }
    assert_int_equal(executor_counters(rig->executor, 3)->lost_batches, 0);
    rig_stop(rig);
}

/* What runs, and what waits, when the executor is stopped is let go: only batches that have ended are answered. */
TEST(test_stops_amid_runs) {
    struct rig *rig = rig_start();
    struct ring *freed = &rig->wiring.freed[0], *results = &rig->wiring.results[0];
    const struct result_message *result;
    uint32_t ended = 0, answered = 0;

    for (uint32_t n = 0; n < 20; n++)
        plan_push(rig, n, n % 10, 1, INT64_MIN, TIME_NEVER);
    plans_send(rig);
    while (atomic_load(&rig->wiring.plans[0].head) != atomic_load(&rig->wiring.plans[0].tail)) {
        struct timespec ts = {.tv_nsec = 100000};
        nanosleep(&ts, NULL);
    }
    assert_int_equal(executor_stop(rig->executor), 0);
    for (; ring_peek(freed); ended++)
        ring_pop(freed);
    for (; (result = ring_peek(results)); answered++) {
        assert_int_equal(result->status, REQUEST_OK);
        output_block_put(result->block);
        ring_pop(results);
    }
    ring_release(freed);
    ring_release(results);
    assert_int_equal(answered, ended); /* batches of one request */
    assert_true(ended <= 20);
    rig_free(rig);
}
