/* rank_rig.h - a rank core whose models and executors are played by hand; time is a number. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "sched/core/rank_core.h"
#include "unit/sched/core/rank_told.h"
#include "unit/test.h"

#define MODELS 4

struct fixture {
    struct rank_core *core;
    struct rank_output out;
    uint32_t types;
};

static uint32_t derived; /* calls of the test policy */
static struct cluster_view derived_from;
static struct model_rates derived_rates[MODELS];

static void test_derive(const struct cluster_view *cluster, const struct policy_options *options,
                        struct cluster_parameters *parameters, double *admit_share) {
    (void)options;
    derived++;
    derived_from = *cluster;
    memcpy(derived_rates, cluster->rates, cluster->models * sizeof(*derived_rates));
    parameters->gamma = 0.5;
    admit_share[1] = 0.25;
}

static const struct policy_ops policy_plain = {.name = "plain"};
static const struct policy_ops policy_deriving = {.name = "deriving", .cluster_derive = test_derive};

static inline struct fixture fixture_of(uint32_t accelerators, const uint8_t *accelerator_type, uint32_t types,
                                        const struct policy_ops *policy) {
    struct policy_options options = {{0}};
    struct rank_core_config config = {.models = MODELS,
                                      .accelerators = accelerators,
                                      .accelerator_type = accelerator_type,
                                      .types = types,
                                      .policy = policy,
                                      .policy_options = &options};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = types};
    assert_non_null(f.core);
    memset(f.core, 0xff, rank_core_bytes(&config));
    rank_core_init(f.core, &config);
    return f;
}

static inline struct fixture fixture_new(uint32_t accelerators) {
    static const uint8_t types[16];
    return fixture_of(accelerators, types, 1, &policy_plain);
}

static inline void send(struct fixture *f, int64_t now_ns, struct rank_message message) {
    rank_told(f->core, now_ns, message, NULL, 0, &f->out);
}

static inline struct candidate candidate_at(int64_t start_ns, int64_t invalid_after_ns) {
    return (struct candidate){{start_ns, start_ns, start_ns}, invalid_after_ns, invalid_after_ns, 0};
}

static const struct candidate none = {{TIME_NEVER, TIME_NEVER, TIME_NEVER}, 0, TIME_NEVER, 0};

static inline void candidate(struct fixture *f, int64_t now_ns, uint32_t model, struct candidate c) {
    rank_told_candidate(f->core, now_ns, model, c, &f->out);
}

static inline void answer(struct fixture *f, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items,
                          struct candidate next) {
    rank_told_answer(f->core, now_ns, model, (struct rank_answer){.accelerator = accelerator, .items = items}, next,
                     f->types, &f->out);
}

static inline void ended(struct fixture *f, int64_t now_ns, uint32_t accelerator) {
    rank_told_end(f->core, now_ns, accelerator, 0, false, &f->out);
}

static inline void event(struct fixture *f, int64_t now_ns, enum rank_event_kind kind, uint32_t accelerator) {
    rank_core_step(f->core, now_ns, &(struct rank_event){.kind = kind, .accelerator = accelerator}, &f->out);
}

static inline void timer(struct fixture *f, int64_t now_ns) {
    event(f, now_ns, RANK_TIMER, 0);
}

#define assert_granted(f, model_, accelerator_)                                                                        \
    do {                                                                                                               \
        assert_int_equal((f)->out.grant_count, 1);                                                                     \
        assert_int_equal((f)->out.grants[0].variant.n, model_);                                                        \
        assert_int_equal((f)->out.grants[0].accelerator, accelerator_);                                                \
    } while (0)
#define assert_nothing(f) assert_int_equal((f)->out.grant_count, 0)

/* Gives every accelerator to model 0 in turn, so that they are busy. */
static inline void make_busy(struct fixture *f, uint32_t accelerators) {
    for (uint32_t a = 0; a < accelerators; a++) {
        candidate(f, 0, 0, candidate_at(0, 100));
        assert_granted(f, 0, a);
        answer(f, 0, 0, a, 1, none);
        assert_nothing(f);
    }
}

/* ---- accelerators that are offered ahead of time ---- */

/* One accelerator to which a batch takes 10. */
static inline struct fixture fixture_ahead(void) {
    static const uint8_t types[1];
    struct rank_core_config config = {.models = MODELS,
                                      .accelerators = 1,
                                      .accelerator_type = types,
                                      .types = 1,
                                      .ctrl_ns = 10,
                                      .policy = &policy_plain};
    struct fixture f = {.core = malloc(rank_core_bytes(&config)), .types = 1};
    assert_non_null(f.core);
    memset(f.core, 0xff, rank_core_bytes(&config));
    rank_core_init(f.core, &config);
    return f;
}

/* A batch is sealed that will run from `begin_ns` for 100. */
static inline void sealed(struct fixture *f, int64_t now_ns, uint32_t model, int64_t begin_ns, struct candidate next) {
    rank_told_answer(f->core, now_ns, model,
                     (struct rank_answer){.items = 1, .sealed_ns = now_ns, .end_ns = begin_ns + 100, .run_ns = 100},
                     next, 1, &f->out);
}

static inline void ran_until(struct fixture *f, int64_t now_ns, int64_t ended_ns) {
    rank_told_end(f->core, now_ns, 0, ended_ns, false, &f->out);
}
