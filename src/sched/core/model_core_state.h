/* model_core_state.h - what a model core consists of. For its own files only:
 *
 *     model_core.c        set-up, what each event does, rates
 *     model_waiting.c     which requests wait: arrivals, cancellations, refusals
 *     model_promises.c    requests whose inputs are still being prepared
 *     model_batches.c     which requests a batch may hold
 *     model_candidates.c  the next batch of each type and the candidate that tells of it
 *     model_seal.c        the batch for an accelerator that is granted
 *     model_tables.c      the latency tables in force, corrected by measured runs
 *
 * Functions that every arrival calls are inline. */
#pragma once

#include "core/data/rolling.h"
#include "sched/core/deadline_queue.h"
#include "sched/core/model_core.h"
#include "sched/core/model_view.h"

/* While requests are refused and nothing runs, the corrections of tables are halved, again and again after so long. */
#define RELAX_NS (500 * NS_PER_MS)

/* The next batch on one type: `items` items of the queue from `start` on. */
struct type_batch {
    uint32_t start; /* first node of the batch; REQUEST_NONE: no batch */
    uint32_t items;
    bool full;          /* more requests wait than the batch holds */
    bool grown;         /* arrivals of this time have changed the batch, and its candidate does not tell so yet */
    int64_t changed_ns; /* time at which requests last joined or left the batch */
};

/* What an arrival touches lies first. With one type of accelerators that is some twelve cache lines, the policy's first
 * one included (model_core_prefetch()). */
struct model_core {
    const struct policy_ops *policy;
    struct request_pool *pool;
    struct queue_levels *levels; /* limits of requests with an SLO; NULL: nothing limits them */
    uint32_t batch_max;
    uint32_t refused_last; /* last node of the list of refused requests in the step's output */
    bool fetch_ahead;      /* inputs travel while the batch before runs */
    bool hopeless;         /* a request was refused for its deadline in this step */
    bool told;             /* parameters have come: the core knows which types are in service */
    bool behind;           /* parameters have come since the policy's last update */
    bool stranded;         /* no accelerator in service runs the model */
    bool grown;            /* some batch is `grown` */
    bool changed;          /* a candidate has changed and was not told yet */
    bool stale;            /* arrivals of this time make it necessary to compose all batches anew */
    bool any_best_effort;  /* requests wait in `best_effort` */
    bool classes;          /* some request was of a lower priority than the highest; if false, none is looked for */
    uint32_t promised;     /* first node of the requests whose inputs are promised, by ready_ns, linked by `next` */
    uint32_t promised_count;
    int64_t free_ns;  /* while a grant is answered: expected time at which its accelerator is free; else INT64_MIN */
    int64_t there_ns; /* expected time at which an accelerator has the model; INT64_MIN: one has it; TIME_NEVER: none
                       * loads it yet */
    uint32_t cold, lost, lost_cold; /* as in struct model_rates, since the last ones */
    int64_t hurried_ns;             /* arrival time: a batch whose first request is no newer starts at once */
    int64_t ran_ns;         /* time at which a batch last ran or the tables were last relaxed; TIME_NEVER: not yet */
    int64_t relax_ns;       /* how long nothing must have run until the tables are relaxed for the first time */
    int64_t there_since_ns; /* time at which an accelerator last had the model after none had; 0: it was there at first
                             */
    bool relaxed;           /* the tables were relaxed, and no batch has run since */
    double late_rate, bad_weight; /* share of late requests; weight of the next request in this and dropped_rate */
    struct deadline_queue queue;
    struct model_view view;
    struct type_batch batches[ACCELERATOR_TYPES_MAX];
    struct candidate candidates[ACCELERATOR_TYPES_MAX]; /* candidates by type, as of the last step */
    int64_t ready_ns[ACCELERATOR_TYPES_MAX]; /* by type: time since which the batch waits for no company, or will */
    struct policy_options options;
    struct rolling *rolling[ACCELERATOR_TYPES_MAX]; /* corrections of the tables; NULL: the core does not learn */
    struct deadline_queue best_effort;
    uint32_t asked, asked_tick; /* items of the largest batch that any request allows: requests of the last tick that
                                   had some, requests of this tick. UINT32_MAX: any size, 0: no request came */
    uint32_t delays; /* priorities, a bit each, whose requests become best effort instead of being refused (DELAY) */
    double weight;   /* weight of the model's share in an overloaded sub-cluster */
    double slo_ns;   /* configured SLO */
    /* profile_batch_cheapest() and profile_batch_best() of the profiles, by type. Corrected tables are not used: where
     * batching stops paying depends on the model, and a few slow runs of some size are no reason to give up larger
     * batches. */
    uint32_t cheapest[ACCELERATOR_TYPES_MAX], best[ACCELERATOR_TYPES_MAX];
    _Alignas(16) char own[]; /* memory of the policy, then the profiles and their corrections */
};

static inline struct request_node *model_node(const struct model_core *core, uint32_t node) {
    return &core->pool->nodes[node];
}

