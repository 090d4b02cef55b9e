/* wiring.h - the rings and doorbells that join the threads of one process.
 *
 *     frontend f --requests[f][t]--> model thread t --to_rank[t][k], candidates--> rank thread k
 *              <--refusals[t][f]--                 <--grants[t][k]----
 *              <--results[e][f]---- executor e <--plans[t][e]-- model thread t
 *                                   executor e --ran[e][t]--> model thread t, --freed[e][k]--> rank thread k
 *     where memory is limited: rank thread k --orders[k][e]--> executor e --moved[e][k]--> rank thread k,
 *     or the central thread, as rank thread 0
 *     who started them --commands[e]--> executor e --answers[e]--> who started them; --moves[t]--> model thread t
 *
 * Each rank thread has a sub-cluster: some of the accelerators, for good, and some of the models, which may
 * move. A model thread speaks with the rank thread of each of its models.
 *
 * An executor drives one real accelerator, or many emulated ones: rings are by executor, messages name the accelerator.
 * Every ring has one producer and one consumer. The bounds make most of them impossible to overfill: see
 * wiring_init(). Built before the threads start; constant afterwards. */
#pragma once

#include "core/data/card.h"
#include "core/data/messages.h"
#include "core/system/doorbell.h"
#include "core/util/assert.h"
#include "core/util/error.h"
#include "core/util/ring.h"
#include "sched/threads/candidate_board.h"

struct decision_log;

#define PORT_REQUESTS_MAX    8192             /* requests a frontend may have outstanding; preset of port_requests */
#define WIRING_NAP_NS        (1 * NS_PER_MS)  /* see wiring_accelerators_free() */
#define WIRING_UP_NS         (50 * NS_PER_US) /* time before an accelerator is expected to be free at which naps end */
#define WIRING_NEWS_MAX      64 /* news of accelerators in a ring; more wait at the executor until there is room */
#define WIRING_PLANS_CENTRAL 64 /* batches that a central policy may have sent to one accelerator; more are refused */
#define WIRING_HELP_MOST     2 /* messages of a turn up to which a thread takes a sleeper's turn instead of waking it */
#define TO_RANK_RESERVED     64 /* slots of to_rank beyond 1024 and one an accelerator of the largest sub-cluster */
#define RANK_THREADS_MAX     64
#define SUBCLUSTER_NONE      UINT8_MAX /* no sub-cluster knows the model: it has not come, or has gone */

enum accelerator_state {
    ACCELERATOR_SERVING,
    ACCELERATOR_LEAVING, /* the accelerator gets no new batches, and has batches that have not ended */
    ACCELERATOR_GONE,    /* the accelerator gets no new batches, and has none any more */
};

/* Hints of a rank thread to other threads about its accelerators; written at the end of its turns. */
struct rank_hints {
    _Alignas(CACHE_LINE) _Atomic bool accelerators_free; /* some accelerator can be granted, now or ahead of time */
    _Atomic int64_t offer_ns; /* if none is free: time at which the next one is offered; TIME_NEVER: not known */
};

/* Where not all roles are in this process, its link thread (src/cluster) stands for the other roles: their rings lead
 * to the link thread, which has one doorbell for all of them, with an eventfd. */
enum wiring_link {
    LINK_NONE,
    LINK_FRONTEND,  /* frontends are here; the link is model thread 0 and executor 0 */
    LINK_SCHEDULER, /* model and rank threads are here, or the central thread; the link is frontend 0 and executor 0 */
    LINK_BACKEND,   /* executors are here; the link is frontend 0, model thread 0 and rank thread 0 */
};

/* The load of a model as last reported; reports come while requests do (struct model_rates). Statistics: written by the
 * model's thread, one word after the other. */
struct model_load {
    _Atomic double rate, accelerators; /* items/s; accelerators that the model keeps busy at its best batch size */
    _Atomic int64_t at_ns;             /* time of the report */
};

/* What happened to a served model where memory is limited. Statistics; any thread adds. */
struct memory_counters {
    _Atomic uint64_t loads, unloads; /* loads onto an accelerator, and unloads, that were done */
    _Atomic uint64_t failures;       /* loads that were not */
    _Atomic uint64_t cold;           /* requests that came while no accelerator had the model */
};

