/* policy.h - what a scheduling policy is: a const table of a few functions. One policy is one file that ends with its
 * table, and a large one has further files whose names begin with its own. The same object serves the live server and
 * the simulator.
 *
 * There are two kinds. A policy of candidates steers the model cores and the rank core, which own the mechanism:
 * queues, refusals, which requests a batch holds, grants, arrival rates. The policy says which arrivals are
 * admitted, how large a batch the window drop aims at, when a batch may start, which of two goes first, and what the
 * sub-cluster's parameters are. A central policy is a scheduler of its own (sched/core/central.h). Both keep their
 * state in the memory that they are given, never in file statics. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/messages.h"
#include "core/util/error.h"

struct model_view;   /* sched/core/model_view.h: what a policy sees of a model core */
struct request_node; /* sched/core/request_pool.h */
struct central_ops;  /* sched/core/central.h */

#define POLICY_LOSS        0.001 /* share of lost requests that matters: a tenth of what goodput allows */
#define POLICY_FULL        0.92  /* share of its time for which an accelerator, or a thread, can be busy */
#define POLICY_LATELY      0.25  /* part of an SLO for which a burst is assumed to last */
#define POLICY_OPTIONS_MAX 12
#define POLICY_WAYS_MAX    4

/* One option of a policy, as scenario files give it: `policy: {name: NAME, KEY: VALUE}`. */
struct policy_option {
    const char *key;            /* name of the option; ends with the unit of a number: max_queue_delay_us */
    const char *help;           /* one line */
    double preset, least, most; /* preset value; limits of a number */
    const char *const *words;   /* words allowed, ended by NULL: the value is a word's index; NULL: no words */
    bool flag;                  /* the value is true or false, kept as 1 or 0 */
    bool whole;                 /* the value is a number without a fraction */
};

/* What the options of one policy are set to, in the order of its table. */
struct policy_options {
    double value[POLICY_OPTIONS_MAX];
};

/* A model's next batch as the core composed it: requests in deadline order. */
struct batch_view {
    int64_t deadline_ns;        /* deadline of the first request, the earliest of the batch */
    int64_t head_arrival_ns;    /* arrival of the first request */
    int64_t due_ns;             /* latest start of the batch if it had one more item */
    int64_t invalid_after_ns;   /* latest start of the batch */
    int64_t changed_ns;         /* time of the last join or leave; model_updated_ns() counts other arrivals, too */
    uint32_t items, items_most; /* items in the batch; most items of a batch on this type */
    bool full; /* nothing can join the batch: more is queued than fits, or the queue may hold no more */
};

/* When a batch may start. */
struct batch_times {
    int64_t start_ns[SUPPLY_LEVELS]; /* earliest start, by level of supply (how many accelerators are free); 0: now */
    int64_t order_ns;                /* order among batches that may start: the least goes first */
};

/* The times of a batch that may start from start_ns on, however many accelerators are free. */
static inline struct batch_times batch_times_from(int64_t start_ns, int64_t order_ns) {
    return (struct batch_times){{start_ns, start_ns, start_ns}, order_ns};
}

/* All models of a sub-cluster, or of a class that has its load in common (sched/core/load_classes.h). */
struct cluster_view {
    uint32_t models;
    const struct model_rates *rates; /* [models] rates as of now; rate 0: a silent model */
    double accelerators;             /* accelerators in service */
    double busy;                     /* share of the accelerators' time that batches take, over 2 s */
    bool limited;                    /* accelerators have less memory than their models */
};

struct policy_ops {
    const char *name;
    const char *summary;                 /* text for --help, one line */
    const struct policy_option *options; /* options, ended by a NULL key; NULL: none */

    const struct central_ops *central; /* functions of a central policy, which uses no later field; else NULL */

    /* Deadlines do not matter: a batch is as much of the queue as it may hold, no request is refused for its deadline,
     * and the window drop gives none up. */
    bool deadline_blind;
    /* When a request of another shape waits, the model's batch starts without waiting for more company. */
    bool shapes_flush;

