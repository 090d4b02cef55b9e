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
#define NEXUS_LOOK_NS       NS_PER_S /* time between two looks at the rates */

enum nexus_option {
    NEXUS_FRONTEND_COUNT,
    NEXUS_DROP,
    NEXUS_BATCH,
    NEXUS_EPOCH_S,
    NEXUS_EPOCH_MIN_S,
    NEXUS_PLAN,
    NEXUS_PLACEMENT
};
enum nexus_drop { NEXUS_EARLY, NEXUS_LAZY };
enum nexus_batch { NEXUS_GATHERED, NEXUS_PLANNED };
enum nexus_planner { NEXUS_SQUISHY, NEXUS_OBLIVIOUS };

enum nexus_loaded { NEXUS_NOT_LOADED, NEXUS_LOADS, NEXUS_LOADED }; /* a model on an accelerator */

enum nexus_place_state {
    PLACE_FREE,     /* not in use */
    PLACE_READY,    /* the model is loaded: requests are sent to the place */
    PLACE_WANTED,   /* the model is to be loaded */
    PLACE_LOADING,  /* the model is being loaded */
    PLACE_FAILED,   /* it could not be loaded: it is wanted again from the next plan on */
    PLACE_RETIRING, /* the place is no longer planned; it serves while the model is ready nowhere else */
};

/* A session (model) on an accelerator, with the requests that were sent there. */
struct nexus_place {
    enum nexus_place_state state;
    uint32_t model, accelerator;
    uint32_t next_of_model; /* next place of the model; of a free place: next free place */
    uint32_t next_here;     /* next place of the accelerator, in the order of the cycle */
    uint32_t batch;         /* items of the planned batch */
    double weight;          /* share of the model's requests, relative to the model's other places */
    int64_t since_ns;       /* time at which the place was planned */
    bool counted;           /* the time until the model is loaded counts in nexus.moves */
    bool planned;           /* scratch of the planner */
    struct deadline_queue queue;
};

struct nexus_model {
    struct profile *profiles[CENTRAL_TYPES_MAX]; /* profiles by type; NULL: the model does not run on the type */
    uint32_t batch_max;
    int64_t slo_ns;
    uint64_t weights_bytes;
    uint32_t places;    /* first place of the model, or NONE */
    double rate;        /* items per second, as planned; 0: silent */
    double recent;      /* items per second, weighted over some looks */
    double epoch_items; /* items since the plan was made */
    double look_items;  /* items since the last look */
};

struct nexus_accelerator {
    uint8_t type;
    bool up, due;                              /* in service; in nexus.due, to be looked at in this step or the next */
    uint32_t places;                           /* first place of the cycle, or NONE */
    uint32_t turn;                             /* place with which the cycle goes on, or NONE */
    uint32_t in_flight, head;                  /* batches sent and not ended; index of the first of them */
    uint32_t in_flight_model[NEXUS_IN_FLIGHT]; /* models of these batches, in a circle from head */
    int64_t in_flight_ns[NEXUS_IN_FLIGHT];     /* expected run times of these batches */
    int64_t arrives_ns[NEXUS_IN_FLIGHT];       /* times at which the inputs of these batches arrive */
    int64_t free_ns;                           /* expected end of these batches */
    uint64_t memory_bytes, page_bytes;         /* where memory is limited: bytes for weights; they take whole pages */
    uint64_t bytes_taken;                      /* bytes of weights loaded or loading */
    uint64_t bytes_planned;                    /* scratch of the planner: bytes of weights */
    double occupancy;                          /* scratch of the planner: share of the accelerator's time */
};

