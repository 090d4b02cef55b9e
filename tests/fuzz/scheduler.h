/* scheduler.h - what stands behind a frontend that is fuzzed: models, and a scheduler that refuses every request. One
 * thread. */
#pragma once

#include "front/net/frontend_config.h"
#include "front/v2/v2.h"
#include "infer_models.h"
#include "sched/threads/wiring.h"

#define MODELS   ARRAY_COUNT(models)
#define REQUESTS 64

static struct wiring wiring = {.frontends = 1,
                               .model_threads = 1,
                               .executors = 1,
                               .accelerators = 1,
                               .models = MODELS,
                               .batch_max = 8,
                               .port_requests = REQUESTS};
static struct served_model served[MODELS];
static struct model_index index_of_models;
static struct model_publication publication;

static inline void scheduler_set_up(void) {
    static uint32_t zeros[MODELS];
    wiring.thread_of_variant = wiring.thread_of_served = wiring.executor_of = zeros;
    CHECK_EQ(wiring_init(&wiring, false, NULL), 0);
    memcpy(served, models, sizeof(served));
    for (unsigned i = 0; i < MODELS; i++) {
        served[i].version = 1;
        served[i].slo_ns = NS_PER_S;
        atomic_init(&served[i].state, MODEL_READY);
    }
    CHECK_EQ(model_index_init(&index_of_models, served, MODELS), 0);
    atomic_init(&publication.now, &index_of_models);
}

/* How a frontend before it is set up; the limits are the caller's to set, 0 is none of a kind. After scheduler_set_up.
 */
static inline struct frontend_config scheduler_frontend(void) {
    static const _Atomic bool ready = true, draining = false;
    return (struct frontend_config){.listen_fd = -1,
                                    .port = port_create(&wiring, 0, 0),
                                    .model_count = MODELS,
                                    .models = &publication,
                                    .ready = &ready,
                                    .draining = &draining,
                                    .requests_max = REQUESTS};
}

/* What stands behind the port. */
static inline void scheduler_refuse_all(void) {
    const struct request_message *message;
    while ((message = ring_peek(&wiring.requests[0]))) {
        if (message->kind == REQUEST_ARRIVED) {
            struct refusal_message *refusal = ring_reserve(&wiring.refusals[0]);
            CHECK(refusal);
            *refusal = (struct refusal_message){.handle = message->handle, .reason = REFUSAL_DEADLINE};
            ring_push(&wiring.refusals[0]);
            ring_publish(&wiring.refusals[0]);
        }
        ring_pop(&wiring.requests[0]);
        ring_release(&wiring.requests[0]);
    }
}
