/* messages.h - everything that threads say to each other about requests, batches and accelerators, by direction.
 *
 * Plain structs, copied through bounded rings (base/ring.h). Times are int64 nanoseconds of one clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/container.h"
#include "base/time.h"

#define ACCELERATOR_TYPES_MAX 8 /* types of accelerator in one sub-cluster */

/* How much the share of one model may weigh in an overloaded sub-cluster, against the others'. */
#define MODEL_WEIGHT_LEAST 0.001
#define MODEL_WEIGHT_MOST  1000.0

/* Requests of one model are batched by priority, then by deadline. 0 is the highest. */
#define PRIORITIES_MAX 32

/* No SLO: such requests run when nothing else wants an accelerator, and for so long that whoever comes meanwhile is
 * not late for it. Their deadline is how long they wait for that. */
#define PRIORITY_BEST_EFFORT 255
#define BEST_EFFORT_WAIT_NS  (60 * NS_PER_S) /* unless they say otherwise */
#define BEST_EFFORT_MAX      1024            /* of a model, that wait */

/* For how long a request waits for company that is not to wait at all: 0 says nothing. */
#define WAIT_NONE_NS 1

/* Input shapes of one model that may be queued at once; more are refused: REFUSAL_SHAPES. */
#define VARIANTS_MAX 32

/* Why a request left the scheduler without a batch. */
enum refusal {
    REFUSAL_NONE,
    REFUSAL_DEADLINE,   /* it can no longer finish by its deadline */
    REFUSAL_QUEUE_FULL, /* as many of its model and priority wait as the model's configuration lets (queue_levels) */
    REFUSAL_BEST_EFFORT_FULL, /* as much best effort of its model waits as may: BEST_EFFORT_MAX */
    REFUSAL_POOL_FULL,        /* its scheduling thread holds as many requests as it may (--queue-max) */
    REFUSAL_THREAD_BUSY,      /* its model thread has no time left, and it had waited for it for much of its own */
    REFUSAL_PLANS_FULL,       /* a central policy sent its accelerator more than it holds: WIRING_PLANS_CENTRAL */
    REFUSAL_SHAPES,           /* too many different input shapes of the model are queued at once */
    REFUSAL_CANCELLED,        /* its client left */
    REFUSAL_STRANDED,         /* no accelerator in service runs the model, and none came back in time */
    REFUSAL_LOST,             /* its accelerator failed, and there is no time to run it on another (request/port.c) */
    REFUSAL_COUNT,
};

/* ---- frontend -> model thread ---- */

enum request_message_kind { REQUEST_ARRIVED, REQUEST_CANCELLED };

struct request_message {
    uint64_t handle;     /* the frontend's name for it; unique while the scheduler has it */
    int64_t arrival_ns;  /* when its first byte was read */
    int64_t deadline_ns; /* client's deadline less the reply margin; a cancellation repeats it */
    uint64_t shape_key;  /* requests with different keys never share a batch; 0 for models of one shape */
    float work;          /* cost of an item against the profiled one; 1 for models of one shape */
    uint32_t model;
    uint32_t items;
    uint16_t port; /* the frontend's number, which it goes back to */
    uint8_t kind;  /* enum request_message_kind */
    uint8_t priority;
};

/* ---- model thread -> frontend ---- */

struct refusal_message {
    uint64_t handle;
    enum refusal reason;
};

/* ---- model thread -> rank thread ---- */

/* How many of the accelerators of a type are free: what may start at once if many are, may have to wait for company if
 * they are scarce. */
#define SUPPLY_LEVELS 3
#define SUPPLY_SCARCE 0 /* one, or an eighth of them at most */
#define SUPPLY_AMPLE  2 /* half of them */

/* The level of `free` accelerators, at least one, out of `up` in service. */
static inline uint32_t supply_level(uint32_t free, uint32_t up) {
    return free <= 1 || 8 * free <= up ? SUPPLY_SCARCE : 2 * free < up ? SUPPLY_SCARCE + 1 : SUPPLY_AMPLE;
}

/* The part of `up` accelerators that a policy may take to be free at a level: the least, and between scarce and ample
 * the middle of the two, by their ratio. */
static inline double supply_share(uint32_t level, double up) {
    return level == SUPPLY_SCARCE ? 1 / up : level == SUPPLY_AMPLE ? 0.5 : 0.25;
}

/* A model's next batch on accelerators of one type. */
struct candidate {
    int64_t start_ns[SUPPLY_LEVELS]; /* from then on it may start; TIME_NEVER at all levels: there is no candidate */
    int64_t order_ns;                /* of those that may start, the least is served first */
    int64_t invalid_after_ns;        /* latest start */
    int64_t
        leftover_invalid_after_ns; /* latest start of a batch of leftovers; TIME_NEVER: none. From SPARE_NS on: there
                                    * are none, but best effort whose first batch runs for what is over SPARE_NS */
};
#define SPARE_NS (TIME_NEVER / 2)

