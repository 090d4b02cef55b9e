/* backend_link_state.h - the state of a backend's link; for its files only. */
#pragma once

#include <jansson.h>

#include "cluster/peer/fabric.h"
#include "cluster/peer/lost.h"
#include "cluster/roles/backend_link.h"
#include "cluster/roles/landing.h"
#include "cluster/roles/plan_memory.h"
#include "cluster/roles/transport.h"
#include "cluster/roles/uplink.h"
#include "core/util/margin.h"
#include "sched/core/load_time.h"

/* A frontend process, as announced by the scheduler. */
struct frontend_peer {
    struct frontend_peer *next;
    struct hello hello;
    struct hello heir; /* process that has the frontend's number now, and takes its place once nothing of the old
                          process is here; number 0: none */
    struct landing landing;
    struct peer peer;
    struct health health;
    struct margin pulls;   /* measured times of pulls */
    uint64_t fabric_bytes; /* bytes read by libfabric, and so not over the link */
    uint64_t mark_bytes;   /* bytes received by mark_ns, to see whether the frontend delivers */
    int64_t mark_ns;       /* time of the last DELIVERS_BYTES (backend_plans.c) */
    bool open, known;      /* there is a connection; the frontend has accepted us on it */
    bool told;             /* the present scheduler has announced the frontend */
    bool leaving;      /* the scheduler says that the frontend is gone: forgotten once none of its requests is here */
    bool complained;   /* the present trouble with the connection was logged */
    uint64_t given_up; /* pulls given up */
    int64_t given_up_at_ns; /* earliest time of the next line in the log about given-up pulls */
    uint64_t refused;       /* requests whose inputs were not taken */
    int64_t refused_at_ns;  /* earliest time of the next line in the log about inputs not taken */
    int64_t await_ns;       /* time until which plans with the frontend's requests may wait for the connection */
    int64_t retry_ns;       /* time of the next attempt to connect */
    uint32_t tries;         /* count of tried addresses of the frontend's name */
    bool local;             /* the connection is to the frontend's Unix socket */
    const struct transport *transport; /* transport of pulls now; NULL: none is ready */
    struct landed *arriving;           /* of tcp: request whose body is arriving; NULL: none */
    /* of fabric: */
    struct fabric_end *fabric; /* connection by libfabric; NULL: none */
    bool fabric_down;          /* connection by libfabric is lost, for fabric_reason */
    char fabric_reason[sizeof(((struct sy_error *)0)->text)];
    uint32_t fabric_region_count;
    struct wire_fabric_region fabric_regions[WIRE_REGIONS_MAX];
    struct frontend_memory *memory; /* of shm: the frontend's cards and inputs; NULL: not handed over */
};

/* Whether requests can be pulled from a frontend now: it has accepted us, a transport is ready, and its clock is known,
 * since deadlines are by that clock. */
static inline bool backend_can_pull(const struct frontend_peer *f) {
    return f->known && f->transport && clock_sync_known(&f->health.clock);
}

/* A plan whose requests are pulled. */
struct pulled_plan {
    struct plan_memory memory;
    uint32_t missing; /* requests that are not here and may still come */
    bool tight;       /* requests that could not be pulled were left out of `plan` */
    bool unreached; /* some requests were left out since their frontend was not reached, or their inputs were refused */
    bool avoided;   /* some requests were left out since other backends are to try them; `unreached` is set, too */
    int64_t begun_ns, over_ns; /* arrival of the plan; time at which missing requests are given up */
    uint32_t passes;           /* number of passes of the plan */
    struct batch_plan plan;    /* handles follow, and, until `tight`, passes */
};

struct accelerator_queue {
    struct list_node plans; /* plans that wait, in the scheduler's order */
    uint32_t out;           /* plans that the executor has */
    bool told;              /* the present scheduler knows that the accelerator takes batches */
    bool ours;              /* all plans here are from the present scheduler, which knows or knew that */
    bool leaves;            /* the executor says that the accelerator takes no batches */
    bool awaited; /* the accelerator has left, and the present scheduler has not said yet that no more plans come */
    /* where memory is limited: */
    uint32_t orders;     /* orders that the executor has */
    uint32_t session;    /* times that the accelerator has joined */
    bool told_memory;    /* the present scheduler was told what the accelerator has, and hears of the ends of orders */
    bool lost;           /* the executor has taken it out of service: it is to have nothing when it joins again */
    bool *resident;      /* [model_count] models that it has */
    uint32_t *orders_of; /* [model_count] of `orders`, those about the model */
};

enum offer_state {
    OFFER_NONE,  /* nothing here needs the model */
    OFFER_COMES, /* the model is offered, or is to be */
    OFFER_GOES,  /* the model is to go */
};

enum offer_told { TOLD_NOTHING, TOLD_MODEL, TOLD_ENDS, TOLD_RESTS };

