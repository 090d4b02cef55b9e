/* nexus_state.h - what the parts of the policy `nexus` share: plans, places, accelerators.
 *
 * nexus.c takes events and passes them on; nexus_plan.c plans, epoch by epoch; nexus_route.c is the frontends;
 * nexus_dispatch.c is the accelerators' round robin. nexus.c's step calls them all, on its thread. */
#pragma once

#include "core/util/heap.h"
#include "core/util/rng.h"
#include "sched/core/central.h"
#include "sched/core/deadline_queue.h"
#include "sched/plan/squishy_fit.h"

#define NEXUS_NONE          UINT32_MAX
#define NEXUS_IN_FLIGHT     2 /* batches at an accelerator: one running, one whose inputs travel */
#define NEXUS_FRONTENDS_MAX 64
#define NEXUS_LOOK_NS       NS_PER_S /* between two looks at the rates */

enum nexus_option { NEXUS_FRONTEND_COUNT, NEXUS_DROP, NEXUS_EPOCH_S, NEXUS_EPOCH_MIN_S, NEXUS_PLAN, NEXUS_PLACEMENT };
enum nexus_drop { NEXUS_EARLY, NEXUS_LAZY };
enum nexus_planner { NEXUS_SQUISHY, NEXUS_OBLIVIOUS };

enum nexus_loaded { NEXUS_NOT_LOADED, NEXUS_LOADS, NEXUS_LOADED }; /* a model on an accelerator */

enum nexus_place_state {
    PLACE_FREE,     /* not in use */
    PLACE_READY,    /* its model is loaded: requests are sent there */
    PLACE_WANTED,   /* to be loaded */
    PLACE_LOADING,  /* being loaded */
    PLACE_RETIRING, /* no longer planned; it serves while its model is ready nowhere else */
};

/* A session (model) on an accelerator, with the requests that were sent there. */
struct nexus_place {
    enum nexus_place_state state;
    uint32_t model, accelerator;
    uint32_t next_of_model; /* of the model's places, or of the free ones */
    uint32_t next_here;     /* of the accelerator's places, in the order of the cycle */
    uint32_t batch;         /* planned */
    double weight;          /* its share of the model's requests, relative to the model's other places */
    int64_t since_ns;       /* when it was planned */
    bool counted;           /* as a move */
    bool planned;           /* scratch of the planner */
    struct deadline_queue queue;
};

struct nexus_model {
    struct profile *profiles[ACCELERATOR_TYPES_MAX]; /* NULL: it does not run on that type */
    uint32_t batch_max;
    int64_t slo_ns;
    uint64_t weights_bytes;
    int64_t load_ns;
    uint32_t places;    /* first, or NONE */
    double rate;        /* items per second, as planned; 0: silent */
    double recent;      /* items per second, weighted over some looks */
    double epoch_items; /* since the plan */
    double look_items;  /* since the last look */
};

struct nexus_accelerator {
    uint8_t type;
    bool up, due;    /* due: it waits to be looked at in this step or the next */
    uint32_t places; /* first of its cycle, or NONE */
    uint32_t turn;   /* where the cycle goes on, or NONE */
    uint32_t in_flight, head;
    uint32_t in_flight_model[NEXUS_IN_FLIGHT]; /* in a circle from head */
    int64_t in_flight_ns[NEXUS_IN_FLIGHT];     /* how long they should run */
    int64_t arrives_ns[NEXUS_IN_FLIGHT];       /* when their inputs are there */
    int64_t free_ns;                           /* when all that was sent should be over */
    uint64_t bytes_taken;                      /* weights loaded or loading */
    uint64_t bytes_planned;                    /* scratch of the planner: weights */
    double occupancy;                          /* the same: share of its time */
};

