/* frontend_link_state.h - the state of a frontend's link; for its files only. */
#pragma once

#include "cluster/peer/fabric.h"
#include "cluster/peer/lost.h"
#include "cluster/roles/frontend_link.h"
#include "cluster/roles/uplink.h"
#include "core/data/output_block.h"

/* A request that the port handed over and that has not come back to it. */
struct away {
    struct request_message message; /* as the port sent it; handle 0: the entry is free */
    uint32_t remote;                /* the scheduler's number of its model, as it was sent */
    uint32_t sent;                  /* uplink.times when it was sent to a scheduler; 0: it waits here */
    bool again;                     /* it has been sent before, to a scheduler that is gone */
    uint32_t taker;                 /* the backend that has pulled it, by its place; NO_TAKER */
    uint32_t readers;               /* of its inputs: the pieces that are being sent, and the backend that reads them by
                                     * libfabric: */
    uint32_t reader;                /* that backend, by its place; NO_TAKER */
    bool over;                      /* it has ended; `last` is held back until there are no readers */
    bool cancelled;
    int64_t cut_ns; /* of a cancelled one: when it ends here, whoever still has it */
    bool awaited;   /* `taker` waits for its inputs, which are still being prepared */
    bool refused;   /* by the scheduler: it ended with a refusal, not a result */
    struct wire_outcome last;
    struct output_block *block; /* of `last` */
    bool ended_run;             /* it was in the last run of a backend that is lost, */
    bool beside;                /* or was there, but not in that run */
};
#define NO_TAKER UINT32_MAX

/* A connected backend, or a connection that has not introduced itself yet. */
struct backend {
    struct peer peer;
    struct health health;
    struct hello hello;
    bool known;   /* it has introduced itself */
    bool refused; /* it was refused, and told why */
    bool local;   /* it connected to the Unix socket */
    bool shm;     /* it reads cards and inputs in our memory */
    bool left;    /* it has drained: nothing more comes from it, and nothing is missing */
    uint32_t place;
    int64_t since_ns;
    uint32_t guesses; /* how many more requests it may name that are not here, or that another has taken */
    /* requests that it has asked for, waiting until its socket takes more: a ring */
    uint64_t *asked; /* [asked_room] */
    uint32_t asked_first, asked_count, asked_room;
    /* if it may read by libfabric */
    uint64_t secret[2];
    bool secret_told;          /* the secret was sent, and has not been used yet */
    bool fabric_down;          /* the connection is lost */
    struct fabric_end *fabric; /* NULL: no connection */
    /* the result whose body is arriving */
    struct wire_result result;
    struct received_block *block; /* NULL: it has none, or there was no memory for */
    uint64_t missed_bytes;        /* so many */
};

/* A model that the scheduler serves and for which there is no room here now. */
struct waiting_model {
    struct waiting_model *next;
    uint32_t remote; /* the scheduler's number */
    uint32_t bytes;
    char description[];
};

struct frontend_link {
    struct frontend_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct uplink uplink;
    struct away *away;         /* [frontends * port_requests] */
    uint32_t held;             /* how many of them wait here */
    uint32_t doubtful;         /* how many requests in doubt the scheduler has: at most one */
    uint32_t awaited;          /* how many of them are awaited */
    bool promises;             /* the scheduler queues requests whose inputs are promised; else they wait here */
    uint32_t number;           /* our number, from the last scheduler; 0: none yet */
    uint32_t *remote_of_local; /* [models_max] the scheduler's number of the model; NO_MODEL: it does not serve it
                                * now */
    int64_t *forget_ns; /* [models_max] for a model that is no longer served: until when it is kept; else TIME_NEVER */
    uint32_t *ends;     /* [models_max] the scheduler's number of a model that ends once it need not go on; NO_MODEL */
    bool *served;       /* [models_max] announced by the scheduler */
    bool *told;         /* [models_max] announced since the uplink was connected */
    struct waiting_model *waiting; /* in the order in which they were announced */
    struct backend **backends;     /* by place */
    uint32_t backend_room, backend_count;
    int64_t sweep_ns, look_ns;
    int64_t cut_ns;        /* when the first cancelled request may have to end here; TIME_NEVER: there is none */
    uint32_t results_rung; /* requests that came back in this turn */
    uint64_t lost[LOST_REASONS], again;
    struct link_report report;
    struct fabric *fabric; /* NULL: none */
    bool fabric_due;       /* fabric_look() is due */
    struct sockaddr_storage fabric_address;
    struct fabric_region fabric_regions[WIRE_REGIONS_MAX]; /* as the wiring's */
    void *fabric_maps[WIRE_REGIONS_MAX];                   /* their memory as libfabric has it */
};

