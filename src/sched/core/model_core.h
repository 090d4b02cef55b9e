/* model_core.h - one model's queue and its next batch: a pure state machine in virtual time.
 *
 * The model thread (live) and the simulator drive it with model_core_step(); it reads no clock, takes no lock, and
 * allocates nothing after model_core_init(). Symphony (arXiv 2308.07470), section 4.3 and Appendix C, ModelThread. */
#pragma once

#include "core/data/messages.h"
#include "core/data/profile.h"
#include "sched/core/policy.h"
#include "sched/core/request_pool.h"

/* Of each priority, how many requests with an SLO wait, and how many may wait (of one that no request has: 0). All
 * cores of a model share one struct (there is one core for each shape of the model's inputs). Owned by the cores'
 * thread. */
struct queue_levels {
    struct queue_level {
        uint32_t waiting, most;
    } of[PRIORITIES_MAX];
};

struct model_core_config {
    uint32_t types;                                        /* accelerator types, 1..ACCELERATOR_TYPES_MAX */
    const struct profile *profiles[ACCELERATOR_TYPES_MAX]; /* copied; NULL: the model does not run on that type */
    uint32_t batch_max;                                    /* most items of a batch, within each profile */
    int64_t slo_ns;                                        /* SLO of the model until requests have come */
    struct queue_levels *levels;                           /* limits of the queue; NULL: none but the pool's size */
    uint32_t delays;           /* priorities, a bit each, whose requests become best effort instead of being refused */
    int64_t wait_ns;           /* longest wait for company, whatever the policy says; 0: as the policy says */
    const uint32_t *preferred; /* [preferred_count] wanted sizes of batches, ascending; they outlive the core */
    uint32_t preferred_count;
    double weight;            /* weight of the model's share in an overloaded sub-cluster, against other models; 0: 1 */
    int64_t ctrl_ns, data_ns; /* delay(b) = ctrl + data*b: time before a batch of b items starts */
    bool fetch_ahead;         /* data*b passes while the batch before runs; else it takes time of the accelerator */
    bool learn;               /* the tables are corrected by measured runs */
    uint32_t accelerators;    /* accelerators of all types, if `learn`: the first run on each may be slow (rolling.h) */
    int64_t load_ns;          /* time to load the model, where memory is limited; else 0 */
    int64_t there_ns; /* with load_ns: time at which an accelerator is expected to have it, as in GRANT_MEMORY */
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
};

struct model_core;

enum model_event_kind {
    MODEL_ARRIVED,    /* `request` arrives; the pool must have a free node (else the caller refuses the request:
                         REFUSAL_POOL_FULL) */
    MODEL_ARRIVING,   /* `request` arrives, and more requests may arrive at this time: the core tells only refusals and
                         rates. It tells the rest with MODEL_SETTLED, or with the next event of another kind */
    MODEL_SETTLED,    /* no more requests arrive at this time */
    MODEL_CANCELLED,  /* `request` is cancelled: the core finds it by handle, priority and deadline */
    MODEL_PREPARED,   /* the inputs of `request` (its handle) are there before their time (model_promises.c) */
    MODEL_GRANTED,    /* `grant` of kind GRANT_ACCELERATOR */
    MODEL_PARAMETERS, /* `grant` of kind GRANT_PARAMETERS */
    MODEL_MEMORY,     /* `grant` of kind GRANT_MEMORY */
    MODEL_RAN,        /* `ran`: a batch is over; if it was not run, only its number of late requests counts */
    MODEL_DELAYS,     /* `delays`: new values */
    MODEL_TIMER,      /* the time of model_output.wake_ns has come */
    MODEL_HURRIED,    /* `hurried_ns`: requests of other shapes wait for this core, or for its batch to start */
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
        int64_t hurried_ns; /* arrival time: a batch whose first request is no newer does not wait for company */
    };
};

/* What the shell is to do now. Lists are pool nodes linked by `next`; the caller owns them and returns them to the
 * pool. */
struct model_output {
    uint32_t refused; /* first node of the list of refused requests, each with its `refusal`; REQUEST_NONE: none */
    uint32_t batch;   /* after a grant: first node of the batch; REQUEST_NONE: the accelerator is given back */
    uint32_t batch_requests, batch_items;
    int64_t batch_finish_ns; /* end of the batch, by the table in force */
    int64_t batch_run_ns;    /* time for which the batch occupies the accelerator */
    int64_t batch_ready_ns;  /* time since which the batch has waited for an accelerator, and for no company */
    bool candidate_changed;  /* `candidates` are to be told to the rank core (after a grant: always, in the answer) */
    struct candidate candidates[ACCELERATOR_TYPES_MAX];
    bool rates_changed; /* `rates` are to be told to the rank core */
    struct model_rates rates;
    int64_t wake_ns; /* time of the next MODEL_TIMER; TIME_NEVER: none before the next event */
};

/* Bytes of memory for a core. The memory is aligned as malloc's. */
size_t model_core_bytes(const struct model_core_config *config);
/* Sets up a core in memory of model_core_bytes(). May be called again to reuse the memory when the core is idle. */
void model_core_init(struct model_core *core, const struct model_core_config *config, struct request_pool *pool);
/* Handles one event; time never goes back. `out` is overwritten. */
void model_core_step(struct model_core *core, int64_t now_ns, const struct model_event *event,
                     struct model_output *out);
/* model_core_prefetch() prefetches the cache lines of a core that will be stepped soon. Some time later,
 * model_core_prefetch_arrival() prefetches the lines that the core points to and an arrival touches. Hints, useful
 * where many cores take turns. */
void model_core_prefetch(const struct model_core *core);
void model_core_prefetch_arrival(const struct model_core *core);
/* Prefetches the cache lines of a core that is about to be told parameters. */
void model_core_prefetch_parameters(const struct model_core *core);
/* Prefetches a queued request: the first one, if `node` is REQUEST_NONE, else the one after `node`. The line of `node`
 * should be in the cache by now. Returns the prefetched node; REQUEST_NONE: the queue has ended. */
uint32_t model_core_prefetch_batch(const struct model_core *core, uint32_t node);
/* Whether nothing is queued: then the core may be set up again for another shape. A grant may still be on its way; the
 * core answers it after that. */
bool model_core_idle(const struct model_core *core);
/* Whether no accelerator in service runs the model, as far as the core was told. */
bool model_core_stranded(const struct model_core *core);
/* Requests queued, including best effort and requests whose inputs are only promised. */
uint32_t model_core_queued(const struct model_core *core);
/* Items of the next batch on a type, as composed at the last step; 0: no batch. */
uint32_t model_core_items(const struct model_core *core, uint32_t type);
/* The table in force for a type; NULL if the model does not run on it. */
const struct profile *model_core_profile(const struct model_core *core, uint32_t type);
