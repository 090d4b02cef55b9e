/* model_view.h - the part of a model core that policies see. For policies and the model core's files only. */
#pragma once

#include <stdbool.h>

#include "core/data/messages.h"
#include "core/data/profile.h"
#include "sched/core/arrival_rates.h"
#include "sched/core/policy.h"

struct model_view {
    /* set by the core; read by policies */
    uint32_t types;
    uint32_t items_worth;             /* batch size up to which waiting for company pays, on some type */
    bool used[ACCELERATOR_TYPES_MAX]; /* the model runs on that type, and accelerators of it are in service */
    int64_t ctrl_ns, data_ns;         /* delay(b) = ctrl + data*b */
    int64_t wait_ns;                  /* longest wait for company by its configuration; 0: not configured */
    double admit_share;
    /* set by the policy's model_update() */
    uint32_t
        target_items;   /* window drop: the head is given up when so many items (or all, if fewer wait) no longer fit */
    uint32_t items_cap; /* items of a batch at most; 0: as many as pay */
    double batch_best;  /* b*: the batch that its rate and SLO allow, >= 1 */
    bool no_leftovers;  /* as policy_ops.no_leftovers, until the next update */
    /* set by the core again */
    uint32_t items_most[ACCELERATOR_TYPES_MAX];      /* of a batch, by type: in larger batches each item costs more */
    struct profile *profiles[ACCELERATOR_TYPES_MAX]; /* the tables in force; NULL: does not run on that type */
    struct arrival_rates rates;
    double alpha_ns, beta_ns; /* of the tables' fits, in the mean over the accelerators in service */
    double slo_ns;            /* mean over the arrivals */
    double rate_per_ns;       /* items, over 2 s, as of the last tick */
    double dropped_rate;      /* as in struct model_rates, as of now */
    struct cluster_parameters parameters;
    const struct policy_options *options;
    const uint32_t *preferred; /* [preferred_count] batch sizes that its configuration wants, ascending, all possible */
    uint32_t preferred_count;
};

/* When a request last joined or left a batch, or arrived for its model. */
static inline int64_t model_updated_ns(const struct model_view *m, const struct batch_view *batch) {
    int64_t arrival_ns = m->rates.last_arrival_ns;
    return batch->changed_ns > arrival_ns ? batch->changed_ns : arrival_ns;
}

/* From the decision to the end of a batch of `items` on accelerators of a type: delay(b) + l(b). */
static inline int64_t model_span_ns(const struct model_view *m, uint32_t type, uint32_t items) {
    return m->profiles[type]->latency_ns[items] + m->ctrl_ns + m->data_ns * items;
}
