/* frontend_link_state.h - what a frontend's link is made of; for its files only. */
#pragma once

#include "cluster/fabric.h"
#include "cluster/frontend_link.h"
#include "cluster/lost.h"
#include "cluster/uplink.h"
#include "engine/engine.h"

/* A request that the port handed over and that has not come back to it. */
struct away {
    struct request_message message; /* as it came; handle 0: there is none */
    uint32_t remote;                /* the scheduler's number of its model, as it was sent */
    uint32_t sent;                  /* uplink.times when it was sent to a scheduler; 0: it waits here */
    bool again;                     /* it has been sent before, to a scheduler that is gone */
    uint32_t taker;                 /* the backend that has pulled it, by its place; NO_TAKER */
    uint32_t readers;               /* of its inputs: pieces that are being sent, and who reads them by libfabric: */
    uint32_t reader;                /* a backend, by its place; NO_TAKER */
    bool over;                      /* its end waits in `last` for them */
    bool cancelled;
    bool refused; /* by the scheduler: a refusal, no result */
    struct wire_outcome last;
    struct output_block *block; /* of `last` */
};
#define NO_TAKER UINT32_MAX

/* A backend that is connected, or who may become one. */
struct backend {
    struct peer peer;
    struct health health;
    struct hello hello;
    bool known;   /* it has introduced itself */
    bool refused; /* it has not, and was told so */
    bool local;   /* it has come by the Unix socket */
    uint32_t place;
    int64_t since_ns;
    /* requests that it has asked for, and that wait until its socket takes more: a ring */
    uint64_t *asked; /* [asked_room] */
    uint32_t asked_first, asked_count, asked_room;
    /* of one that may read by libfabric */
    uint64_t secret[2];
    bool secret_told;          /* and nobody has shown it yet */
    bool fabric_down;          /* the connection is lost */
    struct fabric_end *fabric; /* NULL: no connection */
    /* the result whose body is under way */
    struct wire_result result;
    struct received_block *block;
};

struct frontend_link {
    struct frontend_link_config config;
    struct wiring *wiring;
    struct link_loop loop;
    struct uplink uplink;
    struct away *away;         /* [frontends * port_requests] */
    uint32_t held;             /* of them wait here */
    uint32_t number;           /* ours, by the last scheduler; 0: none yet */
    uint32_t *remote_of_local; /* [models_max] the scheduler's number; NO_MODEL: it serves none such now */
    int64_t *forget_ns; /* [models_max] of one that was served and now is not: until when it is kept; else TIME_NEVER */
    bool *served;       /* [models_max] by the scheduler, as far as it has told */
    bool *told;         /* [models_max] since the uplink came up */
    struct backend **backends; /* by place */
    uint32_t backend_room, backend_count;
    int64_t sweep_ns, look_ns;
    uint32_t results_rung; /* requests that came back in this turn */
    uint64_t lost[LOST_REASONS], again;
    struct link_report report;
    struct fabric *fabric; /* NULL: none */
    bool fabric_due;       /* it is to be looked at */
    struct sockaddr_storage fabric_address;
    struct fabric_region fabric_regions[WIRE_REGIONS_MAX]; /* as the wiring's */
    void *fabric_maps[WIRE_REGIONS_MAX];                   /* their memory as libfabric has it */
};

/* ---- frontend_link.c: requests that are away ---- */

/* How many may be: entries of `away`. */
static inline size_t away_count(const struct frontend_link *l) {
    return (size_t)l->wiring->frontends * l->wiring->port_requests;
}

/* A port's handle as others know it. */
uint64_t away_handle(const struct frontend_link *l, uint64_t handle);
/* The request of a handle as others know it, if it is away; else NULL. */
struct away *away_find(const struct frontend_link *l, uint64_t handle);
/* The frontend's thread whose it is. */
uint32_t away_lane(const struct away *a);
/* Whether the scheduler is up and serves its model; then sends it. */
bool away_can_send(const struct frontend_link *l, const struct away *a);
void away_send(struct frontend_link *l, struct away *a);
/* It waits here again, to be sent to the scheduler that comes: nobody that lives would tell of it. */
void away_hold(struct frontend_link *l, struct away *a);
/* Tells the scheduler of it: enum request_message_kind. */
void away_tell(struct frontend_link *l, const struct away *a, uint8_t kind);
/* Its end, the first of which counts: its port learns of it once nobody reads its inputs any more. */
void away_over(struct frontend_link *l, struct away *a, const struct wire_outcome *last, struct output_block *block,
               bool refused);
/* It is over, and nobody reads its inputs any more. */
void away_give_back(struct frontend_link *l, struct away *a);

/* One who read its inputs does not any more. */
void away_unread(struct frontend_link *l, struct away *a);
/* Sends a backend a request's card and inputs, or that there are none, behind what it has asked for before. */
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
/* is lost: it reads nothing any more. */
void fabric_drop(struct frontend_link *l, struct backend *b);

/* ---- frontend_backends.c ---- */

/* Somebody connected: a backend, it should turn out. */
void frontend_accepted(void *link, int fd, const char *from);
/* Looks whether they live. Lowers *until_ns to when to look again. */
void frontend_backends_look(struct frontend_link *l, int64_t now_ns, int64_t *until_ns);