/* The offer of a model to the scheduler. */
struct model_offer {
    _Atomic uint8_t state; /* enum offer_state; set by the thread that loads models, except NONE */
    uint8_t told;          /* enum offer_told: last message to, or answer of, the present scheduler */
    char *unoffered;       /* reason why the model was not offered; NULL: it was */
    /* runs that failed here and not elsewhere (backend_models.c) */
    uint32_t faults;   /* their number, less that of good results since; never negative */
    uint32_t times;    /* times that the model was set aside since a good result */
    int64_t until_ns;  /* time until which the model is set aside; 0: it is not */
    char failure[128]; /* sentence of the last run that failed */
};

struct backend_link {
    struct backend_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct uplink uplink;
    struct slab *slab;
    struct frontend_peer *frontends;
    struct frontend_peer **by_number;   /* [HELLO_NUMBERS] frontends by number */
    struct accelerator_queue *queues;   /* [accelerators] */
    struct load_time *loads;            /* [model_count] what loads took here, told to a new scheduler; NULL: memory is
                                         * not limited */
    struct list_node free_plans;        /* structs for further plans */
    uint32_t pulling;                   /* plans in queues */
    uint32_t *running;                  /* [executors] requests that the executor has yet to answer */
    uint64_t copied;                    /* bytes of inputs that transport_shm.c has copied in this turn */
    struct fabric *fabric;              /* libfabric; NULL: not used */
    bool fabric_due;                    /* fabric_look() is due */
    struct fabric_region fabric_memory; /* the slab, as registered with libfabric */
    void *fabric_map;                   /* mapping of the slab's memory for libfabric */
    bool cordoned;               /* no batches are taken until the scheduler says so; new schedulers hear of it */
    bool introduced;             /* the present scheduler knows our models and accelerators */
    uint32_t plans_rung;         /* plans that executors got in this turn */
    bool orders_rung;            /* executors got orders to load or unload in this turn */
    bool plan_brief;             /* the last of these is the only one of its executor, with few requests, and so
                                  * brief that this thread may run it */
    struct model_offer *offers;  /* [model_count] */
    _Atomic bool offers_changed; /* offers have changed since the link last read them */
    _Atomic bool begun;          /* the backend may introduce itself to the scheduler */
    bool offers_left;            /* some offers need further steps */
    uint32_t offers_faulty;      /* models that are set aside since their runs fail here */
    _Atomic(char *) aside_next;  /* list of backend_link_aside() that the link has not read yet; NULL: none */
    json_t *aside;               /* last list of backend_link_aside(); NULL: none yet */
    bool aside_told;             /* the present scheduler has the list, and the models that were not offered */
    int64_t offers_look_ns;      /* time of the next look at offers that go */
    _Atomic bool quiesced;       /* backend_link_quiesce() was called */
    uint64_t lost[LOST_REASONS], given_up; /* requests not delivered, by reason; pulls given up */
    struct link_report report;
    _Atomic bool ended; /* the link is quiesced, nothing is left here, and frontends were told; never reset */
};

/* ---- backend_link.c ---- */

/* Says that a request will have no answer from this backend. */
void backend_tell_undelivered(struct backend_link *l, uint64_t handle, enum lost_reason reason);
/* Tells the scheduler of the end of a batch that never reached its executor. */
void backend_tell_not_run(struct backend_link *l, const struct batch_plan *plan, int64_t now_ns);
/* Tells the scheduler that an accelerator takes batches, once it has no batches of another scheduler. */
void backend_tell_joins(struct backend_link *l, uint32_t accelerator);

/* ---- backend_models.c: models that come and go ---- */

/* Tells a new scheduler of all models of this backend, before anything else. */
void backend_models_introduce(struct backend_link *l);
/* Tells the scheduler of later changes of models. Lowers *until_ns to when to call it again. */
void backend_models_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);
/* Tells the scheduler of models that are not served. */
void backend_aside_look(struct backend_link *l);
/* The scheduler says that it sends no more plans for a model. */
void backend_model_rests(struct backend_link *l, uint32_t model);
/* A new scheduler knows none of our models. */
void backend_models_untold(struct backend_link *l);
/* A frontend says of the model with this served_model_key(): a run failed here, and the same request ran elsewhere. */
void backend_model_fault(struct backend_link *l, uint64_t key);
/* Notes how a request of a model ended here: with a good result (`failure` is NULL), or with this sentence. */
void backend_model_ran(struct backend_link *l, uint32_t model, const char *failure);
/* Whether there may be plans for a model. */
bool backend_model_runs(const struct backend_link *l, uint32_t model);

/* ---- backend_memory.c: loads and unloads, where memory is limited ---- */