struct nexus {
    uint64_t page_bytes[CENTRAL_TYPES_MAX]; /* largest page of the accelerators of each type */
    uint32_t models, accelerators, types, frontends, places_max;
    bool frontends_real; /* a request's frontend is the one that it came through; else it is drawn */
    enum nexus_drop drop;
    enum nexus_batch batch;
    enum nexus_planner plan;
    int64_t epoch_ns, epoch_min_ns, ctrl_ns, data_ns;
    bool limited; /* memory is limited */
    struct request_pool *pool;
    struct nexus_model *model;             /* [models] */
    struct nexus_accelerator *accelerator; /* [accelerators] */
    struct nexus_place *place;             /* [places_max] */
    uint32_t free_place;                   /* first free place, or NONE */
    double *credit;                        /* [frontends * places_max]: of each frontend's weighted round robin */
    uint8_t *loaded;                       /* [accelerators * models], where memory is limited: enum nexus_loaded */
    uint32_t *due;                         /* [accelerators]: accelerators to be looked at, in a circle */
    uint32_t due_head, due_count;
    struct heap wakes; /* accelerators by the time to look at them */
    struct rng rng;    /* draws the frontend that a request comes to, and the place with which a frontend begins */
    struct squishy_fit fit[CENTRAL_TYPES_MAX];
    struct squishy_session *sessions; /* [models]: scratch of the planner */
    bool started, rates_known;
    bool silent;    /* the plan is for models without requests */
    double needed;  /* accelerators that the planned rates need; all in service, while no rate is known */
    double full;    /* accelerators that full batches would keep busy; 0: no plan yet */
    double packing; /* accelerators that packing takes on top of `full`: mean of some plans */
    int64_t planned_ns, looked_ns; /* time of the plan; time of the last look at the rates */
    bool counts;                   /* a request has come: places of later plans count in `moves` */
    struct central_moves moves;
};

static inline struct request_node *nexus_node(const struct nexus *n, uint32_t node) {
    return &n->pool->nodes[node];
}

static inline int64_t nexus_delay_ns(const struct nexus *n, uint32_t items) {
    return n->ctrl_ns + n->data_ns * (int64_t)items;
}

/* What a model's weights take of a memory with such pages. */
static inline uint64_t nexus_weights_bytes(const struct nexus *n, uint32_t model, uint64_t page_bytes) {
    return pages_of(n->model[model].weights_bytes, page_bytes) * page_bytes;
}

static inline const struct profile *nexus_profile(const struct nexus *n, const struct nexus_place *place) {
    return n->model[place->model].profiles[n->accelerator[place->accelerator].type];
}

/* ---- nexus.c ---- */

/* The present step is to handle the accelerator, or the next step, if the present one has too much to do. */
void nexus_due(struct nexus *n, uint32_t accelerator);

/* ---- nexus_plan.c ---- */

/* Counts an arrival and, once a second, looks whether it is time for a new plan. */
void nexus_plan_arrival(struct nexus *n, int64_t now_ns, uint32_t model, uint32_t items, struct central_output *out);
/* Makes a new plan, and moves the requests of places that the plan does not have. */
void nexus_plan_epoch(struct nexus *n, int64_t now_ns, struct central_output *out);
/* Makes a plan without load when requests have stopped coming. */
void nexus_plan_look(struct nexus *n, int64_t now_ns, struct central_output *out);
int64_t nexus_plan_wake_ns(const struct nexus *n);

/* ---- nexus_route.c ---- */

/* Sends a request to one of its model's places, as the round robin of its frontend says. Refuses the request if the
 * model has no place. */
void nexus_route(struct nexus *n, int64_t now_ns, uint32_t model, uint32_t node, struct central_output *out);
/* Adds a place for a model at the end of an accelerator's cycle. */
uint32_t nexus_place_add(struct nexus *n, int64_t now_ns, uint32_t model, uint32_t accelerator);
/* Notes that the model of a place is loaded. */
void nexus_place_ready(struct nexus *n, int64_t now_ns, uint32_t place);
/* Ends a place and sends its requests to other places of the model. */
void nexus_place_end(struct nexus *n, int64_t now_ns, uint32_t place, struct central_output *out);
/* The place of a model at an accelerator, or NONE. */
uint32_t nexus_place_find(const struct nexus *n, uint32_t model, uint32_t accelerator);

/* ---- nexus_dispatch.c ---- */

/* Sends an accelerator what it can take now: loads first, then batches in turn. False: the output is full, and there is
 * more to do. */
bool nexus_dispatch(struct nexus *n, int64_t now_ns, uint32_t accelerator, struct central_output *out);
/* An accelerator has a model; if it `comes`, it will, and the end of a load follows. Before the first plan. */
void nexus_has(struct nexus *n, uint32_t accelerator, uint32_t model, bool comes);
/* An action that was sent to an accelerator is over. */
void nexus_ended(struct nexus *n, int64_t now_ns, const struct central_ended *ended);
/* All batches that another core had sent to an accelerator are over. */
void nexus_freed(struct nexus *n, int64_t now_ns, uint32_t accelerator);
