/* central.h - a central policy: one pure state machine that holds all queues, plans each accelerator's time, and may
 * load and unload models. Clockwork, Nexus and Kairos are of this kind.
 *
 * The central thread (live) and the simulator drive it with step(); it reads no clock, takes no lock, allocates nothing
 * after init(), and draws randomness from the configured seed alone.
 *
 * An accelerator runs the batches sent to it one after the other, in the order sent. A batch begins when it has arrived
 * (delay(b) after it was sent: inputs travel while others run), the one before it has ended, and `earliest_ns` has
 * come. A batch that could begin only after `latest_ns` is not run, and its requests are refused. Loads and unloads are
 * also done one after the other, while batches run.
 *
 * A core plans for the models and accelerators that it was made for. When others come, its shell makes another core,
 * hands it what is queued, and says which accelerators are BUSY with what the core before sent. */
#pragma once

#include <stddef.h>

#include "core/data/messages.h"
#include "core/data/profile.h"
#include "sched/core/policy.h"
#include "sched/core/request_pool.h"

#define CENTRAL_ACTIONS_MAX 64 /* actions that one step may return */

struct central_model {
    const struct profile *profiles[ACCELERATOR_TYPES_MAX]; /* copied; NULL: it does not run on that type */
    uint32_t batch_max;                                    /* items a batch; at most every profile's */
    int64_t slo_ns;                                        /* the model's usual SLO */
    double rate_hint;                                      /* requests per second to be expected; 0: not known */
    uint64_t weights_bytes;                                /* memory that its weights take on an accelerator */
    int64_t load_ns;                                       /* what loading it there takes */
};

struct central_config {
    const struct central_model *models; /* [model_count]; only read by init() */
    uint32_t model_count;
    const uint8_t *accelerator_type; /* [accelerators], each under `types`; only read by init() */
    uint32_t accelerators, types;
    int64_t ctrl_ns, data_ns; /* delay(b) = ctrl + data*b before a batch starts */
    uint64_t memory_bytes;    /* of an accelerator, for weights; 0: every model is loaded everywhere, for good */
    uint64_t seed;
    const struct policy_options *options;
};

enum central_event_kind {
    CENTRAL_ARRIVED,   /* request, for which the core takes a node; the pool must have a free one */
    CENTRAL_CANCELLED, /* request: handle and deadline */
    CENTRAL_ENDED,     /* ended: a batch, a load or an unload is over; one for each action */
    CENTRAL_UP,        /* accelerator joins, with nothing loaded */
    CENTRAL_DOWN,      /* accelerator leaves; an ENDED follows for everything that it still had to do */
    CENTRAL_BUSY,  /* before anything else: accelerator has batches that this core did not send, until about until_ns */
    CENTRAL_FREE,  /* accelerator has ended all the batches that BUSY told of */
    CENTRAL_TIMER, /* the time of central_output.wake_ns has come */
};

enum central_action_kind { CENTRAL_RUN, CENTRAL_LOAD, CENTRAL_UNLOAD };

/* Of an accelerator, batches end in the order in which they were sent; so do loads and unloads, among themselves. */
struct central_ended {
    enum central_action_kind kind;
    uint32_t accelerator, model, items;
    bool done;      /* false: refused by the accelerator, or lost with it */
    int64_t run_ns; /* measured, if it was done */
    uint64_t tag;   /* the action's */
};

struct central_event {
    enum central_event_kind kind;
    uint32_t accelerator; /* UP, DOWN, BUSY, FREE */
    union {
        const struct request_message *request;
        const struct central_ended *ended;
        int64_t until_ns; /* BUSY */
    };
};

struct central_action {
    enum central_action_kind kind;
    uint32_t accelerator, model;
    uint64_t tag;                    /* the policy's own */
    int64_t earliest_ns, latest_ns;  /* limits of its start on the accelerator; INT64_MIN, TIME_NEVER: none */
    uint32_t first, requests, items; /* RUN: the list of its requests, linked by `next` */
};

/* What to do now. Lists are of pool nodes linked by `next`; the caller owns the nodes and returns them to the pool. */
struct central_output {
    uint32_t refused; /* first of a list, each with its `refusal`; REQUEST_NONE: none */
    uint32_t action_count;
    struct central_action actions[CENTRAL_ACTIONS_MAX];
    int64_t wake_ns; /* step again with CENTRAL_TIMER then (now, if more actions wait); TIME_NEVER: not needed */
};

/* For policies: refuses a request that no queue holds any more. */
static inline void central_refuse(struct central_output *out, struct request_pool *pool, uint32_t node,
                                  enum refusal reason) {
    pool->nodes[node].refusal = reason;
    pool->nodes[node].next = out->refused;
    out->refused = node;
}

/* How models have moved between accelerators, by a policy that binds them to some. A place is a model with requests, on
 * one of the accelerators that it is bound to. */
struct central_moves {
    uint64_t plans;               /* since the first request */
    uint64_t places, kept;        /* of those plans; kept: it was there already. The others are moves */
    uint64_t requests;            /* that waited at a place which ended, and went to another */
    int64_t wait_ns, wait_max_ns; /* from a move until the model was loaded there: of all moves together, and most */
};

struct central_ops {
    /* Bytes of memory for a core, which is aligned as malloc's. */
    size_t (*bytes)(const struct central_config *config);
    /* Sets it up in zeroed memory of that size. Every accelerator is up and idle. */
    void (*init)(void *core, const struct central_config *config, struct request_pool *pool);
    /* Handles one event; time never goes back. `out` is overwritten. */
    void (*step)(void *core, int64_t now_ns, const struct central_event *event, struct central_output *out);
    /* How many accelerators the load needs, by its last plan. NULL: the policy does not plan that, and callers count
     * the accelerators that the load keeps busy. */
    double (*needed)(const void *core);
    /* NULL: it binds no models to accelerators. */
    const struct central_moves *(*moves)(const void *core);
    bool needs_types; /* makes sense with accelerators of several types only */
    bool uses_memory; /* loads and unloads models where memory is short */
};
