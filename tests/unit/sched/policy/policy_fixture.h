/* policy_fixture.h - one model as a policy of candidates sees it: l(b) = b + 5 ms, SLO 25 ms. */
#pragma once

#include <stdlib.h>

#include "sched/core/model_view.h"
#include "sched/core/policy.h"
#include "unit/assert_near.h"

#define MS        1e6
#define BATCH_MAX 16

struct fixture {
    const struct policy_ops *policy;
    struct model_view view;
    struct profile *profile;
    struct policy_options options;
    void *own;
};

static inline struct fixture fixture_new(const struct policy_ops *policy, double rate_per_s) {
    struct fixture f = {
        .policy = policy, .own = calloc(1, policy->model_bytes + 1), .profile = malloc(profile_bytes(BATCH_MAX))};
    assert_non_null(f.own);
    assert_non_null(f.profile);
    policy_options_preset(policy, &f.options);
    profile_set_line(f.profile, BATCH_MAX, 1 * MS, 5 * MS);
    f.view = (struct model_view){
        .types = 1,
        .profiles = {f.profile},
        .items_most = {BATCH_MAX},
        .items_worth = BATCH_MAX,
        .alpha_ns = 1 * MS,
        .beta_ns = 5 * MS,
        .slo_ns = 25 * MS,
        .rate_per_ns = rate_per_s / 1e9,
        .parameters = {.gamma = 0.5, .theta = 1, .tau_ns = 1 * MS},
        .admit_share = 1,
    };
    arrival_rates_init(&f.view.rates);
    return f;
}

static inline void fixture_free(struct fixture *f) {
    free(f->own);
    free(f->profile);
}

/* Sets an option from text. */
static inline void option_set(struct fixture *f, const char *key, const char *value) {
    struct sy_error err;
    if (policy_option_read(f->policy, key, value, &f->options, &err) < 0)
        fail_msg("%s: %s", key, err.text);
}

static inline void update(struct fixture *f) {
    f->view.options = &f->options;
    f->policy->model_update(&f->view, f->own);
}

/* A batch of `items` whose head arrived at 75 ms and has until 100 ms, and which last changed at 80 ms. */
static inline struct batch_view batch_of(const struct fixture *f, uint32_t items) {
    return (struct batch_view){
        .deadline_ns = (int64_t)(100 * MS),
        .head_arrival_ns = (int64_t)(75 * MS),
        .changed_ns = (int64_t)(80 * MS),
        .due_ns = (int64_t)(100 * MS) - f->profile->latency_ns[items + 1],
        .invalid_after_ns = (int64_t)(100 * MS) - f->profile->latency_ns[items],
        .items = items,
        .items_most = f->view.items_most[0],
    };
}

/* When such a batch may start. */
static inline struct batch_times times(const struct fixture *f, uint32_t items, bool full) {
    struct batch_view batch = batch_of(f, items);
    struct model_view view = f->view;
    batch.full = full;
    view.options = &f->options; /* the fixture may have been copied since the update */
    return f->policy->batch_times(&view, f->own, 0, &batch);
}
