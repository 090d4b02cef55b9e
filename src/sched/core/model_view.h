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
    uint32_t items_worth;             /* largest batch for which waiting for company pays, on some type */
    bool used[ACCELERATOR_TYPES_MAX]; /* the model runs on that type, and accelerators of it are in service */
    int64_t ctrl_ns, data_ns;         /* delay(b) = ctrl + data*b: time before a batch of b items starts */
    int64_t load_ns;                  /* where memory is limited: time that a load of the model takes; else 0 */
    int64_t wait_ns;                  /* longest wait for company, as configured; 0: not configured */
    double admit_share;               /* share of the model's arrivals to admit; 1: all */
    /* set by the policy's model_update() */
    uint32_t target_items; /* items of the window drop: if so many (or all, if fewer wait) do not fit, the head goes */
    uint32_t items_cap;    /* most items of a batch; 0: items_most */
    double batch_best;     /* b*: batch size that the model's rate and SLO allow, >= 1 */
    /* set by the core; read by policies */
    uint32_t items_most[ACCELERATOR_TYPES_MAX];      /* most items of a batch, by type: larger ones cost more an item */
    struct profile *profiles[ACCELERATOR_TYPES_MAX]; /* tables in force; NULL: the model does not run on that type */
    struct arrival_rates rates;
    double alpha_ns, beta_ns; /* line through the tables: mean over the accelerators in service */
    double slo_ns;            /* mean SLO of the arrivals */
    double rate_per_ns;       /* items per nanosecond, weighted over 2 s, as of the last tick */
    double dropped_rate;      /* share of dropped requests, as in struct model_rates, but as of now */
    struct cluster_parameters parameters;
    const struct policy_options *options;
    const uint32_t *preferred; /* [preferred_count] batch sizes that the configuration wants, ascending, all possible */
    uint32_t preferred_count;
};

/* When a request last joined or left `batch`, or arrived for the model. */
static inline int64_t model_updated_ns(const struct model_view *m, const struct batch_view *batch) {
    int64_t arrival_ns = m->rates.last_arrival_ns;
    return batch->changed_ns > arrival_ns ? batch->changed_ns : arrival_ns;
}

/* Time from a decision to the end of a batch of `items` on accelerators of a type: delay(b) + l(b). */
static inline int64_t model_span_ns(const struct model_view *m, uint32_t type, uint32_t items) {
    return m->profiles[type]->latency_ns[items] + m->ctrl_ns + m->data_ns * items;
}
