/* executor_rig.h - an executor of one accelerator and one model with no threads around it: the test is the scheduler
 * and the frontend. The model has one input and one output of two floats an item. */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "back/executor/executor.h"
#include "core/system/clock.h"
#include "specs.h"
#include "unit/cmocka_all.h"

#define BATCH_MAX 8
#define RIG_SLOTS 64 /* of the frontend */

/* A request of the frontend: its card goes into the slot when it is sent. */
struct rig_request {
    struct request_card card;
    struct result_message result;
};

struct rig {
    struct wiring wiring;
    struct request_card cards[RIG_SLOTS];
    struct rig_request *requests[RIG_SLOTS]; /* that are there */
    uint32_t sent;
    struct served_model model;
    struct profile *profile;
    struct executor *executor;
    uint32_t zero[1];
};

/* What an engine that doubles makes of so many items. */
static inline struct output_block *block_doubled(const float *x, uint32_t items,
                                                 void (*release)(struct output_block *)) {
    struct output_block *block = calloc(1, sizeof(*block));
    float *y = malloc(items * 2 * sizeof(float));
    for (uint32_t i = 0; i < items * 2; i++)
        y[i] = 2 * x[i];
    *block = (struct output_block){.output_count = 1, .release = release};
    atomic_init(&block->references, 1);
    block->outputs[0] = (struct tensor_view){.data = y, .bytes = items * 8, .dim_count = 2, .dims = {items, 2}};
    return block;
}

