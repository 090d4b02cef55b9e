/* backend_link_state.h - the state of a backend's link; for its files only. */
#pragma once

#include <jansson.h>

#include "cluster/peer/fabric.h"
#include "cluster/peer/lost.h"
#include "cluster/roles/backend_link.h"
#include "cluster/roles/landing.h"
#include "cluster/roles/transport.h"
#include "cluster/roles/uplink.h"
#include "core/util/margin.h"

/* A frontend process, as announced by the scheduler. */
struct frontend_peer {
    struct frontend_peer *next;
    struct hello hello;
    struct hello heir; /* the process that has its number now, and takes its place once nothing of the old one is here;
                        * number 0: none */
    struct landing landing;
    struct peer peer;
    struct health health;
    struct margin pulls;   /* how long pulls take */
    uint64_t fabric_bytes; /* read by libfabric, so not over the link */
    uint64_t mark_bytes;   /* to see whether it delivers: the bytes that had come */
    int64_t mark_ns;       /* at this time */
    bool open, known;
    bool told;    /* the present scheduler has announced it */
    bool leaving; /* the scheduler says that it is gone; it is forgotten once none of its requests runs here */
    bool complained;
    uint64_t given_up;      /* pulls */
    int64_t given_up_at_ns; /* the next line in the log about that is not before this time */
    uint64_t refused;       /* requests whose inputs were not taken, */
    int64_t refused_at_ns;  /* the next line in the log about that is not before this time */
    int64_t await_ns;       /* until then plans with its requests may wait for the connection */
    int64_t retry_ns;
    uint32_t tries;                    /* how many addresses of its name were tried */
    bool local;                        /* the connection is to its Unix socket */
    const struct transport *transport; /* by which requests are pulled now; NULL: it is not ready */
    struct landed *arriving;           /* tcp: the request whose body is arriving */
    /* of fabric: */
    struct fabric_end *fabric; /* NULL: no connection */
    bool fabric_down;          /* the connection is lost */
    char fabric_reason[sizeof(((struct sy_error *)0)->text)];
    uint32_t fabric_region_count;
    struct wire_fabric_region fabric_regions[WIRE_REGIONS_MAX];
    struct frontend_memory *memory; /* of shm: its cards and inputs; NULL: it has not handed them over */
};

/* Whether requests can be pulled from a frontend now: it has let us in, the transport is ready, and its clock is known,
 * by which it says when a request has to be answered. */
static inline bool backend_can_pull(const struct frontend_peer *f) {
    return f->known && f->transport && clock_sync_known(&f->health.clock);
}

/* A plan whose requests are pulled. */
struct pulled_plan {
    struct pulled_plan *next; /* of its accelerator, or of those that are free */
    uint32_t missing;         /* requests that are not here, but may still come */
    bool tight;               /* requests that cannot be had have been left out */
    bool unreached;           /* some were left out because their frontend could not be reached, or inputs refused */
    int64_t begun_ns, over_ns;
    uint32_t room; /* requests that fit */
    struct batch_plan plan;
};

struct accelerator_queue {
    struct pulled_plan *first, **last;
    uint32_t out; /* plans that the executor has */
    bool told;    /* the present scheduler knows that the accelerator takes batches, */
    bool ours;    /* or knew it: all plans here are from the present scheduler */
    bool leaves;  /* its executor says that it takes no batches */
    bool awaited; /* the present scheduler has not said yet that it sends no more plans for it */
};

enum offer_state {
    OFFER_NONE, /* nothing here needs it */
    OFFER_COMES,
    OFFER_GOES,
};

enum offer_told { TOLD_NOTHING, TOLD_MODEL, TOLD_ENDS, TOLD_RESTS };

/* A model, as it is offered to the scheduler. */
struct model_offer {
    _Atomic uint8_t state; /* enum offer_state; set by the thread that loads models, except NONE */
    uint8_t told;          /* enum offer_told; what the present scheduler was told, or has answered */
    char *unoffered;       /* why it was not offered; NULL: it was */
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
    uint32_t *running;                  /* [executors] requests that it still has to answer */
    uint64_t copied;                    /* bytes of inputs that this turn has copied, by transport_shm.c */
    struct fabric *fabric;              /* NULL: none */
    bool fabric_due;                    /* fabric_look() is due */
    struct fabric_region fabric_memory; /* the slab's */
    void *fabric_map;                   /* the slab's memory as libfabric has it */
    bool introduced;                    /* the present scheduler knows our models and accelerators */
    bool plan_rung;
    struct model_offer *offers;  /* [model_count] */
    _Atomic bool offers_changed; /* since the link last read them */
    _Atomic bool begun;          /* the backend may introduce itself to the scheduler */
    bool offers_left;            /* some offers need further steps */
    _Atomic(char *) aside_next;  /* what backend_link_aside() was given and the link has not read yet; NULL: nothing */
    json_t *aside;               /* what it was given last; NULL: nothing yet */
    bool aside_told;             /* the present scheduler knows of it, and of what was not offered */
    int64_t offers_look_ns;
    _Atomic bool quiesced;
    uint64_t lost[LOST_REASONS], given_up;
    struct link_report report;
    _Atomic bool ended; /* quiesced, nothing is left here, and frontends are told; never reset */
};