/* ---- times ---- */

/* It is told when an accelerator has the model, as in `there_ns`. */
static inline void model_there_set(struct model_core *core, int64_t now_ns, int64_t there_ns) {
    if (core->there_ns != INT64_MIN)
        core->there_since_ns = now_ns;
    core->there_ns = there_ns;
}

/* When a batch decided now could begin at the earliest, since an accelerator must have the model. */
static inline int64_t model_from_ns(const struct model_core *core, int64_t now_ns) {
    if (core->there_ns == TIME_NEVER)
        return now_ns + core->view.load_ns;
    return core->there_ns > now_ns ? core->there_ns : now_ns;
}

/* The shortest time, over the types, from a decision to the end of a batch of `items`. */
static inline int64_t model_span_least(const struct model_core *core, uint32_t items) {
    const struct model_view *m = &core->view;
    if (m->types == 1)
        return model_span_ns(m, 0, items);
    int64_t least = TIME_NEVER;
    for (uint32_t t = 0; t < m->types; t++) {
        if (!m->used[t])
            continue;
        int64_t span_ns = model_span_ns(m, t, items);
        if (span_ns < least)
            least = span_ns;
    }
    return least;
}

/* When `request` can start at the latest, on the fastest type. */
static inline int64_t model_latest_start(const struct model_core *core, const struct request_node *request) {
    return request->deadline_ns - model_span_least(core, request->items);
}

/* How long a batch occupies its accelerator. */
static inline int64_t model_run_ns(const struct model_core *core, uint32_t type, uint32_t items) {
    const struct model_view *m = &core->view;
    return m->profiles[type]->latency_ns[items] + (core->fetch_ahead ? 0 : m->data_ns * items);
}

/* When a batch sealed now ends. */
static inline int64_t model_end_ns(const struct model_core *core, uint32_t type, int64_t now_ns, uint32_t items) {
    const struct model_view *m = &core->view;
    int64_t start_ns = model_from_ns(core, now_ns) + m->ctrl_ns + (core->fetch_ahead ? m->data_ns * items : 0);
    return (start_ns > core->free_ns ? start_ns : core->free_ns) + model_run_ns(core, type, items);
}

/* Whether a batch sealed now ends by the deadline; always, for policies that are blind to deadlines. */
static inline bool model_in_time(const struct model_core *core, uint32_t type, int64_t now_ns, uint32_t items,
                                 int64_t deadline_ns) {
    return core->policy->deadline_blind || model_end_ns(core, type, now_ns, items) <= deadline_ns;
}

/* Most items that the policy lets a batch of `type` have. */
static inline uint32_t model_items_most(const struct model_view *m, uint32_t type) {
    return m->items_cap && m->items_cap < m->items_most[type] ? m->items_cap : m->items_most[type];
}

/* ---- model_waiting.c ---- */

void model_request_arrived(struct model_core *core, int64_t now_ns, const struct request_message *message,
                           struct model_output *out);
void model_request_cancelled(struct model_core *core, int64_t now_ns, const struct request_message *message,
                             struct model_output *out);
/* Refuses the requests that can no longer be in time, and those that the window drop gives up. */
void model_prune(struct model_core *core, int64_t now_ns, struct model_output *out);
/* A request whose inputs are there joins the queue, if the policy admits it. It has been counted on its arrival. */
void model_request_joins(struct model_core *core, int64_t now_ns, uint32_t node, struct model_output *out);
/* Takes a request out of the queue that holds it. */
void model_remove(struct model_core *core, struct deadline_queue *queue, uint32_t node);
/* Counts one request that has left: `dropped` is 1 if it was dropped, 0 if it left in a batch. */
void model_outcome(struct model_core *core, double dropped);
/* The first request of the next lower priority than that of `node`; REQUEST_NONE: there is none. */
uint32_t model_priority_next(const struct model_core *core, uint32_t node);
/* Items queued of the head's priority, but at most `most`. */
uint32_t model_items_alike(const struct model_core *core, const struct request_node *head, uint32_t most);

/* One more request with an SLO waits (`more` 1), or one less (-1). */
static inline void model_level_count(struct model_core *core, uint8_t priority, int more) {
    if (core->levels)
        core->levels->of[priority].waiting += (uint32_t)more;
}

/* Whether requests of several priorities wait in the queue. */
static inline bool model_is_mixed(const struct model_core *core) {
    const struct deadline_queue *queue = &core->queue;
    return core->classes && queue->count > 1 &&
           model_node(core, queue->head[0])->priority != model_node(core, queue->tail[0])->priority;
}

/* Whether the queue's requests have one item and one priority each. */
static inline bool model_is_plain(const struct model_core *core) {
    return core->queue.items == core->queue.count && !model_is_mixed(core);
}