struct wiring {
    uint32_t frontends, model_threads, executors, accelerators;
    uint32_t rank_threads;       /* rank threads; 0: one */
    bool central;                /* one central thread stands for the model threads, and there is no rank thread */
    enum wiring_link link;       /* roles that are in other processes */
    struct doorbell *link_bell;  /* LINK_FRONTEND: bell of a link thread that also has another wiring, which outlives
                                  * this one; NULL: the wiring makes its own */
    uint32_t models;             /* variants, a core each (struct variant_id) */
    uint32_t models_unused;      /* variants, the last ones, for served models that come later, on any thread */
    uint32_t types;              /* types of accelerators; 0: 1 */
    uint32_t batch_max;          /* most requests of a batch */
    uint32_t port_requests;      /* requests a frontend may have outstanding; 0: PORT_REQUESTS_MAX */
    uint32_t request_slots;      /* messages that a ring of requests holds; 0: three for each of port_requests, so that
                                  * the ring is never full: two are needed, and hints take the rest (port.c) */
    uint32_t *thread_of_variant; /* [models] model thread; for an unused number: written before the model comes */
    uint32_t *thread_of_served;  /* [served models] model thread */
    /* Where accelerators have less memory than their models; else NULL. place_of_variant: [models] written before the
     * model comes; not with a central thread. memory_counters: [served models] */
    struct place_id *place_of_variant;
    struct memory_counters *memory_counters;
    /* [served models] Models that share their first layers are scheduled as one. host_of_served: place that requests to
     * a model queue for; suffix_of_served: suffix that they take there (model/config/served_part.h). Both are written
     * before the model comes. NULL: each model is scheduled by itself */
    uint32_t *host_of_served;
    uint8_t *suffix_of_served;
    uint32_t *executor_of; /* [accelerators] */
    uint8_t *subcluster_of_accelerator,
        *subcluster_of_model; /* [accelerators], [models] sub-clusters at first; NULL: all are in sub-cluster 0 */
    uint32_t subcluster_accelerators;  /* accelerators of the largest sub-cluster; set by wiring_init() */
    struct ring *requests;             /* struct request_message: wiring_requests() */
    struct ring *refusals;             /* struct refusal_message: wiring_refusals() */
    struct ring *to_rank;              /* struct rank_message, all but candidates: wiring_to_rank() */
    struct candidate_board candidates; /* announced in lane t * rank_threads + k */
    struct ring *grants;               /* struct grant_message: wiring_grants() */
    struct ring *moves;                /* [t] struct model_move */
    struct ring *plans;                /* struct batch_plan, a run of cache lines: wiring_plans() */
    struct ring *ran;                  /* struct ran_message: wiring_ran() */
    struct ring *freed;                /* struct freed_message: wiring_freed() */
    struct ring *orders;               /* struct move_order: wiring_orders() */
    struct ring *moved;                /* struct memory_moved: wiring_moved() */
    struct ring *results;              /* struct result_message: wiring_results() */
    struct ring *commands;             /* [e] struct accelerator_command */
    struct ring *answers;              /* [e] struct model_answer */
    /* Cards in which executors look requests up. Whoever starts a frontend sets its cards before it submits any. */
    const struct request_card **cards; /* [wiring_numbers()][port_requests] by a frontend's number in handles */
    int *card_fds;                     /* [frontends] LINK_FRONTEND: file descriptors to map the cards by; else -1 */
    bool pinned;                       /* LINK_FRONTEND: a device may lock the memory for inputs in its place */
    struct region *regions; /* [wiring_regions() + 1] regions of memory: one for each frontend, by its number; one for
                             * bulk threads; wiring_region_any() */
    struct doorbell *frontend_bells, *model_bells, *executor_bells, *rank_bells;
    /* Bell of the thread that lets models come and go: rung when one has come to its scheduling thread or gone from it,
     * and when an executor has answered. Set before the threads start. NULL: nobody waits for that */
    struct doorbell *places_bell;
    struct rank_hints *hints; /* [rank_threads] */
    /* [model_threads + rank_threads + 1] logs of decisions: of the model threads, the rank threads, and of advice.
     * Whoever starts the threads sets the logs before, and owns them. NULL: nothing is logged */
    struct decision_log *decisions;
    _Atomic uint8_t *states;      /* [accelerators] enum accelerator_state; written by its rank or the central thread */
    _Atomic uint8_t *subclusters; /* [models] sub-cluster of each model; written by its model thread */
    struct model_load *loads;     /* [models] load of each model; written by its model thread */
};

