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
 * A core plans for the models and accelerators that it was made for. When others come, its shell makes a new core,
 * hands the queued requests to the new core, and tells it which models accelerators have (HAS), and which accelerators
 * are BUSY with batches that the old core sent. */
#pragma once

#include <stddef.h>

#include "core/data/messages.h"
#include "core/data/pages.h"
#include "core/data/profile.h"
#include "sched/core/policy.h"
#include "sched/core/request_pool.h"

#define CENTRAL_ACTIONS_MAX 64 /* actions that one step may return */
#define CENTRAL_TYPES_MAX   64 /* types of accelerators; backends with different models are of different ones */

struct central_model {
    const struct profile *profiles[CENTRAL_TYPES_MAX]; /* copied; NULL: the model does not run on that type */
    uint32_t batch_max;                                /* most items of a batch, within each profile */
    int64_t slo_ns;                                    /* the model's usual SLO */
    double rate_hint;                                  /* expected items per second; 0: not known */
    uint64_t weights_bytes;                            /* bytes of the model's weights on an accelerator */
    int64_t load_ns;                                   /* time to load the model on an accelerator */
    bool pinned; /* it is to be loaded from the first TIMER on, and one accelerator to keep it */
};

struct central_config {
    const struct central_model *models; /* [model_count]; only read by init() */
    uint32_t model_count;
    const uint8_t *accelerator_type; /* [accelerators], each under `types`; only read by init() */
    uint32_t accelerators, types;
    int64_t ctrl_ns, data_ns;     /* delay(b) = ctrl + data*b: time before a batch of b items starts */
    const double *price;          /* [types] dollars an hour for an accelerator; only read by init(); NULL: not known */
    const uint64_t *memory_bytes; /* [accelerators] bytes for weights on each; NULL: every model is loaded everywhere,
                                   * for good. Only read by init() */
    const uint64_t *page_bytes;   /* [accelerators] weights take whole pages of so many bytes there; NULL: PAGE_BYTES.
                                   * Only read by init() */
    uint64_t seed;
    const struct policy_options *options;
};

static inline uint64_t central_page_bytes(const struct central_config *config, uint32_t accelerator) {
    return config->page_bytes ? config->page_bytes[accelerator] : PAGE_BYTES;
}

enum central_event_kind {
    CENTRAL_ARRIVED,   /* `request` arrives: the core takes a node for it, and the pool must have a free one */
    CENTRAL_CANCELLED, /* `request` is cancelled: the core finds it by handle and deadline */
    CENTRAL_ENDED,     /* `ended`: a batch, a load or an unload is over; one event for each action */
    CENTRAL_UP,        /* `accelerator` joins, with nothing loaded */
    CENTRAL_DOWN,      /* `accelerator` leaves; an ENDED follows for each action that was sent to it and is not over */
    CENTRAL_HAS,       /* `accelerator` has `model` in its memory; if it `comes`, it will, and the ENDED of a LOAD with
                        * tag 0 follows. Told before all other events */
    CENTRAL_BUSY,      /* `accelerator` runs batches that this core did not send, until about `until_ns`; told next */
    CENTRAL_FREE,      /* `accelerator` has ended all the batches that BUSY told of */
    CENTRAL_TIMER,     /* the time of central_output.wake_ns has come */
};

/* The end of an action. The batches of an accelerator end in the order in which they were sent; its loads and unloads,
 * too, end in the order in which they were sent. */
struct central_ended {
    enum central_action_kind kind;
    uint32_t accelerator, model, items;
    bool done;   /* the action was done; false: it could not begin in its window, or the accelerator failed */
    bool failed; /* LOAD that was not done: the model cannot be loaded there, and it is no use to try again at once */
    int64_t run_ns; /* measured time of the action, if `done` */
    uint64_t tag;   /* central_action.tag of the action */
};

struct central_event {
    enum central_event_kind kind;
    uint32_t accelerator; /* accelerator of UP, DOWN, HAS, BUSY and FREE */
    uint32_t model;       /* ARRIVED, CANCELLED: the request's model; its place is the caller's number. HAS */
    bool comes;           /* HAS */
    union {
        const struct request_message *request;
        const struct central_ended *ended;
        int64_t until_ns; /* BUSY: time at which the accelerator is expected to be free */
    };
};

struct central_action {
    enum central_action_kind kind;
    uint32_t accelerator, model;
    uint64_t tag;                    /* value that the policy chooses and gets back in central_ended */
    int64_t earliest_ns, latest_ns;  /* limits of the start on the accelerator; INT64_MIN, TIME_NEVER: none */
    uint32_t first, requests, items; /* RUN: first node of the list of requests, their number, their items */
};

/* What the shell is to do now. Lists are pool nodes linked by `next`; the caller owns them and returns them to the
 * pool. */
