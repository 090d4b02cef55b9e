/* policy.h - what a scheduling policy is: a const table of a few functions. One policy is one file that ends with its
 * table; the same object serves the live server and the simulator.
 *
 * The cores own the mechanism: queues, leftovers, refusals, batches of a queue's prefix, grants, arrival rates. A
 * policy says which arrivals are admitted, how large a batch the window drop aims at, when a batch may start, and what
 * the sub-cluster's parameters are. It keeps its state in the room that the cores give it, never in file statics. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/messages.h"

struct model_view;   /* sched/model_view.h: what a policy sees of a model core */
struct request_node; /* sched/request_pool.h */

struct policy_options {
    bool consolidate; /* deferred: never start early just because accelerators are free (the paper's flat idle share) */
};

/* A model's batch as the core composed it: requests from `head` in deadline order. */
struct batch_view {
    int64_t deadline_ns;        /* of its first request, which is its earliest */
    int64_t head_arrival_ns;    /* of its first request */
    int64_t due_ns;             /* latest start if one more item joins it */
    int64_t invalid_after_ns;   /* latest start */
    uint32_t items, items_most; /* in the batch; most that a batch of this type may have */
    bool sealed;                /* more is queued than fits: nothing can join it */
};

/* When a batch may start. 0: now. */
struct batch_times {
    int64_t ready_ns; /* on an accelerator that becomes free */
    int64_t wake_ns;  /* on an accelerator that is free already; not before ready_ns */
};

/* All models of a sub-cluster. */
struct cluster_view {
    uint32_t models;
    const struct model_rates *rates; /* [models], as of now; rate 0: silent */
    double accelerators;             /* in service */
    double free_launches;            /* share of batches launched by an accelerator becoming free */
};

struct policy_ops {
    const char *name;
    const char *summary; /* one line for --help */

    /* For the model core, on its thread. `own` is the policy's room in it, zeroed at first. */
    size_t model_bytes;
    /* After the rates, the tables, the delays or the parameters changed (at most some hundred times a second). Sets
     * m->batch_best and m->target_items. */
    void (*model_update)(struct model_view *m, void *own);
    /* Whether an arrival is queued; if not it waits among the leftovers. NULL: always. */
    bool (*model_admit)(struct model_view *m, void *own, const struct request_node *request);
    /* When the batch for a type may start, after every change of the batch. */
    struct batch_times (*batch_times)(const struct model_view *m, const void *own, uint32_t type, int64_t now_ns,
                                      const struct batch_view *batch);

    /* For the rank core, on its thread, every 10 ms while events come: fills the parameters (but free_launches and
     * type_share) and admit_share[models]. NULL: none are needed. */
    void (*cluster_derive)(const struct cluster_view *cluster, const struct policy_options *options,
                           struct cluster_parameters *parameters, double *admit_share);
};

extern const struct policy_ops policy_deferred;

/* All policies, ended by NULL. */
extern const struct policy_ops *const policies[];
/* NULL if there is none of that name. */
const struct policy_ops *policy_find(const char *name);