/* The rings between two threads. */
static inline struct ring *wiring_requests(const struct wiring *wiring, uint32_t frontend, uint32_t thread) {
    return &wiring->requests[frontend * wiring->model_threads + thread];
}
static inline struct ring *wiring_refusals(const struct wiring *wiring, uint32_t thread, uint32_t frontend) {
    return &wiring->refusals[thread * wiring->frontends + frontend];
}
static inline struct ring *wiring_to_rank(const struct wiring *wiring, uint32_t thread, uint32_t subcluster) {
    return &wiring->to_rank[thread * wiring->rank_threads + subcluster];
}
static inline struct ring *wiring_grants(const struct wiring *wiring, uint32_t thread, uint32_t subcluster) {
    return &wiring->grants[thread * wiring->rank_threads + subcluster];
}
static inline struct ring *wiring_plans(const struct wiring *wiring, uint32_t thread, uint32_t executor) {
    return &wiring->plans[thread * wiring->executors + executor];
}
static inline struct ring *wiring_ran(const struct wiring *wiring, uint32_t executor, uint32_t thread) {
    return &wiring->ran[executor * wiring->model_threads + thread];
}
static inline struct ring *wiring_freed(const struct wiring *wiring, uint32_t executor, uint32_t subcluster) {
    return &wiring->freed[executor * wiring->rank_threads + subcluster];
}
static inline struct ring *wiring_orders(const struct wiring *wiring, uint32_t subcluster, uint32_t executor) {
    return &wiring->orders[subcluster * wiring->executors + executor];
}
static inline struct ring *wiring_moved(const struct wiring *wiring, uint32_t executor, uint32_t subcluster) {
    return &wiring->moved[executor * wiring->rank_threads + subcluster];
}
static inline struct ring *wiring_results(const struct wiring *wiring, uint32_t executor, uint32_t frontend) {
    return &wiring->results[executor * wiring->frontends + frontend];
}

/* The model thread of a variant. */
static inline uint32_t wiring_thread_of(const struct wiring *wiring, struct variant_id variant) {
    return wiring->thread_of_variant[variant.n];
}

/* The place that requests to a served model queue for. */
static inline uint32_t wiring_host(const struct wiring *wiring, uint32_t served_model) {
    return wiring->host_of_served ? wiring->host_of_served[served_model] : served_model;
}

static inline uint32_t wiring_regions(const struct wiring *wiring) {
    return wiring->frontends + 1;
}

/* The region of all memory of the process, for outputs that are inputs of another model. It has no bytes where
 * executors are in other processes. */
static inline uint32_t wiring_region_any(const struct wiring *wiring) {
    return wiring_regions(wiring);
}

/* How many numbers there are for frontends: a backend's requests come from frontends of the whole cluster. */
static inline uint32_t wiring_numbers(const struct wiring *wiring) {
    return wiring->link == LINK_BACKEND ? 1u << HANDLE_FRONTEND_BITS : wiring->frontends;
}

/* The frontend of this process that a request comes back to, by the number in the request's handle. */
static inline uint32_t wiring_frontend_of(const struct wiring *wiring, uint64_t handle) {
    return wiring->link == LINK_BACKEND ? 0 : handle_frontend(handle);
}

/* The doorbell of the link thread. */
static inline struct doorbell *wiring_link_bell(const struct wiring *wiring) {
    return wiring->link == LINK_FRONTEND ? wiring->model_bells : wiring->frontend_bells;
}

/* The card of a request that a plan names. For executors. */
static inline const struct request_card *wiring_card(const struct wiring *wiring, uint64_t handle) {
    const struct request_card *card = &wiring->cards[handle_frontend(handle)][handle_slot(handle)];
    CHECK_EQ(card->handle, handle); /* a card does not change until the request's result is there */
    return card;
}

static inline uint32_t wiring_subcluster_of_accelerator(const struct wiring *wiring, uint32_t accelerator) {
    return wiring->subcluster_of_accelerator ? wiring->subcluster_of_accelerator[accelerator] : 0;
}

/* Whether a message that was just published may start a batch. While every accelerator is busy, no message can, and
 * waking a thread for each request would only take time from the executors (three wake-ups a request took 40 us on a
 * shared core, a third of the core at 5400 requests a second). So model threads nap for WIRING_NAP_NS instead of
 * sleeping, and frontends do not wake napping threads: refusals and cancellations are late by WIRING_NAP_NS at most.
 * Naps end shortly before an accelerator is expected to be free, so that its next batch is chosen among all requests
 * that have come. The rank thread is not woken either: the executor that reports an accelerator free wakes the rank
 * thread, which reads its messages before it grants. Call after publishing. */
static inline bool wiring_accelerators_free(struct wiring *wiring) {
    if (wiring->central) /* only the central policy knows whether accelerators are free */
        return true;
    atomic_thread_fence(memory_order_seq_cst); /* with doorbell_arm_as(): the rank thread stores, then looks */
    for (uint32_t k = 0; k < wiring->rank_threads; k++)
        if (atomic_load_explicit(&wiring->hints[k].accelerators_free, memory_order_relaxed))
            return true;
    return false;
}

