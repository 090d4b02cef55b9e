/* frontend_link_state.h - the state of a frontend's link; for its files only. */
#pragma once

#include "cluster/peer/fabric.h"
#include "cluster/peer/lost.h"
#include "cluster/roles/frontend_link.h"
#include "cluster/roles/uplink.h"
#include "core/data/output_block.h"
#include "core/util/siphash.h"

/* A request that its port has handed over and not got back. */
struct away {
    struct request_message message; /* message of the port; handle 0: the entry is free */
    struct remote_id remote;        /* model, as the request was sent */
    uint32_t sent;            /* uplink.times when the request was sent to a scheduler; 0: the request waits here */
    bool again;               /* the request was sent before, to a scheduler that is gone */
    uint32_t shown;           /* place of the last backend that has shown a pass for the request; NO_TAKER: none */
    uint32_t taker;           /* place of the backend that has pulled the request; NO_TAKER: none */
    uint32_t readers;         /* readers of the inputs: pieces being sent, and `reader` */
    uint32_t reader;          /* place of the backend that reads the inputs by libfabric; NO_TAKER: none */
    bool over;                /* the request has ended; `last` is held back while there are readers */
    bool cancelled;           /* the port has cancelled the request */
    int64_t cut_ns;           /* time at which a cancelled request ends here, whoever still has it */
    bool awaited;             /* `taker` waits for the inputs, which are still being prepared */
    bool refused;             /* the scheduler has refused the request: it ended without a result */
    struct wire_outcome last; /* end of the request, if `over` */
    uint8_t cause;            /* enum refusal_cause of the scheduler's refusal */
    struct refusal_figures figures; /* figures of that cause */
    struct output_block *block;     /* outputs of `last`; NULL: none */
    bool ended_run;                 /* the request was in the last run of a backend that is lost */
    bool beside;                    /* the request was at a lost backend, but not in the backend's last run */
    int64_t send_ns;                /* earliest time to send the request, if it was lost before */
    uint32_t failed_at;             /* number of the backend where its run has failed, if it is to be tried elsewhere */
};
#define NO_TAKER UINT32_MAX

/* A connected backend, or a connection that has not introduced itself yet. */
struct backend {
    struct peer peer;
    struct health health;
    struct hello hello;
    bool known;       /* the backend has introduced itself */
    bool refused;     /* the backend was refused, and told why */
    bool local;       /* the backend has connected to the Unix socket */
    bool shm;         /* the backend reads cards and inputs in our memory */
    bool left;        /* the backend has drained: nothing more comes from it, and nothing is missing */
    uint32_t place;   /* index in frontend_link.backends */
    int64_t since_ns; /* time of the connection */
    uint32_t guesses; /* further requests that the backend may name although they are not here, or another backend's */
    /* ring of the requests that the backend has asked for, and for which its socket has no room yet */
    uint64_t *asked; /* [asked_room] handles */
    uint32_t asked_first, asked_count, asked_room;
    /* if the backend may read by libfabric */
    uint64_t secret[2];        /* to be shown by the backend's connection */
    bool secret_told;          /* the secret was sent and not used yet */
    bool fabric_down;          /* the connection by libfabric is lost */
    struct fabric_end *fabric; /* connection by libfabric; NULL: none */
    /* the result whose body is arriving */
    struct wire_result result;
    struct received_block *block; /* memory of the body; NULL: no body, or no memory for it */
    uint64_t missed_bytes;        /* length of a body for which there was no memory; 0: none */
};

