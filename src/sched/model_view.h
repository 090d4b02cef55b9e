/* model_view.h - the part of a model core that policies see. For policies and model_core.c only. */
#pragma once

#include <stdbool.h>

#include "link/messages.h"
#include "sched/arrival_rates.h"
#include "sched/policy.h"
#include "table/profile.h"

struct model_view {
    /* set by the core; read by policies */
    uint32_t types;
    uint32_t items_worth;             /* up to where waiting for company pays, on some type */
    bool used[ACCELERATOR_TYPES_MAX]; /* it runs on them, and there are some in service */
    int64_t ctrl_ns, data_ns;         /* delay(b) = ctrl + data*b */
    int64_t wait_ns;                  /* longest for company, as its configuration has it; 0: says nothing */
    double admit_share;
    /* set by the policy's model_update() */
    uint32_t target_items; /* window drop: the head is given up when so many (or all, if fewer) no longer fit */
    uint32_t items_cap;    /* a batch holds no more than this; 0: what pays */
    double batch_best;     /* b*: the batch that its rate and SLO allow, >= 1 */
    /* set by the core again */
    uint32_t items_most[ACCELERATOR_TYPES_MAX];      /* a batch by type: over it, items only get dearer */
    struct profile *profiles[ACCELERATOR_TYPES_MAX]; /* the tables in force; NULL: does not run on that type */
    struct arrival_rates rates;
    double alpha_ns, beta_ns; /* mean of the tables' fits over the accelerators */
    double slo_ns;            /* mean over the arrivals */
    double rate_per_ns;       /* items, over 2 s, as of the last tick */
    struct cluster_parameters parameters;
    const struct policy_options *options;
    const uint32_t *preferred; /* [preferred_count] batch sizes that its configuration wants, ascending, all possible */
    uint32_t preferred_count;
};

/* When a batch was last looked at because of its requests: when one joined or left it, or another one came. */
static inline int64_t model_updated_ns(const struct model_view *m, const struct batch_view *batch) {
    int64_t arrival_ns = m->rates.last_arrival_ns;
    return batch->changed_ns > arrival_ns ? batch->changed_ns : arrival_ns;
}

/* From the decision to the end of a batch of `items` on accelerators of a type: delay(b) + l(b). */
static inline int64_t model_span_ns(const struct model_view *m, uint32_t type, uint32_t items) {
    return m->profiles[type]->latency_ns[items] + m->ctrl_ns + m->data_ns * items;
}