/* Whether a message that was just published to the rank thread of a sub-cluster may start a batch. */
static inline bool wiring_subcluster_free(struct wiring *wiring, uint32_t subcluster) {
    atomic_thread_fence(memory_order_seq_cst); /* with doorbell_arm_as(): the rank thread stores, then looks */
    return atomic_load_explicit(&wiring->hints[subcluster].accelerators_free, memory_order_relaxed);
}

/* Whether accelerators have less memory than their models, and rank threads order loads, not the central thread. */
static inline bool wiring_orders_loads(const struct wiring *wiring) {
    return wiring->memory_counters && !wiring->central;
}

/* Counts one more. Any thread. */
static inline void memory_counter_add(_Atomic uint64_t *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); /* statistics */
}

/* A scheduling thread, or an executor: rings places_bell. */
static inline void wiring_places_ring(const struct wiring *wiring) {
    if (wiring->places_bell)
        doorbell_ring(wiring->places_bell);
}

/* Allocates the rings and bells. The caller has set the counts, thread_of_*, executor_of and subcluster_of_*.
 * `busy_poll`: no thread sleeps. 0 or -errno with a sentence; call wiring_destroy() in either case. */
int wiring_init(struct wiring *wiring, bool busy_poll, struct sy_error *err);
/* Frees everything. Called when no thread uses the wiring any more. */
void wiring_destroy(struct wiring *wiring);

/* Called by whoever started the threads, or by several threads under a lock that they share: orders an accelerator's
 * executor to drain it, fail it or let it join. 0, or -EAGAIN if the executor has too many orders that it has not read
 * yet. */
int wiring_command(struct wiring *wiring, uint32_t accelerator, enum accelerator_order order);

/* Called as wiring_command(): orders that a served model, which the executor has loaded (executor_load()), becomes
 * resident, or is no longer resident. 0 or -EAGAIN. */
int wiring_model_command(struct wiring *wiring, uint32_t executor, struct place_id place, uint32_t version,
                         bool resident);
/* Takes the executor's next answer to an order of wiring_model_command(). False: there is none yet. */
bool wiring_model_answer(struct wiring *wiring, uint32_t executor, struct model_answer *answer);

/* Called as wiring_command(): moves a variant to another sub-cluster, with all that it has queued; wiring_subcluster()
 * tells when the variant is there. 0, or -EAGAIN if too many moves have not been read yet. */
int wiring_move(struct wiring *wiring, struct variant_id variant, uint32_t subcluster);

/* Called as wiring_command(): a served model comes or goes (enum model_move_kind). A model may be sent requests once no
 * variant of it is in SUBCLUSTER_NONE. A model has gone, and its cores may be freed, once all its variants are in
 * SUBCLUSTER_NONE. After wiring_model_goes() the model must not be moved. */
int wiring_model_comes(struct wiring *wiring, struct place_id place, uint32_t subcluster);
int wiring_model_goes(struct wiring *wiring, struct place_id place);

/* The sub-cluster of a variant; SUBCLUSTER_NONE: none. Any thread. */
static inline uint32_t wiring_subcluster(const struct wiring *wiring, struct variant_id variant) {
    return atomic_load_explicit(&wiring->subclusters[variant.n],
                                memory_order_acquire); /* with set_subcluster() in model_thread_moves.c */
}

/* Whether a model has come, with all its variants (`there`), or gone. */
static inline bool wiring_model_is(const struct wiring *wiring, struct variant_id first, uint32_t count, bool there) {
    for (uint32_t i = 0; i < count; i++)
        if ((wiring_subcluster(wiring, variant_next(first, i)) != SUBCLUSTER_NONE) != there)
            return false;
    return true;
}

static inline enum accelerator_state wiring_accelerator_state(const struct wiring *wiring, uint32_t accelerator) {
    return atomic_load_explicit(&wiring->states[accelerator], memory_order_relaxed); /* a word on its own */
}

/* The rank or the central thread, or the link's in a backend: notes an accelerator's state after news. `idle`: the
 * accelerator has no batches. */
static inline void wiring_accelerator_news(struct wiring *wiring, uint32_t accelerator, enum accelerator_news news,
                                           bool idle) {
    enum accelerator_state state = wiring_accelerator_state(wiring, accelerator);
    if (news == NEWS_JOINS || (news == NEWS_ENDED && state == ACCELERATOR_SERVING))
        state = ACCELERATOR_SERVING;
    else
        state = idle ? ACCELERATOR_GONE : ACCELERATOR_LEAVING;
    atomic_store_explicit(&wiring->states[accelerator], (uint8_t)state, memory_order_relaxed); /* statistics */
}