/* Nothing to run. */
static inline struct candidate candidate_none(void) {
    return (struct candidate){
        .start_ns = {TIME_NEVER, TIME_NEVER, TIME_NEVER},
        .invalid_after_ns = TIME_NEVER,
        .leftover_invalid_after_ns = TIME_NEVER,
    };
}

static inline bool candidate_leftovers(const struct candidate *candidate) {
    return candidate->leftover_invalid_after_ns < SPARE_NS;
}

static inline bool candidate_spare(const struct candidate *candidate) {
    return !candidate_leftovers(candidate) && candidate->leftover_invalid_after_ns != TIME_NEVER;
}

/* Whether there is a batch to start, now or later. */
static inline bool candidate_any(const struct candidate *candidate) {
    return candidate->start_ns[SUPPLY_SCARCE] != TIME_NEVER;
}

/* What the rank core needs of a model for the sub-cluster's parameters; as of `at_ns`. */
struct model_rates {
    int64_t at_ns;
    double rate;              /* items per second, weighted over 2 s */
    double rate_fast;         /* over 0.1 s */
    double arrivals_fast;     /* arrivals weighted over 0.1 s: how much rate_fast is worth */
    double dropped_rate;      /* refused over offered, weighted over 2000 requests, or those there were */
    double bad_rate;          /* refused or late over offered, likewise */
    double slo_ns;            /* mean time between arrival and deadline */
    double weight;            /* of its share of an overloaded sub-cluster, against the other models' */
    double batch_best;        /* b* */
    double alpha_ns, beta_ns; /* of the model on the sub-cluster's accelerators */
    double thread_busy;       /* share of its time in which the model's thread has something to do; 0 in virtual time */
    uint32_t runs_on;         /* a bit for each type of accelerator on which it does; 0: on all */
};

enum rank_message_kind {
    RANK_CANDIDATE,
    RANK_ANSWER,
    RANK_RATES,
    RANK_FREE,  /* from an executor */
    RANK_LEAVE, /* the model goes to another sub-cluster; until GRANT_LEFT it only answers grants */
    RANK_JOIN,  /* the model comes from one, with no grant outstanding, and brings its candidate */
};

struct rank_message {
    enum rank_message_kind kind;
    uint32_t model;
    uint32_t accelerator; /* ANSWER, FREE */
    int64_t origin_ns;    /* CANDIDATE, ANSWER, JOIN: when what it follows from was handed over */
    uint32_t items;       /* ANSWER: items of the batch; 0: the accelerator was not used and is given back */
    int64_t sealed_ns;    /* ANSWER: when it was decided */
    int64_t free_ns;      /* ANSWER: when the batch will have ended by the tables; FREE: when it has */
    int64_t run_ns;       /* ANSWER: for how much of that it occupies the accelerator */
    bool unlike;          /* FREE: how long that took says nothing of the model */
    uint32_t types;       /* CANDIDATE, ANSWER (the next one), JOIN: how many of candidates[] count */
    union {
        struct model_rates rates;                           /* RATES */
        struct candidate candidates[ACCELERATOR_TYPES_MAX]; /* by type; rings have room for those there are */
    };
};

/* ---- rank thread -> model thread ---- */

/* What the policy derives from all models of the sub-cluster, every 10 ms while requests come. Where models run on some
 * types only, the first five and `busy` are of those that have their load in common (load_classes.h). */
struct cluster_parameters {
    double gamma;                            /* share of b* that the window drop aims at */
    double theta;                            /* share of b* from which a batch need not wait */
    double loss;                             /* share of the requests that is dropped */
    double rounds;                           /* harmonic mean over the models by load (deferred.c) */
    double tau_ns;                           /* mean time between batches; longer where models outnumber accelerators */
    double accelerators;                     /* in service */
    double busy;                             /* part of their time that batches take, over 2 s */
    double hop_ns;                           /* from when a grant is due to its answer, in the mean */
    double thread_busy;                      /* the greatest share of a model thread's time that is used up */
    float type_share[ACCELERATOR_TYPES_MAX]; /* of the accelerators in service, by type */
};

/* What holds before the first are derived. */
static inline struct cluster_parameters cluster_parameters_none(void) {
    return (struct cluster_parameters){.gamma = 1, .rounds = 1};
}

enum grant_message_kind {
    GRANT_ACCELERATOR,
    GRANT_PARAMETERS,
    GRANT_LEFT, /* the model that asked to leave has: nothing more comes for it */
};

