/* feeder_state.h - what a feeder is made of; for its files only. */
#pragma once

#include "cluster/peer/health.h"
#include "cluster/peer/hello.h"
#include "core/util/heap.h"
#include "core/util/rng.h"
#include "lab/load/arrivals.h"
#include "lab/stress/feeder.h"

#define BATCHES_MOST 3 /* of an accelerator: what the scheduler may have sent to it and not seen end */

/* A frontend or a backend. */
struct feeder_member {
    struct peer peer;
    struct feeder *feeder;
    struct health health;
    enum cluster_role role;
    uint32_t index;  /* among all frontends, or all backends, of the run */
    uint32_t number; /* the scheduler's; 0: not let in yet */
    bool connected;  /* has a connection, which may still be on its way */
    bool joined;     /* a frontend: all models are served; a backend: has told all */
    /* of a frontend */
    struct feeder_slots slots;
    uint32_t *place; /* [model_count] the scheduler's number of each model, or PLACE_NONE */
    uint32_t served; /* how many of them have one */
    /* of a backend */
    uint32_t first; /* its first accelerator among the feeder's */
};

#define PLACE_NONE UINT32_MAX

struct feeder_batch {
    int64_t end_ns;
    struct ran_message ran;
    bool ran_not; /* it came too late */
};

struct feeder_accelerator {
    uint32_t count;
    int64_t free_ns; /* when all have ended */
    struct feeder_batch batches[BATCHES_MOST];
};

struct feeder {
    struct feeder_world *world;
    uint32_t index;
    struct link_loop loop;
    struct doorbell bell;
    bool looped;                                /* `loop` and `bell` are made */
    struct feeder_member *frontends, *backends; /* [frontend_count], [backend_count] */
    uint32_t frontend_count, backend_count;
    uint32_t begun, welcomed; /* of all: connections begun, members let in */
    uint32_t joined_count;
    int64_t look_ns; /* when to look after the members' health next */
    /* feeding */
    struct arrivals arrivals;
    struct arrival next; /* the request that is due next */
    struct rng rng;
    uint32_t turn; /* the frontend that feeds next */
    int64_t feed_ns, feed_every_ns;
    uint64_t outstanding_max; /* of the closed loop */
    bool fed_before;
    /* accelerators */
    struct feeder_accelerator *accelerators; /* [backend_count * config->accelerators] */
    struct heap ends;                        /* those that run, by the end of their first batch */
    struct heap_entry *end_entries;
    uint32_t *end_positions;
    bool *done_rung; /* [feeders] */
    char wrong[256];
    struct feeder_counts counts;
    _Atomic bool joined, feeds, fed_all, failed, over;
};

/* ---- feeder.c ---- */

/* The first thing that was wrong; the run ends. */
void __attribute__((format(printf, 2, 3))) feeder_wrong(struct feeder *f, const char *format, ...);
/* One more member has all that it needs. */
void feeder_member_joined(struct feeder_member *m);

/* ---- feeder_frontend.c ---- */

int feeder_frontend_make(struct feeder_member *m);
void feeder_frontend_free(struct feeder_member *m);
/* What the scheduler sends to a frontend. */
int feeder_frontend_frame(struct feeder_member *m, const struct frame *frame, const void *head, struct sy_error *err);
/* One hand-over, if it is due. */
void feeder_feed_due(struct feeder *f, int64_t now_ns);
/* Takes what other feeders' backends have done. */
void feeder_take_done(struct feeder *f);
/* A request has come back, of any feeder's. */
void feeder_request_back(struct feeder *f, uint64_t handle);
/* When it has to be done; INT64_MIN: there is no such request. */
int64_t feeder_request_deadline(const struct feeder *f, uint64_t handle);

/* ---- feeder_backend.c ---- */

/* Tells of models and accelerators. */
void feeder_backend_introduce(struct feeder_member *m);
/* What the scheduler sends to a backend. */
int feeder_backend_frame(struct feeder_member *m, const struct frame *frame, const void *head, struct sy_error *err);
/* Tells of batches that have ended. True: there may be more. */
bool feeder_end_batches(struct feeder *f, int64_t now_ns);