/* `running`: as in executor_config. */
static inline struct rig *rig_start_as(const struct engine_ops *engine, uint32_t model_threads,
                                       struct running *running) {
    struct rig *rig = aligned_alloc(CACHE_LINE, (sizeof(*rig) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    struct sy_error err;

    memset(rig, 0, sizeof(*rig));
    rig->wiring.model_threads = model_threads;
    rig->wiring.frontends = rig->wiring.executors = rig->wiring.accelerators = rig->wiring.models = 1;
    rig->wiring.batch_max = BATCH_MAX;
    rig->wiring.port_requests = RIG_SLOTS;
    rig->wiring.thread_of_variant = rig->wiring.thread_of_served = rig->wiring.executor_of = rig->zero;
    assert_int_equal(wiring_init(&rig->wiring, false, &err), 0);
    rig->wiring.cards[0] = rig->cards;
    rig->wiring.regions[0] = (struct region){0, SIZE_MAX, -1}; /* inputs lie anywhere */
    snprintf(rig->model.name, sizeof(rig->model.name), "m");
    struct tensor_spec spec = {.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}};
    specs_set(
        &rig->model,
        (struct signature){.input_count = 1, .output_count = 1, .batched = true, .inputs = &spec, .outputs = &spec});
    rig->model.reference_dims[0][0] = 1;
    rig->model.reference_dims[0][1] = 2;
    rig->model.batch_max = BATCH_MAX;
    atomic_init(&rig->model.state, MODEL_READY);
    rig->profile = malloc(profile_bytes(BATCH_MAX));
    profile_set_line(rig->profile, BATCH_MAX, NS_PER_S, NS_PER_S); /* however slow the machine is */
    struct executor_config config = {.wiring = &rig->wiring,
                                     .accelerators = 1,
                                     .engine = engine,
                                     .running = running,
                                     .models = &rig->model,
                                     .profiles = (const struct profile *const *)&rig->profile,
                                     .model_count = 1};
    assert_int_equal(executor_start(&rig->executor, &config, &err), 0);
    assert_int_equal(executor_wait_ready(rig->executor, &err), 0);
    return rig;
}

static inline struct rig *rig_start_threads(const struct engine_ops *engine, uint32_t model_threads) {
    return rig_start_as(engine, model_threads, NULL);
}

static inline struct rig *rig_start_with(const struct engine_ops *engine) {
    return rig_start_threads(engine, 1);
}

static inline void rig_stop(struct rig *rig) {
    executor_stop(rig->executor);
    wiring_destroy(&rig->wiring);
    free(rig->profile);
    served_model_release(&rig->model);
    free(rig);
}

/* A deadline that no machine is too slow for. */
static inline int64_t later(void) {
    return clock_now_ns() + 600 * NS_PER_S;
}

static inline void request_make(struct rig_request *r, float *data, uint32_t items, int64_t deadline_ns) {
    memset(r, 0, sizeof(*r));
    r->card = (struct request_card){.items = items, .deadline_ns = deadline_ns, .work = 1, .input_count = 1};
    r->card.inputs[0] =
        (struct card_input){.offset = (uintptr_t)data, .bytes = items * 8, .dim_count = 2, .dims = {items, 2}};
}

/* Puts the card into a slot, as another submission. */
static inline uint64_t request_send(struct rig *rig, struct rig_request *r) {
    uint32_t slot = rig->sent++ % RIG_SLOTS;
    r->card.handle = handle_of(0, slot, rig->sent);
    rig->cards[slot] = r->card;
    rig->requests[slot] = r;
    return r->card.handle;
}

static inline const float *request_data(const struct rig_request *r) {
    return (const float *)(uintptr_t)r->card.inputs[0].offset;
}

/* A batch of a model thread's. */
static inline void run_plan_of(struct rig *rig, uint32_t model_thread, struct rig_request *const *requests,
                               uint32_t count, int64_t earliest_ns, int64_t latest_ns) {
    struct ring *ring = &rig->wiring.plans[model_thread];
    struct batch_plan *plan = ring_reserve_run(ring, batch_plan_slots(count));
    assert_non_null(plan);
    *plan = (struct batch_plan){.request_count = count,
                                .sealed_ns = clock_now_ns(),
                                .earliest_ns = earliest_ns,
                                .latest_ns = latest_ns,
                                .tag = 77};
    for (uint32_t i = 0; i < count; i++) {
        plan->handles[i] = request_send(rig, requests[i]);
        plan->items += requests[i]->card.items;
    }
    ring_push_run(ring, batch_plan_slots(count));
    ring_publish(ring);
    doorbell_ring(&rig->wiring.executor_bells[0]);
}

static inline void run_plan_between(struct rig *rig, struct rig_request *const *requests, uint32_t count,
                                    int64_t earliest_ns, int64_t latest_ns) {
    run_plan_of(rig, 0, requests, count, earliest_ns, latest_ns);
}

static inline void run_plan(struct rig *rig, struct rig_request *const *requests, uint32_t count) {
    run_plan_between(rig, requests, count, INT64_MIN, TIME_NEVER);
}

/* Waits for a message of a ring and copies it. */
static inline void take(struct ring *ring, void *message) {
    void *slot;
    struct timespec ts = {.tv_nsec = 100000};
    while (!(slot = ring_peek(ring)))
        nanosleep(&ts, NULL);
    memcpy(message, slot, ring->slot_bytes);
    ring_pop(ring);
    ring_release(ring);
}

/* Waits for the next result, and gives whose it is. */
static inline struct rig_request *take_result(struct rig *rig) {
    struct result_message result;
    take(&rig->wiring.results[0], &result);
    struct rig_request *r = rig->requests[handle_slot(result.handle)];
    assert_int_equal(result.handle, r->card.handle);
    r->result = result;
    return r;
}

static inline void take_done(struct rig *rig, struct rig_request *expected) {
    assert_ptr_equal(take_result(rig), expected);
}

static inline void take_report(struct rig *rig, struct ran_message *ran) {
    struct freed_message freed;
    take(&rig->wiring.freed[0], &freed);
    assert_int_equal(freed.accelerator, 0);
    take(&rig->wiring.ran[0], ran);
}

static inline void take_news(struct rig *rig, enum accelerator_news expected) {
    struct freed_message freed;
    take(&rig->wiring.freed[0], &freed);
    assert_int_equal(freed.accelerator, 0);
    assert_int_equal(freed.news, expected);
}
