/* wiring.h - the rings and doorbells that join the threads of one process.
 *
 *     frontend f --requests[f][t]--> model thread t --to_rank[t]--> rank thread
 *              <--refusals[t][f]--                 <--grants[t]----
 *              <--done[e][f]------- executor e <--plans[t][e]-- model thread t
 *                                   executor e --ran[e][t]--> model thread t, --freed[e]--> rank thread
 *
 * Every ring has one producer and one consumer. The bounds make most of them impossible to overfill: see
 * wiring_init(). Built before the threads start; constant afterwards. */
#pragma once

#include "base/doorbell.h"
#include "base/error.h"
#include "base/ring.h"
#include "sched/messages.h"

#define PORT_REQUESTS_MAX 8192 /* requests one frontend may have outstanding */
#define TO_RANK_RESERVED  64   /* slots of to_rank kept for answers to grants, on top of one an accelerator */

struct wiring {
    uint32_t frontends, model_threads, executors;
    uint32_t models;            /* what the cores call models: variants of served models */
    uint32_t batch_max;         /* requests a batch */
    uint32_t *thread_of_model;  /* [models] */
    uint32_t *thread_of_served; /* [served models] */
    struct ring *requests;      /* [f * model_threads + t] struct request_message */
    struct ring *refusals;      /* [t * frontends + f] struct refusal_message */
    struct ring *to_rank;       /* [t] struct rank_message */
    struct ring *grants;        /* [t] struct grant_message */
    struct ring *plans;         /* [t * executors + e] struct batch_plan with batch_max handles */
    struct ring *ran;           /* [e * model_threads + t] struct ran_message */
    struct ring *freed;         /* [e] struct freed_message */
    struct ring *done;          /* [e * frontends + f] struct done_message */
    struct doorbell *frontend_bells, *model_bells, *executor_bells, rank_bell;
};

/* Allocates the rings and bells from the counts, which are set, as are thread_of_*. 0 or -errno with a sentence; wiring_destroy()
 * is due in either case. */
int wiring_init(struct wiring *wiring, bool busy_poll, struct sy_error *err);
void wiring_destroy(struct wiring *wiring);