/* The window drop: `head`, which is the queue's first request or the first of a priority, stays while so many items fit
 * before its deadline. The number is the policy's target T, or all queued items of its priority if these are fewer, but
 * at least the h items of `head`.
 *
 * A batch of w items instead of T costs beta * (1 - w / T) more time, and h items are worth h * (alpha + beta / T). So
 * a head of several items must not go for w > T - h * (1 + T * alpha / beta). That is counted from a head of one item,
 * for which the number is T. */
static inline uint32_t model_items_wanted(const struct model_core *core, const struct request_node *head) {
    uint32_t target = core->view.target_items;
    uint32_t wanted = target < core->queue.items ? target : core->queue.items;
    if (model_is_mixed(core))
        wanted = model_items_alike(core, head, wanted);
    if (head->items > 1) {
        double fewer = (head->items - 1) * (1 + target * core->view.alpha_ns / (core->view.beta_ns + 1));
        wanted = wanted > fewer ? (uint32_t)(wanted - fewer) : 1;
    }
    return wanted > head->items ? wanted : head->items;
}

static inline bool model_head_stays(const struct model_core *core, int64_t now_ns, const struct request_node *head) {
    if (core->policy->deadline_blind)
        return (!core->stranded && core->there_ns != TIME_NEVER) || now_ns <= head->deadline_ns;
    return model_from_ns(core, now_ns) + model_span_least(core, model_items_wanted(core, head)) <= head->deadline_ns;
}

/* ---- model_promises.c ---- */

/* Keeps a request until its inputs are there. */
void model_promise_add(struct model_core *core, uint32_t node, int64_t ready_ns);
/* Lets the requests join the queue whose inputs are promised for `until_ns` or before. */
void model_promises_join(struct model_core *core, int64_t now_ns, int64_t until_ns, struct model_output *out);
/* The inputs of a request are there. Does nothing if the request does not wait for its inputs any more. */
void model_promise_ready(struct model_core *core, int64_t now_ns, uint64_t handle, struct model_output *out);
/* Takes out the request of this handle that waits for its inputs. Returns its node; REQUEST_NONE: there is none. */
uint32_t model_promise_take(struct model_core *core, uint64_t handle);

/* When the next promised inputs are due; TIME_NEVER: none are promised. */
static inline int64_t model_promise_next(const struct model_core *core) {
    return core->promised_count ? model_node(core, core->promised)->ready_ns : TIME_NEVER;
}

/* ---- model_batches.c ---- */

/* The batch of the queue, which is not empty, on `type`, with at most `most` items, or the one request that has more.
 * It begins with the first request for which the items that its window drop asks for are in time on `type`, or else
 * with the first that the type can finish in time at all. Where the queue is not plain, the requests are linked by
 * `next`, by deadline, until the next batch is composed. */
struct type_batch model_batch_compose(const struct model_core *core, uint32_t type, int64_t now_ns, uint32_t most);
/* The best-effort requests for a batch that runs on `type` for at most run_ns. */
struct type_batch model_best_effort_compose(const struct model_core *core, uint32_t type, int64_t now_ns,
                                            int64_t run_ns);

/* ---- model_candidates.c ---- */

/* Prunes the queues and composes all batches and candidates anew. */
void model_refresh(struct model_core *core, int64_t now_ns, struct model_output *out);
/* An arrival is at the end of the queue: lengthens the batches that it can join. False: all batches must be composed
 * anew. */
bool model_lengthen(struct model_core *core, int64_t now_ns, uint32_t node);
/* Lets batches and candidates follow the arrivals of this time. */
void model_settle(struct model_core *core, int64_t now_ns, struct model_output *out);
/* When a candidate changes without an event: a batch shrinks or loses its first request, or promised inputs
 * are due. */
int64_t model_wake_ns(const struct model_core *core);

/* ---- model_seal.c ---- */

/* Takes the requests of the batch for the granted accelerator out of the queues. If there are no such requests, the
 * accelerator is given back. */
void model_accelerator_granted(struct model_core *core, int64_t now_ns, const struct grant_message *grant,
                               struct model_output *out);

/* ---- model_tables.c ---- */

/* Copies the part of a table up to batch_max. */
void model_profile_copy(struct profile *to, const struct profile *from, uint32_t batch_max);
/* Sets up to which size batches may grow, and up to which size waiting pays, by the profiles and the requests. */
void model_batch_limits_set(struct model_core *core);
/* Sets what depends on the tables in force and on the number of accelerators of each type. */
void model_tables_changed(struct model_core *core);
void model_batch_ran(struct model_core *core, int64_t now_ns, const struct ran_message *ran, struct model_output *out);
/* A request was refused for its deadline: halves the tables' corrections if nothing ran for a while. */
void model_tables_relax(struct model_core *core, int64_t now_ns, struct model_output *out);

/* Whether the policy makes batches of the sizes that the model's configuration wants. */
static inline bool model_sizes_given(const struct model_core *core) {
    return core->view.preferred_count > 0 && core->policy->batch_preferred;
}

static inline void model_policy_update(struct model_core *core) {
    core->policy->model_update(&core->view, core->own);
    core->behind = false;
}