struct central_output {
    uint32_t refused; /* first node of the list of refused requests, each with its `refusal`; REQUEST_NONE: none */
    uint32_t action_count;
    struct central_action actions[CENTRAL_ACTIONS_MAX];
    int64_t wake_ns;      /* time of the next CENTRAL_TIMER (now, if more actions wait); TIME_NEVER: none is needed */
    int64_t predicted_ns; /* ENDED: time that the policy thought the action would take. A policy that does not say
                           * leaves this 0, which the shell sets before each step */
};

/* For policies: refuses a request that is in no queue any more. */
static inline void central_refuse(struct central_output *out, struct request_pool *pool, uint32_t node,
                                  enum refusal reason) {
    pool->nodes[node].refusal = reason;
    pool->nodes[node].next = out->refused;
    out->refused = node;
}

/* Why a request is given up. `cause` is CAUSE_SHORT, if it could not have been in time even if it had run at once when
 * it came; CAUSE_CROWDED, if a batch of `later` items of later requests fits; else CAUSE_WAITED. */
struct central_why {
    enum refusal_cause cause;
    uint32_t later;
    int64_t run_ns; /* time from a decision until the request would have run alone, as the policy expects; 0: as
                     * profiled */
};

/* For policies: refuses a request that can no longer be in time, and is in no queue any more. */
static inline void central_give_up(struct central_output *out, struct request_pool *pool, uint32_t node,
                                   const struct central_why *why) {
    struct request_node *request = &pool->nodes[node];
    request->cause = why->cause & 15;
    request->figures = (struct refusal_figures){
        .run_us = time_us_between(0, why->run_ns),
        .later = (uint16_t)(why->later < UINT16_MAX ? why->later : UINT16_MAX),
    };
    central_refuse(out, pool, node, REFUSAL_DEADLINE);
}

/* What a shell knows of the model of a request that was given up. */
struct central_known {
    const struct central_model *model;
    uint32_t types;
    int64_t ctrl_ns, data_ns; /* as in central_config */
    bool absent;              /* memory is limited, and no accelerator has the model */
    double needed;            /* accelerators that the load needs; negative: not known */
    uint32_t serving;         /* accelerators in service */
};

/* For shells: completes what a request tells of why it was given up. */
static inline void central_explain(struct request_node *request, const struct central_known *known) {
    const struct central_model *model = known->model;
    struct refusal_figures *figures = &request->figures;
    uint32_t items = request->items >= 1 && request->items <= model->batch_max ? request->items : model->batch_max;
    int64_t least_ns = TIME_NEVER;
    if (request->cause == CAUSE_NONE)
        return;
    for (uint32_t t = 0; t < known->types; t++)
        if (model->profiles[t] && model->profiles[t]->latency_ns[items] < least_ns)
            least_ns = model->profiles[t]->latency_ns[items];
    if (least_ns != TIME_NEVER)
        figures->measured_us = time_us_between(0, known->ctrl_ns + known->data_ns * items + least_ns);
    if (figures->run_us == 0)
        figures->run_us = figures->measured_us;
    figures->needed = known->needed > 0 ? (float)known->needed : 0;
    figures->serving = (uint16_t)(known->serving < UINT16_MAX ? known->serving : UINT16_MAX);
    if (known->absent && request->cause != CAUSE_SHORT)
        request->cause = CAUSE_COLD;
}

/* How models have moved between accelerators, by a policy that binds models to accelerators. A place is a model with
 * requests, on one of the accelerators that the model is bound to. */
struct central_moves {
    uint64_t plans;               /* plans since the first request */
    uint64_t places, kept;        /* places in all plans; those that the plan before had. The others are moves */
    uint64_t requests;            /* requests that waited at a place which ended, and went to another */
    int64_t wait_ns, wait_max_ns; /* time from a move until the model was loaded there: sum of all moves, longest */
};

struct central_ops {
    /* Bytes of memory for a core. The memory is aligned as malloc's. */
    size_t (*bytes)(const struct central_config *config);
    /* Sets a core up in zeroed memory of bytes() bytes. Every accelerator is up and idle. */
    void (*init)(void *core, const struct central_config *config, struct request_pool *pool);
    /* Handles one event; time never goes back. `out` is overwritten. */
    void (*step)(void *core, int64_t now_ns, const struct central_event *event, struct central_output *out);
    /* How many accelerators the load needs, by the core's last plan. NULL: the policy does not plan that, and callers
     * count the accelerators that the load keeps busy. */
    double (*needed)(const void *core);
    /* [types] How many accelerators of each type there should be, by the core's last choice of a pool; the result NULL:
     * none has been chosen. */
    const uint16_t *(*pool)(const void *core);
    /* Dollars an hour that such a pool may cost; 0: by these options none is chosen. NULL: the policy chooses no pools.
     */
    double (*pool_budget)(const struct policy_options *options);
    /* How models have moved. NULL: the policy binds no models to accelerators. */
    const struct central_moves *(*moves)(const void *core);
    bool needs_types; /* the policy makes sense only with accelerators of several types */
    bool uses_memory; /* the policy loads and unloads models where memory is short */
};