/* ---- backend_link.c ---- */

/* Says that a request will have no answer from this backend. */
void backend_tell_undelivered(struct backend_link *l, uint64_t handle, enum lost_reason reason);
/* Tells the scheduler: of the end of a batch that never reached its executor; */
void backend_tell_not_run(struct backend_link *l, const struct batch_plan *plan, int64_t now_ns);
/* that an accelerator takes batches, once it has none of another scheduler's. */
void backend_tell_joins(struct backend_link *l, uint32_t accelerator);

/* ---- backend_models.c: models that come and go ---- */

/* Tells the scheduler of all models of this backend; its first messages. */
void backend_models_introduce(struct backend_link *l);
/* Tells it of later changes. Lowers *until_ns to when to call it again. */
void backend_models_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);
/* Tells it of models that are not served. */
void backend_aside_look(struct backend_link *l);
/* The scheduler says that it sends no more plans for a model. */
void backend_model_rests(struct backend_link *l, uint32_t model);
/* A new scheduler knows none of our models. */
void backend_models_untold(struct backend_link *l);
/* Whether there may be plans for a model. */
bool backend_model_runs(const struct backend_link *l, uint32_t model);

/* ---- backend_plans.c: plans, until they go to their executors ---- */

/* The frontend of a handle; NULL: unknown. And what is here of the request; NULL: nothing. */
struct frontend_peer *backend_frontend_of(const struct backend_link *l, uint64_t handle);
struct landed *backend_landed_of(const struct backend_link *l, uint64_t handle);
/* Takes a frame of plans. 0 or -errno with a sentence. */
int backend_take_plans(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err);
/* A frontend that plans waited for is connected: begins to pull. */
void backend_pulls_begin(struct backend_link *l, struct frontend_peer *f);
/* A request of a plan is here, or is known to be gone. */
void backend_landed_settle(struct backend_link *l, struct landed *landed);
/* The request cannot be had: it is left out of its plan, and its frontend is told. */
void backend_landed_lose(struct backend_link *l, struct landed *landed, enum lost_reason reason);
/* Nothing here needs the request any more: its memory is freed, once nothing arrives in it. */
void backend_landed_give(struct landing *landing, struct landed *landed);
/* Gives up pulls that take too long, and hands over what waited for room. Lowers *until_ns to when to look again. */
void backend_queues_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);

/* ---- transports: what they do with cards that come; in backend_frontends.c ---- */

/* The request of this handle that waits for its card or its inputs. NULL: none waits; if its pull was given up, this
 * frees its memory. */
struct landed *backend_card_wanted(const struct backend_link *l, struct frontend_peer *f, uint64_t handle);
/* Takes a request's card, and says where its inputs go. False: the card does not fit the model, or there is no memory
 * for its inputs: the request is lost. */
bool backend_card_take(struct backend_link *l, struct frontend_peer *f, struct landed *landed,
                       const struct wire_card *card, struct iovec pieces[TENSORS_MAX], uint32_t *count);
/* A request's inputs are not taken, for the reason in `err`; rc -EFBIG, -EINVAL: this backend never takes them. Logs
 * that, at most once a second. If no other request of its plan is left, the plan still occupies its accelerator for a
 * while (UNREACHED_MOST_NS). Returns the reason to tell the frontend. */
enum lost_reason backend_inputs_refused(struct frontend_peer *f, struct landed *landed, int rc,
                                        const struct sy_error *err);
/* The frontend says that a request's inputs are still being prepared, or that they are there now. */
void backend_card_unready(struct backend_link *l, struct frontend_peer *f, const struct wire_card *card);
void backend_card_ready(struct backend_link *l, struct frontend_peer *f, uint64_t handle);
/* The request's inputs are here, or it has none: nothing more of it arrives. */
void backend_card_over(struct backend_link *l, struct frontend_peer *f, struct landed *landed);

/* Of transport_tcp.c, for bodies that the link reads. */
uint32_t transport_tcp_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]);
void transport_tcp_body_over(struct peer *peer);

/* Of transport_fabric.c: opens libfabric, before the loop is started. 0 or -errno with a sentence; */
int transport_fabric_open(struct backend_link *l, struct sy_error *err);
/* whether the connection to a frontend is as it should be. False: the frontend is lost. */
bool transport_fabric_look(struct backend_link *l, struct frontend_peer *f);

/* ---- backend_frontends.c ---- */

/* The scheduler announces a frontend. 0 or -errno with a sentence. */
int backend_frontend_told(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err);
/* The scheduler says that the frontend of this number is gone. */
void backend_frontend_gone(struct backend_link *l, uint32_t number);
/* Connects to frontends, and frees those that are gone. Lowers *until_ns to when to call it again. */
void backend_frontends_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);
