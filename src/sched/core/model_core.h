/* model_core.h - one model's queue and its next batch: a pure state machine in virtual time.
 *
 * The model thread (live) and the simulator drive it with model_core_step(); it reads no clock, takes no lock, and
 * allocates nothing after model_core_init(). Symphony (arXiv 2308.07470), section 4.3 and Appendix C, ModelThread. */
#pragma once

#include "core/data/messages.h"
#include "core/data/profile.h"
#include "sched/core/policy.h"
#include "sched/core/request_pool.h"

/* Of each priority, how many requests with an SLO wait, and how many may wait. All cores of a model share it (there is
 * one core for each shape of its inputs); owned by their thread. */
struct queue_levels {
    struct queue_level {
        uint32_t waiting, most;
    } of[PRIORITIES_MAX];
};

struct model_core_config {
    uint32_t model;                                        /* index that its messages carry */
    uint32_t types;                                        /* accelerator types, 1..ACCELERATOR_TYPES_MAX */
    const struct profile *profiles[ACCELERATOR_TYPES_MAX]; /* copied; NULL: the model does not run on that type */
    uint32_t batch_max;                                    /* items a batch; at most every profile's */
    int64_t slo_ns;                                        /* the model's usual SLO, until arrivals tell */
    struct queue_levels *levels;                           /* NULL: as many may wait as the pool holds */
    uint32_t delays;           /* a bit for each priority whose requests become best effort instead of being refused */
    int64_t wait_ns;           /* longest wait for company, whatever the policy says; 0: as the policy says */
    const uint32_t *preferred; /* [preferred_count] sizes of batches that are wanted, ascending; outlive the core */
    uint32_t preferred_count;
    double weight;            /* of its share of an overloaded sub-cluster, against the other models'; 0: 1 */
    int64_t ctrl_ns, data_ns; /* delay(b) = ctrl + data*b before a batch starts */
    bool fetch_ahead;         /* the data*b passes while the batch before runs; else it takes the accelerator's time */
    bool learn;               /* correct the tables from measured runs */
    uint32_t accelerators;    /* when learning: how many there are, of all types; first runs may be slow (rolling.h) */
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
};

struct model_core;

enum model_event_kind {
    MODEL_ARRIVED,  /* request; the pool must have a free node (else refuse it: REFUSAL_POOL_FULL) */
    MODEL_ARRIVING, /* the same, if more may arrive at this time: only refusals and rates are told yet. The rest is told
                       with MODEL_SETTLED, or with the next event of another kind */
    MODEL_SETTLED,  /* no more come at this time */
    MODEL_CANCELLED,  /* request: handle and deadline */
    MODEL_PREPARED,   /* request: handle; its inputs are there before their time (model_promises.c) */
    MODEL_GRANTED,    /* grant (kind GRANT_ACCELERATOR) */
    MODEL_PARAMETERS, /* grant (kind GRANT_PARAMETERS) */
    MODEL_RAN,        /* ran; of a batch that was not run, only how many were late counts */
    MODEL_DELAYS,     /* delays */
    MODEL_TIMER,      /* the time of model_output.wake_ns has come */
    MODEL_HURRIED,    /* hurried_ns: requests of other shapes wait for this core, or for its batch to be gone */
};

struct model_event {
    enum model_event_kind kind;
    union {
        const struct request_message *request;
        const struct grant_message *grant;
        const struct ran_message *ran;
        struct {
            int64_t ctrl_ns, data_ns;
        } delays;
        int64_t hurried_ns; /* a batch whose first request arrived by then does not wait for company any more */
    };
};

/* What to do now. Lists are of pool nodes linked by `next`; the caller owns the nodes and returns them to the pool. */
struct model_output {
    uint32_t refused; /* first of a list, each with its `refusal`, or REQUEST_NONE */
    uint32_t batch;   /* after a grant: first request of the batch, or REQUEST_NONE: the accelerator is given back */
    uint32_t batch_requests, batch_items;
    int64_t batch_finish_ns; /* expected by the table in force */
    int64_t batch_run_ns;    /* for how much of that time the batch occupies the accelerator */
    bool candidate_changed;  /* tell the rank core `candidates` (after a grant: always, in the answer) */
    struct candidate candidates[ACCELERATOR_TYPES_MAX];
    bool rates_changed; /* tell the rank core `rates` */
    struct model_rates rates;
    int64_t wake_ns; /* step again with MODEL_TIMER then; TIME_NEVER: not before the next event */
};

/* Bytes of memory for a core, which is aligned as malloc's. */
size_t model_core_bytes(const struct model_core_config *config);
/* Sets up a core in memory of model_core_bytes(). May be called again to reuse the memory when the core is idle. */
void model_core_init(struct model_core *core, const struct model_core_config *config, struct request_pool *pool);
/* Handles one event; time never goes back. `out` is overwritten. */
void model_core_step(struct model_core *core, int64_t now_ns, const struct model_event *event,
                     struct model_output *out);
/* Prefetch the cache lines of a core that will be stepped soon, and some time later the lines that these point to and
 * that an arrival touches. Hints, of use where many cores take turns. */
void model_core_prefetch(const struct model_core *core);
void model_core_prefetch_arrival(const struct model_core *core);
/* The same for a core that is about to be told parameters. */
void model_core_prefetch_parameters(const struct model_core *core);
/* Prefetches a queued request: the first, if `node` is REQUEST_NONE, else the one after `node`, whose own line should
 * be there by now. Returns the prefetched node; REQUEST_NONE: the queue has ended. */
uint32_t model_core_prefetch_batch(const struct model_core *core, uint32_t node);
/* Nothing is queued: the core may be reused for something else. A grant may still be on its way; the new use answers
 * it. */
bool model_core_idle(const struct model_core *core);
/* No accelerator in service runs the model, as far as the core was told. */
bool model_core_stranded(const struct model_core *core);
/* Requests queued, those whose inputs are only promised, leftovers and best effort included. */
uint32_t model_core_queued(const struct model_core *core);
/* Items of its next batch on a type, as composed at the last step; 0: none. */
uint32_t model_core_items(const struct model_core *core, uint32_t type);
/* The table in force for a type; NULL if the model does not run on it. */
const struct profile *model_core_profile(const struct model_core *core, uint32_t type);
