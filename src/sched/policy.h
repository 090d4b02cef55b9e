/* policy.h - what a scheduling policy is: a const table of a few functions. One policy is one file that ends with its
 * table; the same object serves the live server and the simulator.
 *
 * There are two kinds. A policy of candidates steers the model cores and the rank core, which own the mechanism:
 * queues, leftovers, refusals, batches of a queue's prefix, grants, arrival rates; it says which arrivals are admitted,
 * how large a batch the window drop aims at, when a batch may start, which of two goes first, and what the
 * sub-cluster's parameters are. A central policy is a scheduler of its own (sched/central.h). Both keep their state in
 * the room that they are given, never in file statics. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "link/messages.h"

struct model_view;   /* sched/model_view.h: what a policy sees of a model core */
struct request_node; /* sched/request_pool.h */
struct central_ops;  /* sched/central.h */

#define POLICY_OPTIONS_MAX 12

/* One option of a policy, as scenario files give it: `policy: {name: NAME, KEY: VALUE}`. */
struct policy_option {
    const char *key;            /* a number's unit is its last part: max_queue_delay_us */
    const char *help;           /* one line */
    double preset, least, most; /* of a number */
    const char *const *words;   /* ended by NULL: one of them, and the value is its index */
    bool flag;                  /* true or false, 1 or 0 */
    bool whole;                 /* a number without a fraction */
};

/* What the options of one policy are set to, in the order of its table. */
struct policy_options {
    double value[POLICY_OPTIONS_MAX];
};

/* A model's batch as the core composed it: requests from `head` in deadline order. */
struct batch_view {
    int64_t deadline_ns;        /* of its first request, which is its earliest */
    int64_t head_arrival_ns;    /* of its first request */
    int64_t due_ns;             /* latest start if one more item joins it */
    int64_t invalid_after_ns;   /* latest start */
    int64_t changed_ns;         /* when something joined or left it; model_updated_ns() counts other arrivals, too */
    uint32_t items, items_most; /* in the batch; most that a batch of this type may have */
    bool full;                  /* more is queued than fits: nothing can join it */
};

/* When a batch may start. */
struct batch_times {
    int64_t start_ns[SUPPLY_LEVELS]; /* by how many accelerators are free; 0: now */
    int64_t order_ns;                /* among batches that may start, the least goes first */
};

/* From then on, however many are free. */
static inline struct batch_times batch_times_from(int64_t start_ns, int64_t order_ns) {
    return (struct batch_times){{start_ns, start_ns, start_ns}, order_ns};
}

/* All models of a sub-cluster, or of a class that has its load in common (sched/load_classes.h). */
struct cluster_view {
    uint32_t models;
    const struct model_rates *rates; /* [models], as of now; rate 0: silent */
    double accelerators;             /* in service */
};

struct policy_ops {
    const char *name;
    const char *summary;                 /* one line for --help */
    const struct policy_option *options; /* ended by a NULL key; NULL: none */

    const struct central_ops
        *central; /* sched/central.h: a scheduler of its own. NULL: of candidates, by what follows */

    /* A batch is as much of the queue as it may hold, and the deadlines are not looked at: nothing is refused (nor
     * given up, whatever target_items) for them. */
    bool deadline_blind;
    /* What the window drop gives up and model_admit turns away is refused at once, instead of waiting among the
     * leftovers for an accelerator that nobody wants. */
    bool no_leftovers;
    /* For the model core, on its thread. `own` is the policy's room in it, zeroed at first. */
    size_t model_bytes;
    /* After the rates, the tables, the delays or the parameters changed (at most some hundred times a second). Sets
     * m->batch_best and m->target_items. */
    void (*model_update)(struct model_view *m, void *own);
    /* Whether an arrival is queued; if not it waits among the leftovers. NULL: always. */
    bool (*model_admit)(struct model_view *m, void *own, const struct request_node *request);
    /* When the batch for a type may start, after every change of the batch. */
    struct batch_times (*batch_times)(const struct model_view *m, const void *own, uint32_t type,
                                      const struct batch_view *batch);

    /* For policies that go by the batch sizes that a model's configuration prefers: how many items of a batch that may
     * start now are to be in it, whole requests as far as they fit. Batches may have as many as the model allows then.
     * NULL: all; and no more than pays. */
    uint32_t (*batch_part)(const struct model_view *m, const void *own, uint32_t items, int64_t head_arrival_ns,
                           int64_t now_ns);

    /* For the rank core, on its thread, every 10 ms while events come, and of each class of models: fills the
     * parameters (but accelerators, busy, hop_ns, thread_busy and type_share) and admit_share[models]. NULL: none are
     * needed. */
    void (*cluster_derive)(const struct cluster_view *cluster, const struct policy_options *options,
                           struct cluster_parameters *parameters, double *admit_share);
};

/* Sets every option to its preset. */
void policy_options_preset(const struct policy_ops *policy, struct policy_options *options);
/* Sets one from text: true or false, a word, or a number. -EINVAL with a sentence that names neither key nor value. */
int policy_option_read(const struct policy_ops *policy, const char *key, const char *value,
                       struct policy_options *options, struct sy_error *err);
/* Reads "NAME" or "NAME:KEY=VALUE,KEY=VALUE"; what is not given has its preset. -EINVAL with a sentence. */
int policy_read(const char *text, const struct policy_ops **policy, struct policy_options *options,
                struct sy_error *err);

extern const struct policy_ops policy_deferred;
extern const struct policy_ops policy_kairos;
extern const struct policy_ops policy_clockwork;
extern const struct policy_ops policy_symphony;
extern const struct policy_ops policy_eager;
extern const struct policy_ops policy_timeout;
extern const struct policy_ops policy_fifo;
extern const struct policy_ops policy_nexus;

/* All policies, ended by NULL. */
extern const struct policy_ops *const policies[];
/* NULL if there is none of that name; then `err` has a sentence with those that there are. */
const struct policy_ops *policy_find(const char *name, struct sy_error *err);