/* The model of a number here. */
struct frontend_model {
    struct remote_id remote; /* model at the scheduler; NO_MODEL: not served by it now */
    struct remote_id ends;   /* model at the scheduler, if it ends once it need not go on; NO_MODEL: it does not end */
    int64_t forget_ns; /* time until which a model that is no longer served is kept; TIME_NEVER: served, or gone */
    uint32_t key;      /* low bits of served_model_key(); 0: none yet */
    uint32_t key_next; /* next model with the same remainder of its key (frontend_link.by_key), plus 1; 0: none */
    bool served;       /* the scheduler has announced the model */
    bool told;         /* the present scheduler has announced the model since the uplink was connected */
    uint32_t retries;  /* credit for trying failed requests elsewhere (frontend_backends.c) */
    uint32_t blind;    /* further requests that may be tried elsewhere although no other backend is in `good` */
    /* the two backends that have last given good results, and when; number 0: none */
    struct {
        uint32_t number;
        int64_t ns;
    } good[2];
};
#define NO_MODEL UINT32_MAX
#define KEYS     1024 /* a power of two */
/* A failed request is tried once elsewhere if another backend has run its model well within GOOD_NS, and for RETRY_COST
 * of its model's credit, which each good answer raises by one. So a client whose requests fail everywhere has them run
 * hardly more than once. Of a model that is new here, BLIND_MOST requests are tried without knowing of another. */
#define GOOD_NS       (10 * NS_PER_S)
#define BLIND_MOST    16
#define RETRY_COST    4
#define RETRIES_FIRST (64 * RETRY_COST)
#define RETRIES_MOST  (256 * RETRY_COST)

/* A model that the scheduler serves, and for which there is no room here now. */
struct waiting_model {
    struct waiting_model *next;
    struct remote_id remote;
    uint32_t bytes; /* length of the description */
    char description[];
};

struct frontend_link {
    struct frontend_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct uplink uplink;
    struct siphash_key key;        /* key of the passes of this frontend */
    struct away *away;             /* [frontends * port_requests] requests that are away, by frontend and slot */
    uint32_t held;                 /* requests that wait here, not sent to a scheduler */
    uint32_t doubtful;             /* requests in doubt at the scheduler: at most one */
    uint32_t awaited;              /* requests that are `awaited` */
    bool promises;                 /* the scheduler queues requests whose inputs are promised; false: these wait here */
    uint32_t number;               /* number of this process, from the last scheduler; 0: none yet */
    struct frontend_model *models; /* [models_max] */
    uint32_t by_key[KEYS];         /* first model with this remainder of its key, plus 1; 0: none */
    struct waiting_model *waiting; /* models without room, in the order in which they were announced */
    struct backend **backends;     /* [backend_room] backends by place; NULL: a free place */
    uint32_t backend_room, backend_count;
    uint32_t backends_known;   /* backends that have introduced themselves */
    int64_t unlinked_ns;       /* time since when there is no scheduler or no backend; TIME_NEVER: there are both */
    bool unlinked;             /* link_wait_ns has passed since: requests are refused at once */
    int64_t sweep_ns, look_ns; /* times of the next search for late requests, and of the next ops->look() */
    _Atomic bool look_due;     /* another thread wants ops->look() to be called at once */
    int64_t cut_ns;            /* earliest cut_ns of a cancelled request; TIME_NEVER: there is none */
    uint32_t results_rung;     /* requests that came back in this turn */
    uint64_t lost[LOST_REASONS], again; /* requests lost, by reason; requests sent to a scheduler again */
    struct link_report report;
    struct fabric *fabric;                                 /* libfabric; NULL: not used */
    bool fabric_due;                                       /* fabric_look() is due */
    struct sockaddr_storage fabric_address;                /* address at which libfabric listens */
    struct fabric_region fabric_regions[WIRE_REGIONS_MAX]; /* the wiring's regions, as registered with libfabric */
    void *fabric_maps[WIRE_REGIONS_MAX];                   /* mappings of the regions for libfabric */
};

/* ---- frontend_link.c: requests that are away ---- */

/* The number of entries of `away`. */
static inline size_t away_count(const struct frontend_link *l) {
    return (size_t)l->wiring->frontends * l->wiring->port_requests;
}
/* Runs over all requests that are away. */
#define AWAY_EACH(l, a)                                                                                                \
    for (struct away *a = (l)->away; a < (l)->away + away_count(l); a++)                                               \
        if (a->message.handle)

/* The cluster's handle for a port's handle. */
uint64_t away_handle(const struct frontend_link *l, uint64_t handle);
/* The request with this handle of the cluster, if it is away; else NULL. */
struct away *away_find(const struct frontend_link *l, uint64_t handle);
/* As away_find(), for a handle that a backend names. NULL: the request is not away, or the backend has shown no pass
 * for it, or another one has it; this lowers b->guesses. */