int backend_memory_init(struct backend_link *l);
void backend_memory_free(struct backend_link *l);
/* An accelerator is about to join: tells the scheduler what it has. False: that has to wait for the end of orders,
 * which calls backend_tell_joins(). */
bool backend_memory_join(struct backend_link *l, uint32_t accelerator);
/* Takes the scheduler's orders, whose kinds are checked. 0 or -errno with a sentence. */
int backend_take_moves(struct backend_link *l, const struct wire_move *moves, uint32_t count, struct sy_error *err);
/* A model goes: its executors unload it, if that was not ordered. */
void backend_memory_forget(struct backend_link *l, uint32_t model);
/* Passes on the ends of orders. True: there may be more. */
bool backend_memory_look(struct backend_link *l);
/* Publishes the turn's orders. */
void backend_orders_publish(struct backend_link *l);

/* ---- backend_plans.c: plans, until they go to their executors ---- */

/* The frontend of a handle; NULL: unknown. */
struct frontend_peer *backend_frontend_of(const struct backend_link *l, uint64_t handle);
/* The slot of a handle's request, if a plan has named that; else NULL. */
struct landed *backend_landed_of(const struct backend_link *l, uint64_t handle);
/* Takes a frame of plans. 0 or -errno with a sentence. */
int backend_take_plans(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err);
/* A frontend for which plans waited is connected: begins to pull its requests. */
void backend_pulls_begin(struct backend_link *l, struct frontend_peer *f);
/* A request of a plan is here, or is known to be gone. */
void backend_landed_settle(struct backend_link *l, struct landed *landed);
/* A request cannot be pulled: leaves it out of its plan, and tells its frontend. */
void backend_landed_lose(struct backend_link *l, struct landed *landed, enum lost_reason reason);
/* Nothing here needs a request any more: frees its memory, once nothing arrives in that. */
void backend_landed_give(struct landing *landing, struct landed *landed);
/* Gives up pulls that take too long, and hands over plans that waited for room. Lowers *until_ns to when to call it
 * again. */
void backend_queues_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);

/* ---- backend_frontends.c: cards, for the transports ---- */

/* The request of this handle that waits for its card or its inputs. NULL: none waits; the memory of a request whose
 * pull was given up is freed. */
struct landed *backend_card_wanted(const struct backend_link *l, struct frontend_peer *f, uint64_t handle);
/* Takes a request's card, and sets the memory for its inputs. False: the card does not fit the model, or there is no
 * memory for the inputs; the request is then lost. */
bool backend_card_take(struct backend_link *l, struct frontend_peer *f, struct landed *landed,
                       const struct wire_card *card, struct iovec pieces[TENSORS_MAX], uint32_t *count);
/* A request's inputs are not taken, for the reason in `err`; rc -EFBIG, -EINVAL: this backend never takes them. Logs
 * the reason, at most once a second for a frontend. If no other request of the plan is left, the plan still occupies
 * its accelerator for a while (UNREACHED_MOST_NS). Returns the reason for the frontend. */
enum lost_reason backend_inputs_refused(struct frontend_peer *f, struct landed *landed, int rc,
                                        const struct sy_error *err);
/* Whether the run of a card's request has failed here before, and another backend is to try it. If no other request of
 * the plan is left, the plan still occupies its accelerator for a while, so that the next grant is another's. */
bool backend_is_avoided(const struct backend_link *l, struct landed *landed, const struct wire_card *card);
/* The frontend says that a request's inputs are still being prepared, or that they are there now. */
void backend_card_unready(struct backend_link *l, struct frontend_peer *f, const struct wire_card *card);
void backend_card_ready(struct backend_link *l, struct frontend_peer *f, uint64_t handle);
/* A request's inputs are here, or it has none: nothing more of the request arrives. */
void backend_card_over(struct backend_link *l, struct frontend_peer *f, struct landed *landed);

/* ---- transport_tcp.c: bodies that the link reads ---- */

uint32_t transport_tcp_body(struct peer *peer, const struct frame *frame, struct iovec pieces[PEER_PIECES_MAX]);
void transport_tcp_body_over(struct peer *peer);

/* ---- transport_fabric.c ---- */

/* Opens libfabric, before the loop is started. 0 or -errno with a sentence. */
int transport_fabric_open(struct backend_link *l, struct sy_error *err);
/* Whether the connection by libfabric to a frontend is as it should be. False: the frontend is lost. */
bool transport_fabric_look(struct backend_link *l, struct frontend_peer *f);

/* ---- backend_frontends.c ---- */

/* The scheduler announces a frontend. 0 or -errno with a sentence. */
int backend_frontend_told(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err);
/* The scheduler says that the frontend of this number is gone. */
void backend_frontend_gone(struct backend_link *l, uint32_t number);
/* Connects to frontends, and frees those that are gone. Lowers *until_ns to when to call it again. */
void backend_frontends_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns);
