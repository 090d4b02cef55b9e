/* backend_link_state.h - what a backend's link is made of; for its files only. */
#pragma once

#include "base/margin.h"
#include "cluster/backend_link.h"
#include "cluster/landing.h"
#include "cluster/uplink.h"

/* A frontend process, as the scheduler told of it. */
struct frontend_peer {
    struct frontend_peer *next;
    struct hello hello;
    struct hello heir; /* who has its number now, and takes its place once nothing of it is here; number 0: nobody */
    struct landing landing;
    struct peer peer;
    struct health health;
    struct margin pulls; /* how long they take */
    bool open, known;
    bool told;    /* the scheduler of now has told of it */
    bool leaving; /* the scheduler says that it is gone: forgotten once nothing of it runs here */
    bool complained;
    int64_t retry_ns;
    uint32_t tries; /* of the addresses that its name has */
    struct landed *arriving; /* whose body is under way */
    /* of one of this host: where its cards and inputs are mapped */
    bool local;
    const struct request_card *cards[HELLO_LANES_MAX]; /* [lanes][slots] */
    struct {
        const char *base;
        size_t bytes;
    } regions[HELLO_LANES_MAX + 1];
};

/* A plan whose requests are pulled. */
struct pulled_plan {
    struct pulled_plan *next; /* of its accelerator, or of those that are free */
    uint32_t missing;         /* requests that are neither here nor known to be gone */
    bool tight;               /* those that are gone are left out */
    int64_t begun_ns, over_ns;
    uint32_t room; /* requests that fit */
    struct batch_plan plan;
};

struct accelerator_queue {
    struct pulled_plan *first, **last;
    uint32_t out; /* plans that the executor has */
    bool told;    /* the scheduler of now knows that it takes batches, */
    bool ours;    /* or knew it: all plans here are that one's */
    bool leaves;  /* its executor says that it does not */
    bool awaited; /* the scheduler of now has not said yet that it sends no more plans for it */
};

struct backend_link {
    struct backend_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct uplink uplink;
    struct slab *slab;
    struct frontend_peer *frontends;
    struct frontend_peer **by_number; /* [HELLO_NUMBERS] */
    struct accelerator_queue *queues; /* [accelerators] */
    struct pulled_plan *free;
    uint32_t pulling; /* plans in queues */
    bool introduced;  /* the scheduler of now knows our models and accelerators */
    bool plan_rung;
    _Atomic bool quiesced;
    uint64_t lost, given_up;
    struct link_report report;
    _Atomic bool ended; /* quiesced, and everything that was here has gone: stays so */
};

/* ---- backend_link.c ---- */

/* Tells the scheduler: of a request that its frontend cannot be told of; */
void backend_tell_undelivered(struct backend_link *l, uint64_t handle);
/* of the end of a batch that never reached its executor; */
void backend_tell_not_run(struct backend_link *l, const struct batch_plan *plan, int64_t now_ns);
/* that an accelerator takes batches, once it has none of another scheduler's. */
void backend_tell_joins(struct backend_link *l, uint32_t accelerator);

/* ---- backend_plans.c: plans, until they go to their executors ---- */

/* Whose request a handle is, and what is here of it; NULL: nobody's, nothing. */
struct frontend_peer *backend_frontend_of(const struct backend_link *l, uint64_t handle);
struct landed *backend_landed_of(const struct backend_link *l, uint64_t handle);
/* Takes a frame of plans. 0 or -errno with a sentence. */
int backend_take_plans(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err);
/* A request of a plan is here, or is known to be gone. */
void backend_landed_settle(struct backend_link *l, struct landed *landed);
/* It cannot be had: it is left out, and its frontend hears of it through the scheduler. */
void backend_landed_lose(struct backend_link *l, struct landed *landed);
/* Gives up pulls that take too long, and hands over what waited for room. Lowers *until_ns to when to look again. */
void backend_queues_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);

/* ---- backend_frontends.c: frontends, and what is pulled from them ---- */

/* The scheduler tells of one. 0 or -errno with a sentence. */
int backend_frontend_told(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err);
/* The scheduler says that the one of this number is gone. */
void backend_frontend_gone(struct backend_link *l, uint32_t number);
/* Connects to them, and lets go of those that are gone. Lowers *until_ns to when to look again. */
void backend_frontends_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);