    /* For the model core, on its thread. `own` is the policy's memory in each core: model_bytes, zeroed at first. */
    size_t model_bytes;
    /* After the rates, the tables, the delays or the parameters changed (at most some hundred times a second). Sets
     * m->batch_best, m->target_items, and m->items_cap if batches are to be smaller than what pays. */
    void (*model_update)(struct model_view *m, void *own);
    /* Whether an arrival is queued; if not it is refused. NULL: always. */
    bool (*model_admit)(struct model_view *m, void *own, const struct request_node *request);
    /* When the batch for a type may start, after every change of the batch. */
    struct batch_times (*batch_times)(const struct model_view *m, const void *own, uint32_t type,
                                      const struct batch_view *batch);

    /* For policies that follow the batch sizes that a model's configuration prefers (m->preferred). A batch could have
     * `items` items now; returns how many it is to have. The batch takes the whole requests that fit into so many.
     * Batches may then have as many items as the model allows. NULL, or no preferred sizes: a batch takes all items,
     * up to items_most. */
    uint32_t (*batch_preferred)(const struct model_view *m, const void *own, uint32_t items, int64_t head_arrival_ns,
                                int64_t now_ns);

    /* For the rank core, on its thread, every 10 ms while events come, once for each class of models: sets the
     * parameters (except accelerators, busy, hop_ns, thread_busy, type_share and way, which the core sets) and
     * admit_share[cluster->models]. NULL: the policy needs none. */
    void (*cluster_derive)(const struct cluster_view *cluster, const struct policy_options *options,
                           struct cluster_parameters *parameters, double *admit_share);

    /* How many ways of deciding the options leave open. The policy decides by the way with the number
     * cluster_parameters.way, which is 0 at first; lab/sim/rehearsal.h finds out which way is best. NULL, or 1: there
     * is only one way. way_fix() sets options that leave only the way `way`. */
    uint32_t (*ways)(const struct policy_options *options);
    const char *const *way_names; /* names of the ways, a word each */
    void (*way_fix)(struct policy_options *options, uint32_t way);
};

/* How many ways a policy may choose among: 1 to POLICY_WAYS_MAX. */
static inline uint32_t policy_ways(const struct policy_ops *policy, const struct policy_options *options) {
    return policy->ways ? policy->ways(options) : 1;
}

/* Sets every option to its preset. */
void policy_options_preset(const struct policy_ops *policy, struct policy_options *options);
/* Sets one option from text: true or false, a word, or a number. -EINVAL with a sentence that names neither key nor
 * value. */
int policy_option_read(const struct policy_ops *policy, const char *key, const char *value,
                       struct policy_options *options, struct sy_error *err);
/* Reads "NAME" or "NAME:KEY=VALUE,KEY=VALUE"; options not given have their presets. -EINVAL with a sentence. */
int policy_read(const char *text, const struct policy_ops **policy, struct policy_options *options,
                struct sy_error *err);

/* The policies of this program: policy_deferred, the default, and so on. */
#define POLICIES(POLICY)                                                                                               \
    POLICY(deferred)                                                                                                   \
    POLICY(symphony) POLICY(eager) POLICY(timeout) POLICY(fifo) POLICY(clockwork) POLICY(kairos) POLICY(nexus)
#define POLICY_DECLARED(name) extern const struct policy_ops policy_##name;
POLICIES(POLICY_DECLARED)

#define POLICIES_MAX 32

/* All policies, ended by NULL. */
extern const struct policy_ops *policies[POLICIES_MAX + 1];
/* Adds one, while no other thread looks for policies. One with its name must not be there; the same one again is
 * nothing. -EINVAL with a sentence. */
int policies_add(const struct policy_ops *policy, struct sy_error *err);
/* The policy of that name. NULL: there is none, and `err` has a sentence with the names that there are. */
const struct policy_ops *policy_find(const char *name, struct sy_error *err);