struct nexus {
    uint32_t models, accelerators, types, frontends, places_max;
    enum nexus_drop drop;
    enum nexus_planner plan;
    int64_t epoch_ns, epoch_min_ns, ctrl_ns, data_ns;
    uint64_t memory_bytes;
    struct request_pool *pool;
    struct nexus_model *model;             /* [models] */
    struct nexus_accelerator *accelerator; /* [accelerators] */
    struct nexus_place *place;             /* [places_max] */
    uint32_t free_place;
    double *credit;  /* [frontends * places_max]: of each frontend's weighted round robin */
    uint8_t *loaded; /* [accelerators * models], where memory is limited: enum nexus_loaded */
    uint32_t *due;   /* [accelerators]: those to be looked at, in a circle */
    uint32_t due_head, due_count;
    struct heap wakes; /* accelerators by when to look at them */
    struct rng rng;    /* which frontend a request comes to; where frontends begin */
    struct squishy_fit fit[ACCELERATOR_TYPES_MAX];
    struct squishy_session *sessions; /* [models]: scratch of the planner */
    bool started, rates_known;
    bool silent;    /* the plan is for no requests at all */
    double needed;  /* accelerators that the planned rates need; all that are up, while no rate is known */
    double full;    /* accelerators that full batches would keep busy; 0: no plan yet */
    double packing; /* accelerators that packing takes on top of `full`: the mean of some plans */
    int64_t planned_ns, looked_ns; /* when the plan was made; when the rates were looked at */
    bool counts;                   /* a request has come: what is planned from now on counts as moved or kept */
    struct central_moves moves;
};

static inline struct request_node *nexus_node(const struct nexus *n, uint32_t node) {
    return &n->pool->nodes[node];
}

static inline int64_t nexus_delay_ns(const struct nexus *n, uint32_t items) {
    return n->ctrl_ns + n->data_ns * (int64_t)items;
}

static inline const struct profile *nexus_profile(const struct nexus *n, const struct nexus_place *place) {
    return n->model[place->model].profiles[n->accelerator[place->accelerator].type];
}

/* ---- nexus.c ---- */

/* Makes this step handle the accelerator before it ends; if there is too much to do, the next step does. */
void nexus_due(struct nexus *n, uint32_t accelerator);

/* ---- nexus_plan.c ---- */

/* Counts an arrival and, once a second, looks whether it is time for a new plan. */
void nexus_plan_arrival(struct nexus *n, int64_t now_ns, uint32_t model, uint32_t items, struct central_output *out);
/* Makes a new plan, and moves the requests of places that are not in it. */
void nexus_plan_epoch(struct nexus *n, int64_t now_ns, struct central_output *out);
/* Makes a plan without load when requests have stopped coming. */
void nexus_plan_look(struct nexus *n, int64_t now_ns, struct central_output *out);
int64_t nexus_plan_wake_ns(const struct nexus *n);

/* ---- nexus_route.c ---- */

/* Sends a request to one of its model's places, by the frontend that it came to; refuses it if there is none. */
void nexus_route(struct nexus *n, int64_t now_ns, uint32_t model, uint32_t node, struct central_output *out);
/* Adds a place for a model at the end of an accelerator's cycle. */
uint32_t nexus_place_add(struct nexus *n, int64_t now_ns, uint32_t model, uint32_t accelerator);
/* Notes that the model of a place is loaded. */
void nexus_place_ready(struct nexus *n, int64_t now_ns, uint32_t place);
/* Ends a place; its requests are sent elsewhere. */
void nexus_place_end(struct nexus *n, int64_t now_ns, uint32_t place, struct central_output *out);
/* The place of a model at an accelerator, or NONE. */
uint32_t nexus_place_find(const struct nexus *n, uint32_t model, uint32_t accelerator);

/* ---- nexus_dispatch.c ---- */

/* Sends an accelerator what it can take now: loads first, then batches in turn. False: the output is full, and there is
 * more to do. */
bool nexus_dispatch(struct nexus *n, int64_t now_ns, uint32_t accelerator, struct central_output *out);
/* Something that was sent to an accelerator is over. */
void nexus_ended(struct nexus *n, int64_t now_ns, const struct central_ended *ended);
/* All that another core had sent to an accelerator is over. */
void nexus_freed(struct nexus *n, int64_t now_ns, uint32_t accelerator);
