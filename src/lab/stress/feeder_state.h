/* feeder_state.h - the parts of a feeder; for the files feeder*.c only. */
#pragma once

#include "cluster/peer/health.h"
#include "cluster/peer/hello.h"
#include "core/util/heap.h"
#include "core/util/rng.h"
#include "lab/load/arrivals.h"
#include "lab/stress/feeder.h"

#define BATCHES_MOST 3 /* batches that the scheduler may have sent to an accelerator and not seen end */

/* A frontend or a backend. */
struct feeder_member {
    struct peer peer;
    struct feeder *feeder;
    struct health health;
    enum cluster_role role;
    uint32_t index;  /* index among all frontends, or all backends, of the run */
    uint32_t number; /* number that the scheduler gave the member; 0: not let in yet */
    bool connected;  /* whether the member has a connection, which may not be complete yet */
    bool joined;     /* whether a frontend serves all models; whether a backend has told all */
    /* fields of a frontend */
    struct feeder_slots slots;
    uint32_t *place; /* [model_count] number that the scheduler gave the model; PLACE_NONE: none yet */
    uint32_t served; /* number of models that have a place */
    /* fields of a backend */
    uint32_t first; /* index of the backend's first accelerator among the feeder's */
};

#define PLACE_NONE UINT32_MAX

struct feeder_batch {
    int64_t end_ns;
    struct ran_message ran;
    bool ran_not; /* whether the batch came too late to be run */
};

struct feeder_accelerator {
    uint32_t count;
    int64_t free_ns; /* time at which all batches will have ended */
    struct feeder_batch batches[BATCHES_MOST];
};

struct feeder {
    struct feeder_world *world;
    uint32_t index;
    struct link_loop loop;
    struct doorbell bell;
    bool looped;                                /* whether `loop` and `bell` are made */
    struct feeder_member *frontends, *backends; /* [frontend_count], [backend_count] */
    uint32_t frontend_count, backend_count;
    uint32_t begun, welcomed; /* numbers of members whose connections were begun, and of members let in */
    uint32_t joined_count;
    int64_t look_ns; /* time of the next look at the members' health */
    /* feeding */
    struct arrivals arrivals;
    struct arrival next; /* request that is due next */
    struct rng rng;
    uint32_t turn; /* index of the frontend that feeds next */
    int64_t feed_ns, feed_every_ns;
    uint64_t outstanding_max; /* most requests outstanding, in a closed loop */
    bool fed_before;
    /* accelerators */
    struct feeder_accelerator *accelerators; /* [backend_count * config->accelerators] */
    struct heap ends;                        /* accelerators that run, by the end of their first batch */
    struct heap_entry *end_entries;
    uint32_t *end_positions;
    bool *done_rung; /* [feeders] */
    char wrong[256];
    struct feeder_counts counts;
    _Atomic bool joined, feeds, fed_all, failed, over;
};

/* ---- feeder.c ---- */

/* Notes the first mistake; the run ends. */
void __attribute__((format(printf, 2, 3))) feeder_wrong(struct feeder *f, const char *format, ...);
/* Counts a member that has all that it needs. */
void feeder_member_joined(struct feeder_member *m);

/* ---- feeder_frontend.c ---- */

int feeder_frontend_make(struct feeder_member *m);
void feeder_frontend_free(struct feeder_member *m);
/* Takes a frame that the scheduler sends to a frontend. */
int feeder_frontend_frame(struct feeder_member *m, const struct frame *frame, const void *head, struct sy_error *err);
/* Sends requests, if a hand-over is due. */
void feeder_feed_due(struct feeder *f, int64_t now_ns);
/* Takes the requests that have come back to other feeders' backends. */
void feeder_take_done(struct feeder *f);
/* A request of any feeder has come back. */
void feeder_request_back(struct feeder *f, uint64_t handle);
/* The deadline of a request; INT64_MIN: there is no such request. */
int64_t feeder_request_deadline(const struct feeder *f, uint64_t handle);

/* ---- feeder_backend.c ---- */

/* Tells the scheduler of the backend's models and accelerators. */
void feeder_backend_introduce(struct feeder_member *m);
/* Takes a frame that the scheduler sends to a backend. */
int feeder_backend_frame(struct feeder_member *m, const struct frame *frame, const void *head, struct sy_error *err);
/* Tells the scheduler of batches that have ended. True: there may be more of them. */
bool feeder_end_batches(struct feeder *f, int64_t now_ns);
