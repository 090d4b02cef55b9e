/* model_fixture.h - one model's core, with a policy whose every answer the test sets.
 *
 * Time in these tests is in units of 1 ns; l(b) = 10*b + 20 unless said otherwise. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "sched/core/model_core.h"
#include "sched/core/model_view.h"
#include "unit/sched/core/request_digits.h"
#include "unit/test.h"

#define CAPACITY 64
#define BATCH    8

/* What the test policy answers. */
static struct {
    uint32_t target, cap;
    bool admit;
    int64_t start_ns[SUPPLY_LEVELS];
    struct batch_view seen; /* the last batch it was shown */
} script;

static inline void script_update(struct model_view *m, void *own) {
    (void)own;
    m->batch_best = 1;
    m->target_items = script.target;
    m->items_cap = script.cap;
}

static inline bool script_admit(struct model_view *m, void *own, const struct request_node *request) {
    (void)m, (void)own, (void)request;
    return script.admit;
}

static inline struct batch_times script_times(const struct model_view *m, const void *own, uint32_t type,
                                              const struct batch_view *batch) {
    (void)m, (void)own, (void)type;
    script.seen = *batch;
    struct batch_times times = {.order_ns = batch->invalid_after_ns};
    memcpy(times.start_ns, script.start_ns, sizeof(times.start_ns));
    return times;
}

static const struct policy_ops policy_script = {
    .name = "script",
    .model_bytes = 8,
    .model_update = script_update,
    .model_admit = script_admit,
    .batch_times = script_times,
};

struct fixture {
    struct model_core *core;
    struct request_pool pool;
    struct request_node nodes[CAPACITY];
    struct profile *profiles[2];
    struct model_output out;
};

static inline struct profile *line(double alpha_ns, double beta_ns) {
    struct profile *profile = malloc(profile_bytes(BATCH));
    assert_non_null(profile);
    profile_set_line(profile, BATCH, alpha_ns, beta_ns);
    return profile;
}

static inline struct fixture *fixture_with(struct model_core_config config) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    config.batch_max = BATCH;
    if (!config.policy)
        config.policy = &policy_script;
    f->core = malloc(model_core_bytes(&config));
    assert_non_null(f->core);
    request_pool_init(&f->pool, f->nodes, CAPACITY);
    memset(f->core, 0xff, model_core_bytes(&config)); /* what is read and was never written shows */
    model_core_init(f->core, &config, &f->pool);
    for (uint32_t t = 0; t < config.types; t++)
        f->profiles[t] = (struct profile *)config.profiles[t];
    return f;
}

static inline void script_reset(void) {
    memset(&script, 0, sizeof(script));
    script.target = 1;
    script.admit = true;
}

static inline struct fixture *fixture_new(void) {
    script_reset();
    return fixture_with((struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000});
}

static inline void fixture_free(struct fixture *f) {
    free(f->profiles[0]);
    free(f->profiles[1]);
    free(f->core);
    free(f);
}

static inline void step(struct fixture *f, int64_t now_ns, struct model_event event) {
    model_core_step(f->core, now_ns, &event, &f->out);
}

static inline void arrive(struct fixture *f, int64_t now_ns, uint64_t handle, int64_t deadline_ns, uint32_t items) {
    struct request_message message = {
        .handle = handle, .arrival_ns = now_ns, .deadline_ns = deadline_ns, .items = items};
    step(f, now_ns, (struct model_event){.kind = MODEL_ARRIVED, .request = &message});
}

static inline void cancel(struct fixture *f, int64_t now_ns, uint64_t handle, int64_t deadline_ns) {
    struct request_message message = {.kind = REQUEST_CANCELLED, .handle = handle, .deadline_ns = deadline_ns};
    step(f, now_ns, (struct model_event){.kind = MODEL_CANCELLED, .request = &message});
}

static inline void grant_at(struct fixture *f, int64_t now_ns, uint32_t type, uint32_t supply) {
    struct grant_message message = {.kind = GRANT_ACCELERATOR, .type = type, .supply = supply};
    step(f, now_ns, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
}

static inline void grant(struct fixture *f, int64_t now_ns, uint32_t type) {
    struct grant_message message = {.kind = GRANT_ACCELERATOR, .type = type};
    step(f, now_ns, (struct model_event){.kind = MODEL_GRANTED, .grant = &message});
}

static inline void timer(struct fixture *f, int64_t now_ns) {
    step(f, now_ns, (struct model_event){.kind = MODEL_TIMER});
}

/* The target changes with the parameters. */
static inline void target(struct fixture *f, int64_t now_ns, uint32_t items) {
    struct grant_message message = {.kind = GRANT_PARAMETERS, .parameters.type_share = {1}, .admit_share = 1};
    script.target = items;
    step(f, now_ns, (struct model_event){.kind = MODEL_PARAMETERS, .grant = &message});
}

/* Takes the requests of a list back into the pool and returns their handles as digits: 123 for 1, 2, 3. */
static inline int handles(struct fixture *f, uint32_t node) {
    return request_digits(&f->pool, f->nodes, node);
}

#define assert_quiet(f)                                                                                                \
    do {                                                                                                               \
        assert_int_equal((f)->out.refused, REQUEST_NONE);                                                              \
        assert_int_equal((f)->out.batch, REQUEST_NONE);                                                                \
    } while (0)

/* The refused handles of a list, each a bit, and their nodes back into the pool. */
static inline uint64_t bits(struct fixture *f, uint32_t node) {
    uint64_t set = 0;
    while (node != REQUEST_NONE) {
        uint32_t next = f->nodes[node].next;
        set |= 1ULL << f->nodes[node].handle % 64;
        request_pool_put(&f->pool, node);
        node = next;
    }
    return set;
}

static inline struct fixture *fixture_of(const struct policy_ops *policy) {
    script_reset();
    return fixture_with(
        (struct model_core_config){.types = 1, .profiles = {line(10, 20)}, .slo_ns = 1000, .policy = policy});
}

static const struct policy_ops policy_strict = {
    .name = "strict",
    .model_update = script_update,
    .model_admit = script_admit,
    .batch_times = script_times,
};