struct grant_message {
    enum grant_message_kind kind;
    uint32_t model;
    uint32_t accelerator, type;
    uint32_t supply;    /* ACCELERATOR: the level at which it was granted */
    bool leftovers;     /* run leftovers: nothing better is ready */
    bool spare;         /* run best effort: nobody else wants the accelerator */
    int64_t run_ns;     /* ACCELERATOR, spare: for so long at most */
    int64_t granted_ns; /* ACCELERATOR: when it was */
    int64_t due_ns;     /* ACCELERATOR: when it could have been, had the candidate been known and looked at at once */
    int64_t free_ns;    /* ACCELERATOR: when it is expected to be free; INT64_MIN: it is */
    double admit_share; /* PARAMETERS: share of this model's arrivals to admit; 1: all. One message a model then */
    struct cluster_parameters parameters;
};

/* ---- model thread -> executor ---- */

/* A sealed batch, copied whole into the ring, whose slots are cache lines: the handles follow the struct. */
struct batch_plan {
    uint32_t accelerator;
    uint32_t model;        /* the model thread's index: a variant of a served model */
    uint32_t generation;   /* of the variant, which may be given to another shape later */
    uint32_t served_model; /* which loaded model runs it */
    uint32_t request_count, items;
    int64_t sealed_ns;              /* when the scheduling thread decided */
    int64_t earliest_ns, latest_ns; /* of its start: not run before, and not at all after */
    uint64_t tag;                   /* comes back in ran_message */
    uint64_t handles[];             /* [request_count] */
};

/* Bytes of a plan, and the slots of the ring that it takes. */
static inline size_t batch_plan_bytes(uint32_t requests) {
    return sizeof(struct batch_plan) + requests * sizeof(uint64_t);
}

static inline uint32_t batch_plan_slots(uint32_t requests) {
    return (uint32_t)((batch_plan_bytes(requests) + CACHE_LINE - 1) / CACHE_LINE);
}

/* ---- executor -> model thread ---- */

/* What an executor has to say of an accelerator. */
enum accelerator_news {
    NEWS_ENDED,  /* a batch has, whether it ran, failed, or was lost */
    NEWS_LEAVES, /* no more batches for it; those that are sealed end or are lost, and are reported */
    NEWS_JOINS,  /* it takes batches again; what was lost has been reported */
};

struct ran_message {
    enum accelerator_news news; /* other than ENDED: to the central thread only, and of `accelerator` */
    uint32_t model, generation, type, items, accelerator;
    uint32_t late;       /* requests whose deadline had passed when it ended, or was not run for that */
    uint64_t tag;        /* of the plan */
    int64_t run_ns;      /* measured, without gathering and scattering; 0: the batch was not run, or not as one */
    int64_t dispatch_ns; /* from sealed to the executor having it; -1: not measured, or another batch ran then */
    int64_t gather_ns;   /* fetching and gathering the inputs of all items; 0: not measured */
};

/* ---- executor -> rank thread ---- */

struct freed_message {
    enum accelerator_news news;
    bool unlike; /* ENDED: it did not run as batches of its model do: too late, it failed, or its requests ran apart */
    uint32_t accelerator;
    int64_t ended_ns; /* ENDED */
};

/* ---- who started the threads -> model thread ---- */

enum model_move_kind {
    MODEL_MOVES, /* a variant goes to another sub-cluster */
    MODEL_COMES, /* a served model is there from now on, with all its variants */
    MODEL_GOES,  /* a served model that has nothing queued or sealed, and gets nothing any more, is not */
};

struct model_move {
    enum model_move_kind kind;
    uint32_t model;            /* MOVES: the rank core's index; else the served model */
    uint32_t part;             /* MOVES, COMES: the sub-cluster that it is to belong to */
    struct model_cores *cores; /* COMES: from model_thread_prepare(); the caller's again when it has gone */
};

/* ---- who started the threads -> executor ---- */

enum accelerator_order {
    ACCELERATOR_JOIN,  /* take batches again */
    ACCELERATOR_DRAIN, /* end what is sealed, and take no more */
    ACCELERATOR_FAIL,  /* lose what it has, and what is still sent to it */
    EXECUTOR_MODEL,    /* of all its accelerators: this is what runs a served model from now on */
};

struct engine_model;

/* A model as an executor has it. */
struct executor_model {
    struct engine_model *model; /* NULL: not loaded */
    bool warmed;                /* a trial run has worked, so one that fails says something */
};

struct accelerator_command {
    uint32_t accelerator;
    enum accelerator_order order;
    uint32_t served_model; /* MODEL, and: */
    struct executor_model model;
};

/* ---- executor -> frontend ---- */

struct done_message {
    uint64_t handle; /* results lie in the request (link/request.h) */
};