struct away *away_named(const struct frontend_link *l, struct backend *b, uint64_t handle);
/* The frontend thread that owns a request. */
uint32_t away_lane(const struct away *a);
/* The request's card, which stays until the request has come back. */
const struct request_card *away_card(const struct frontend_link *l, const struct away *a);
/* Whether a request's inputs are still being prepared; false: they can be read. */
bool away_unready(const struct frontend_link *l, const struct away *a);
/* The backend `taker` waits for a request's inputs, and is told once they are there. */
void away_await(struct frontend_link *l, struct away *a, uint32_t taker);
/* No backend waits for the request's inputs any more. */
void away_await_no_more(struct frontend_link *l, struct away *a);
/* Whether a request may be sent now: the scheduler is up and serves the model, the inputs are there or the scheduler
 * knows promises, and the request is not in doubt while another one in doubt is at the scheduler. Only then may
 * away_send() be called, which sends the request. */
bool away_can_send(const struct frontend_link *l, const struct away *a);
void away_send(struct frontend_link *l, struct away *a);
/* Keeps a request here again, to be sent to the next scheduler, since no living process would report its end. False:
 * the client has left, and the request has ended instead. */
bool away_hold(struct frontend_link *l, struct away *a);
/* Sends the scheduler a message about a request; `kind`: enum request_message_kind. */
void away_tell(struct frontend_link *l, const struct away *a, uint8_t kind);
/* The handles that the backend runs now; NULL: the backend does not tell them. */
const struct running *backend_running(const struct frontend_link *l, const struct backend *b);
/* A request has ended; the first end counts. Its port is told once its inputs are no longer read. */
void away_over(struct frontend_link *l, struct away *a, const struct wire_outcome *last, struct output_block *block,
               bool refused);
/* Takes a request, which no backend is known to have read, back from the scheduler: the request counts as lost, and its
 * port sends it again. */
void away_take_back(struct frontend_link *l, struct away *a);
/* Gives a request back to its port: it has ended, and its inputs are no longer read. */
void away_give_back(struct frontend_link *l, struct away *a);

/* Sends a backend a frame with a request's card, behind which body_bytes of inputs follow; of FRAME_LIES, the inputs'
 * places here. False: nothing was sent. */
bool away_card_send(const struct frontend_link *l, struct backend *b, enum frame_kind kind, const struct away *a,
                    uint64_t body_bytes);
/* The bytes of a request's inputs. */
uint64_t away_bytes(const struct frontend_link *l, const struct away *a);
/* One reader of a request's inputs has finished. */
void away_unread(struct frontend_link *l, struct away *a);
/* Sends a backend a request's card and inputs, or that the request is not here, after the requests that the backend has
 * asked for before. */
void away_pulled(struct frontend_link *l, struct backend *b, uint64_t handle);

/* ---- frontend_fabric.c ---- */

/* Opens libfabric, before the loop is started. 0 or -errno with a sentence. */
int frontend_fabric_open(struct frontend_link *l, struct sy_error *err);
/* Closes libfabric. Call it when no backend is connected. */
void frontend_fabric_close(struct frontend_link *l);
/* Tells a backend at which address it may connect by libfabric, and which memory it may read. */
void fabric_offer(struct frontend_link *l, struct backend *b);
/* A backend asks for the places of these requests' inputs. */
void fabric_where(struct frontend_link *l, struct backend *b, const uint64_t *handles, uint32_t count);
/* A backend has read these requests' inputs. */
void fabric_was_read(struct frontend_link *l, const struct backend *b, const uint64_t *handles, uint32_t count);
/* A backend is lost, and no longer reads anything. */
void fabric_drop(struct frontend_link *l, struct backend *b);

/* ---- frontend_backends.c ---- */

/* The inputs of an awaited request are there: tells the backend that waits for them. */
void frontend_inputs_ready(struct frontend_link *l, struct away *a);
/* A process has connected, presumably a backend. */
void frontend_accepted(void *link, int fd, const char *from);
/* Checks whether backends are alive. Lowers *until_ns to when to call it again. */
void frontend_backends_look(struct frontend_link *l, int64_t now_ns, int64_t *until_ns);