/* ---- frontend_link.c: requests that are away ---- */

/* The number of entries of `away`. */
static inline size_t away_count(const struct frontend_link *l) {
    return (size_t)l->wiring->frontends * l->wiring->port_requests;
}

/* The cluster's handle for a port's handle. */
uint64_t away_handle(const struct frontend_link *l, uint64_t handle);
/* The request of a cluster's handle, if it is away; else NULL. */
struct away *away_find(const struct frontend_link *l, uint64_t handle);
/* The same of one that a backend names, which may have it; NULL: there is none, or another backend has it. That counts:
 * see backend_guesses(). */
struct away *away_named(const struct frontend_link *l, struct backend *b, uint64_t handle);
/* The frontend thread that owns it. */
uint32_t away_lane(const struct away *a);
/* Whether its inputs are still being prepared; false: they can be read. */
bool away_unready(const struct frontend_link *l, const struct away *a);
/* The backend `taker` waits for the inputs, and is told once they are there; or it waits no more. */
void away_await(struct frontend_link *l, struct away *a, uint32_t taker);
void away_await_no_more(struct frontend_link *l, struct away *a);
/* Whether it may be sent now: the scheduler is up and serves its model; its inputs are there, or the scheduler knows
 * promises; and no other request in doubt is there. away_send() sends it, and may be called only then. */
bool away_can_send(const struct frontend_link *l, const struct away *a);
void away_send(struct frontend_link *l, struct away *a);
/* Keeps a request here again, to be sent to the next scheduler: no living process would report its end. False: its
 * client has left, so it has ended instead. */
bool away_hold(struct frontend_link *l, struct away *a);
/* Sends the scheduler a message about it: enum request_message_kind. */
void away_tell(struct frontend_link *l, const struct away *a, uint8_t kind);
/* What the backend says that it runs; NULL: it does not say that. */
const struct running *backend_running(const struct frontend_link *l, const struct backend *b);
/* A request has ended; the first end counts. Its port is told once its inputs are no longer read. */
void away_over(struct frontend_link *l, struct away *a, const struct wire_outcome *last, struct output_block *block,
               bool refused);
/* Takes a request that no backend is known to have read from the scheduler: it is lost, and its port sends it again. */
void away_take_back(struct frontend_link *l, struct away *a);
/* Gives a request back to its port: it has ended, and its inputs are no longer read. */
void away_give_back(struct frontend_link *l, struct away *a);

/* One reader of its inputs has finished. */
void away_unread(struct frontend_link *l, struct away *a);
/* Sends a backend a request's card and inputs, or that there are none, after those that it has asked for before. */
void away_pulled(struct frontend_link *l, struct backend *b, uint64_t handle);

/* ---- frontend_fabric.c ---- */

/* Opens libfabric, before the loop is started. 0 or -errno with a sentence. */
int frontend_fabric_open(struct frontend_link *l, struct sy_error *err);
/* Once no backend is connected. */
void frontend_fabric_close(struct frontend_link *l);
/* Tells a backend where it may connect and read. */
void fabric_offer(struct frontend_link *l, struct backend *b);
/* A backend asks where inputs lie; */
void fabric_where(struct frontend_link *l, struct backend *b, const uint64_t *handles, uint32_t count);
/* has read them; */
void fabric_was_read(struct frontend_link *l, const struct backend *b, const uint64_t *handles, uint32_t count);
/* is lost: it no longer reads anything. */
void fabric_drop(struct frontend_link *l, struct backend *b);

/* ---- frontend_backends.c ---- */

/* The inputs of an awaited request are there: tells the backend that waits for them. */
void frontend_inputs_ready(struct frontend_link *l, struct away *a);
/* A process has connected, presumably a backend. */
void frontend_accepted(void *link, int fd, const char *from);
/* Checks whether backends are alive. Lowers *until_ns to when to call it again. */
void frontend_backends_look(struct frontend_link *l, int64_t now_ns, int64_t *until_ns);
