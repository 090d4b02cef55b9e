/* backend_link_state.h - what a backend's link is made of; for its files only. */
#pragma once

#include "base/margin.h"
#include "cluster/backend_link.h"
#include "cluster/fabric.h"
#include "cluster/landing.h"
#include "cluster/lost.h"
#include "cluster/transport.h"
#include "cluster/uplink.h"

/* A frontend process, as the scheduler told of it. */
struct frontend_peer {
    struct frontend_peer *next;
    struct hello hello;
    struct hello heir; /* who has its number now, and takes its place once nothing of it is here; number 0: nobody */
    struct landing landing;
    struct peer peer;
    struct health health;
    struct margin pulls;   /* how long they take */
    uint64_t fabric_bytes; /* that came beside the link */
    uint64_t mark_bytes;   /* whether it delivers: how much had come, */
    int64_t mark_ns;       /* and when */
    bool open, known;
    bool told;    /* the scheduler of now has told of it */
    bool leaving; /* the scheduler says that it is gone: forgotten once nothing of it runs here */
    bool complained;
    uint64_t given_up;      /* pulls */
    int64_t given_up_at_ns; /* when the log may say so next */
    int64_t retry_ns;
    uint32_t tries;                    /* of the addresses that its name has */
    bool local;                        /* it was reached by its Unix socket */
    const struct transport *transport; /* that requests are pulled by now */
    struct landed *arriving;           /* of tcp: whose body is under way */
    /* of fabric: */
    struct fabric_end *fabric; /* NULL: no connection */
    bool fabric_down;          /* it is lost */
    char fabric_reason[sizeof(((struct sy_error *)0)->text)];
    uint32_t fabric_region_count;
    struct wire_fabric_region fabric_regions[WIRE_REGIONS_MAX];
    /* of shm: where its cards and inputs are mapped */
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
    bool unreached;           /* of some, because their frontend could not be reached */
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

enum offer_state {
    OFFER_NONE, /* nothing here needs it */
    OFFER_COMES,
    OFFER_GOES,
};

enum offer_told { TOLD_NOTHING, TOLD_MODEL, TOLD_ENDS, TOLD_RESTS };

/* A model, as the scheduler is to see it. */
struct model_offer {
    _Atomic uint8_t state; /* enum offer_state; set by who has models come and go, but NONE */
    uint8_t told;          /* enum offer_told; what the scheduler of now was told, or has answered */
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
    uint32_t pulling;                   /* plans in queues */
    struct fabric *fabric;              /* NULL: none */
    bool fabric_due;                    /* it is to be looked at */
    struct fabric_region fabric_memory; /* the slab's */
    void *fabric_map;                   /* the slab's memory as libfabric has it */
    bool introduced;                    /* the scheduler of now knows our models and accelerators */
    bool plan_rung;
    struct model_offer *offers;  /* [model_count] */
    _Atomic bool offers_changed; /* since the link looked */
    _Atomic bool begun;          /* the scheduler may be told of us */
    bool offers_left;            /* some are on their way */
    int64_t offers_look_ns;
    _Atomic bool quiesced;
    uint64_t lost[LOST_REASONS], given_up;
    struct link_report report;
    _Atomic bool ended; /* quiesced, and everything that was here has gone: stays so */
};

/* ---- backend_link.c ---- */

/* Tells that a request will have no answer from here. */
void backend_tell_undelivered(struct backend_link *l, uint64_t handle, enum lost_reason reason);
/* Tells the scheduler: of the end of a batch that never reached its executor; */
void backend_tell_not_run(struct backend_link *l, const struct batch_plan *plan, int64_t now_ns);
/* that an accelerator takes batches, once it has none of another scheduler's. */
void backend_tell_joins(struct backend_link *l, uint32_t accelerator);

/* ---- backend_models.c: models that come and go ---- */

/* Tells the scheduler of all models that are here, first of all. */
void backend_models_introduce(struct backend_link *l);
/* Tells it of changes since. Lowers *until_ns to when to look again. */
void backend_models_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);
/* It sends no plan for a model any more. */
void backend_model_rests(struct backend_link *l, uint32_t model);
/* Another scheduler knows nothing of them. */
void backend_models_untold(struct backend_link *l);
/* Whether there may be plans for a model. */
bool backend_model_runs(const struct backend_link *l, uint32_t model);

/* ---- backend_plans.c: plans, until they go to their executors ---- */

/* Whose request a handle is, and what is here of it; NULL: nobody's, nothing. */
struct frontend_peer *backend_frontend_of(const struct backend_link *l, uint64_t handle);
struct landed *backend_landed_of(const struct backend_link *l, uint64_t handle);
/* Takes a frame of plans. 0 or -errno with a sentence. */
int backend_take_plans(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err);
/* A request of a plan is here, or is known to be gone. */
void backend_landed_settle(struct backend_link *l, struct landed *landed);
/* It cannot be had: it is left out, and its frontend hears of it. */
void backend_landed_lose(struct backend_link *l, struct landed *landed);
/* Gives up pulls that take too long, and hands over what waited for room. Lowers *until_ns to when to look again. */
void backend_queues_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);

/* ---- transports: what they do with cards that come; in backend_frontends.c ---- */

/* A request of this handle that waits for its card. NULL: nobody waits for it; what was kept of it is given back. */
struct landed *backend_card_wanted(const struct backend_link *l, struct frontend_peer *f, uint64_t handle);
/* Takes its card: where the inputs go. False: it does not fit, and is lost. */
bool backend_card_take(struct backend_link *l, struct frontend_peer *f, struct landed *landed,
                       const struct wire_card *card, struct iovec pieces[TENSORS_MAX], uint32_t *count);
/* Its inputs are here, or it has none: nothing of it arrives any more. */
void backend_card_over(struct backend_link *l, struct frontend_peer *f, struct landed *landed);

/* Of transport_tcp.c: what the link reads. */
uint32_t transport_tcp_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]);
void transport_tcp_body_over(struct peer *peer);

/* Of transport_fabric.c: opens libfabric, before the loop is started. 0 or -errno with a sentence; */
int transport_fabric_open(struct backend_link *l, struct sy_error *err);
/* whether the connection to a frontend is as it should be. False: the frontend is lost. */
bool transport_fabric_look(struct backend_link *l, struct frontend_peer *f);

/* ---- backend_frontends.c ---- */

/* The scheduler tells of one. 0 or -errno with a sentence. */
int backend_frontend_told(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err);
/* The scheduler says that the one of this number is gone. */
void backend_frontend_gone(struct backend_link *l, uint32_t number);
/* Connects to them, and lets go of those that are gone. Lowers *until_ns to when to look again. */
void backend_frontends_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);
