/* messages.h - everything that threads say to each other about requests, batches and accelerators, by direction.
 *
 * Plain structs, copied through bounded rings (core/util/ring.h). Times are int64 nanoseconds of one clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/container.h"
#include "core/util/time.h"

#define ACCELERATOR_TYPES_MAX 8 /* types of accelerator in one sub-cluster */

/* How much the share of one model may weigh in an overloaded sub-cluster, against the others'. */
#define MODEL_WEIGHT_LEAST 0.001
#define MODEL_WEIGHT_MOST  1000.0

/* Requests of one model are batched by priority, then by deadline. 0 is the highest. */
#define PRIORITIES_MAX 32

/* No SLO: such requests run when nothing else wants an accelerator, in batches so short that requests which arrive
 * meanwhile are still in time. Their deadline says until when they wait for that. */
#define PRIORITY_BEST_EFFORT 255
#define BEST_EFFORT_WAIT_NS  (60 * NS_PER_S) /* unless they say otherwise */
#define BEST_EFFORT_MAX      1024            /* that may wait, of one model */

/* The longest wait for further requests of a batch, for a model whose requests must not wait for any; 0 would mean that
 * it is not configured. */
#define WAIT_NONE_NS 1

/* Input shapes of one model that have a queue each at once; requests of further shapes wait for one
 * (sched/core/shape_queue.h). */
#define VARIANTS_MAX 32

/* Why a request left the scheduler without a batch. */
enum refusal {
    REFUSAL_NONE,
    REFUSAL_DEADLINE,   /* it can no longer finish by its deadline */
    REFUSAL_QUEUE_FULL, /* as many requests of its model and priority wait as the configuration allows (queue_levels) */
    REFUSAL_BEST_EFFORT_FULL, /* BEST_EFFORT_MAX requests of its model wait as best effort */
    REFUSAL_POOL_FULL,        /* its scheduling thread holds as many requests as it may (--queue-max) */
    REFUSAL_THREAD_BUSY, /* its model thread has no time left, and the request had waited for it for much of its own
                            time */
    REFUSAL_PLANS_FULL,  /* a central policy sent its accelerator more plans than it holds (WIRING_PLANS_CENTRAL) */
    REFUSAL_CANCELLED,   /* its client left */
    REFUSAL_STRANDED,    /* no accelerator in service runs the model, and none came back in time */
    REFUSAL_LOST,        /* its accelerator failed, and there is no time to run it on another (port.c) */
    REFUSAL_UNPREPARED,  /* its inputs were not prepared in time (port.c) */
    REFUSAL_UNSCHEDULED, /* a frontend of a cluster had no scheduler until its deadline (frontend_link.c) */
    REFUSAL_COUNT,
};

/* ---- frontend -> model thread ---- */

enum request_message_kind {
    REQUEST_ARRIVED,
    REQUEST_CANCELLED,
    REQUEST_READY, /* its inputs are there earlier than was promised. A hint: it may be left out */
};

struct request_message {
    uint64_t handle;     /* the frontend's name for it; unique while the scheduler has it */
    int64_t arrival_ns;  /* when its first byte was read */
    int64_t deadline_ns; /* client's deadline less the reply margin; a cancellation repeats it */
    uint64_t shape_key;  /* requests with different keys never share a batch; 0: the model has one shape */
    float work;          /* cost of an item against the profiled one; 1 for models of one shape */
    uint32_t model;
    uint32_t items;
    uint16_t port; /* the frontend's number, which it goes back to */
    uint8_t kind;  /* enum request_message_kind */
    uint8_t priority;
    int64_t ready_ns;    /* ARRIVED: the promised time when its inputs are there; 0: they are there */
    uint16_t batch_most; /* ARRIVED: items that batches with it should have at most; 0: any */
    bool doubtful;       /* ARRIVED: it may be why backends that had it were lost. A frontend of a cluster has one such
                            request at a time in the scheduler */
};

/* ---- model thread -> frontend ---- */

struct refusal_message {
    uint64_t handle;
    uint32_t served_model;
    uint32_t reason; /* enum refusal */
};

/* ---- model thread -> rank thread ---- */

/* Levels of how many accelerators of a type are free. A batch that may start at once while many are free may have to
 * wait for further requests while few are. */
#define SUPPLY_LEVELS 3
#define SUPPLY_SCARCE 0 /* one, or an eighth of them at most */
#define SUPPLY_AMPLE  2 /* half of them */

/* The level of `free` accelerators, at least one, out of `up` in service. */
static inline uint32_t supply_level(uint32_t free, uint32_t up) {
    return free <= 1 || 8 * free <= up ? SUPPLY_SCARCE : 2 * free < up ? SUPPLY_SCARCE + 1 : SUPPLY_AMPLE;
}

/* The share of `up` accelerators that a policy may assume to be free at a level. If scarce or ample, it is the least of
 * that level; in between it is the geometric mean of 1/8 and 1/2. */
static inline double supply_share(uint32_t level, double up) {
    return level == SUPPLY_SCARCE ? 1 / up : level == SUPPLY_AMPLE ? 0.5 : 0.25;
}

/* What a model has to run on a type besides its next batch. */
enum candidate_rest {
    REST_NONE,
    REST_LEFTOVERS,   /* leftovers_invalid_after_ns says until when */
    REST_BEST_EFFORT, /* best_effort_run_ns says how long; told only where there are no leftovers */
};

/* A model's next batch on accelerators of one type, and what else the model has for them. The two lowest bits of the
 * last word say which of the two times it holds. That keeps a slot of the board to one cache line if there is one
 * type. */
struct candidate {
    int64_t start_ns[SUPPLY_LEVELS]; /* from then on it may start; TIME_NEVER at all levels: there is no batch */
    int64_t order_ns;                /* of the candidates that may start, the one with the least goes first */
    int64_t invalid_after_ns;        /* latest start */
    union {
        struct {
            uint64_t rest : 2;                       /* enum candidate_rest; written by candidate_*_set() */
            int64_t leftovers_invalid_after_ns : 62; /* LEFTOVERS: latest start of a batch of them */
        };
        struct {
            uint64_t rest_again : 2;
            int64_t best_effort_run_ns : 62; /* BEST_EFFORT: how long its first request runs alone */
        };
    };
};
_Static_assert(sizeof(struct candidate) == 48, "the rest takes one word");

#define REST_TIME_MOST ((1LL << 61) - 1) /* 73 years: what the rest's times are cut to */

static inline int64_t candidate_rest_time(int64_t ns) {
    return ns < REST_TIME_MOST ? ns : REST_TIME_MOST;
}

/* Nothing to run. */
static inline struct candidate candidate_none(void) {
    return (struct candidate){
        .start_ns = {TIME_NEVER, TIME_NEVER, TIME_NEVER},
        .invalid_after_ns = TIME_NEVER,
        .rest = REST_NONE,
    };
}

static inline void candidate_rest_clear(struct candidate *candidate) {
    candidate->leftovers_invalid_after_ns = 0;
    candidate->rest = REST_NONE;
}

static inline void candidate_leftovers_set(struct candidate *candidate, int64_t invalid_after_ns) {
    candidate->leftovers_invalid_after_ns = candidate_rest_time(invalid_after_ns);
    candidate->rest = REST_LEFTOVERS;
}

static inline void candidate_best_effort_set(struct candidate *candidate, int64_t run_ns) {
    candidate->best_effort_run_ns = candidate_rest_time(run_ns);
    candidate->rest = REST_BEST_EFFORT;
}

/* The rest of `from` becomes the rest of `to`. */
static inline void candidate_rest_copy(struct candidate *to, const struct candidate *from) {
    to->leftovers_invalid_after_ns = from->leftovers_invalid_after_ns;
    to->rest = from->rest;
}

static inline bool candidate_leftovers(const struct candidate *candidate) {
    return candidate->rest == REST_LEFTOVERS;
}

static inline bool candidate_best_effort(const struct candidate *candidate) {
    return candidate->rest == REST_BEST_EFFORT;
}

/* Whether there is a batch to start, now or later. */
static inline bool candidate_any(const struct candidate *candidate) {
    return candidate->start_ns[SUPPLY_SCARCE] != TIME_NEVER;
}

/* What the rank core needs to know of a model for the sub-cluster's parameters; as of `at_ns`. */
struct model_rates {
    int64_t at_ns;
    double rate;          /* items per second, weighted over 2 s */
    double rate_fast;     /* over 0.1 s */
    double arrivals_fast; /* number of arrivals, weighted over 0.1 s: how sure rate_fast is */
    double dropped_rate;  /* share of the requests that were refused, weighted over the last 2000, or over all if there
                             were fewer */
    double bad_rate;      /* share that was refused or late, likewise */
    double slo_ns;        /* mean time between arrival and deadline */
    double weight;        /* of the model's share of an overloaded sub-cluster */
    double batch_best;    /* b* */
    double alpha_ns, beta_ns; /* of the model on the sub-cluster's accelerators */
    double thread_busy;       /* share of its time in which the model's thread has something to do; 0 in virtual time */
    uint32_t runs_on;         /* a bit for each type of accelerator that runs the model; 0: all do */
};

/* Accelerators that such a model keeps busy at its best batch size. */
static inline double model_rates_load(const struct model_rates *rates) {
    return rates->rate / (double)NS_PER_S * (rates->alpha_ns + rates->beta_ns / rates->batch_best);
}

enum rank_message_kind {
    RANK_ANSWER, /* to a grant of an accelerator */
    RANK_RATES,
    RANK_LEAVE, /* the model leaves this sub-cluster; until GRANT_LEFT it only answers grants */
    RANK_JOIN,  /* the model joins this sub-cluster, with no grant outstanding, and brings its candidates */
};

/* What a model made of a grant. */
struct rank_answer {
    uint32_t accelerator;
    uint32_t items;    /* of the batch; 0: the accelerator was not used and is given back */
    int64_t sealed_ns; /* when the batch was sealed */
    int64_t end_ns;    /* when the batch will have ended by the tables */
    int64_t run_ns;    /* for how much of that it occupies the accelerator */
};

/* The candidates follow the struct, one for each type of accelerators. A slot of the ring is as long as the longest
 * message, rank_message_bytes(). */
struct rank_message {
    enum rank_message_kind kind;
    uint32_t model;
    uint32_t types; /* entries of candidates[], one for each type of accelerators; 0 except in ANSWER and JOIN */
    union {
        struct rank_answer answer; /* ANSWER */
        struct model_rates rates;  /* RATES */
    };
    int64_t origin_ns;             /* ANSWER, JOIN: when the message that led to these candidates was handed over */
    struct candidate candidates[]; /* ANSWER, JOIN: [types] the newest ones */
};

/* Bytes of any message where there are so many types. */
static inline size_t rank_message_bytes(uint32_t types) {
    return sizeof(struct rank_message) + types * sizeof(struct candidate);
}

/* ---- rank thread -> model thread ---- */

/* What the policy derives from all models of the sub-cluster, every 10 ms while requests come. Where models run on some
 * types only, gamma to tau_ns and `busy` are those of the models that have their load in common (load_classes.h). */
struct cluster_parameters {
    double gamma;        /* share of b* that the window drop aims at */
    double theta;        /* share of b* from which a batch need not wait */
    double loss;         /* share of the requests that is dropped */
    double rounds;       /* the square of how many runs fit into an SLO beside the first one: the harmonic mean over the
                            models, in which a model that loses requests weighs more */
    double rounds_plain; /* the same, in the plain mean by load */
    double tau_ns;       /* mean time between batches; longer where models outnumber accelerators */
    double accelerators; /* in service */
    double busy;         /* part of their time that batches take, over 2 s */
    double hop_ns;       /* mean time from when a grant is due to its answer */
    double thread_busy;  /* the largest share of its time in which a model thread has something to do */
    float type_share[ACCELERATOR_TYPES_MAX]; /* of the accelerators in service, by type */
    uint64_t way;                            /* the policy's way of deciding, of those that its options allow */
};

/* The parameters until the first ones are derived. */
static inline struct cluster_parameters cluster_parameters_none(void) {
    return (struct cluster_parameters){.gamma = 1, .rounds = 1, .rounds_plain = 1};
}

enum grant_message_kind {
    GRANT_ACCELERATOR,
    GRANT_PARAMETERS,
    GRANT_LEFT, /* the model asked to leave and has left: nothing more comes for it */
};

struct grant_message {
    enum grant_message_kind kind;
    uint32_t model;
    uint32_t accelerator, type;
    uint32_t supply;    /* ACCELERATOR: the level at which it was granted */
    bool leftovers;     /* leftovers may run: no batch wants the accelerator now */
    bool best_effort;   /* best effort may run: no batch and no leftovers want it */
    int64_t run_ns;     /* ACCELERATOR, best_effort: how long a batch of best effort may run */
    int64_t granted_ns; /* ACCELERATOR: when it was granted */
    int64_t due_ns;     /* ACCELERATOR: when it could have been granted if no message and no thread took any time */
    int64_t free_ns;    /* ACCELERATOR: when it is expected to be free; INT64_MIN: it is free */
    double admit_share; /* PARAMETERS: share of this model's arrivals to admit; 1: all */
    struct cluster_parameters parameters;
};

/* ---- model thread -> executor ---- */

/* The `items` of a batch of one request whose items the scheduler does not count: the request's card has them. */
#define ITEMS_OF_REQUEST 0

/* A sealed batch. It is copied whole into the ring, whose slots are cache lines; its handles follow the struct. */
struct batch_plan {
    uint32_t accelerator;
    uint32_t model;        /* the model thread's index: a variant of a served model */
    uint32_t generation;   /* of the variant, which may be given to another shape later */
    uint32_t served_model; /* which loaded model runs it */
    uint32_t request_count;
    uint32_t items;                 /* ITEMS_OF_REQUEST: as many as its one request has */
    int64_t sealed_ns;              /* when the scheduling thread decided */
    int64_t earliest_ns, latest_ns; /* it does not start before the one, nor after the other */
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
    NEWS_ENDED,  /* a batch has ended, whether it ran, failed, or was lost */
    NEWS_LEAVES, /* no more batches for it; those that are sealed end or are lost, and are reported */
    NEWS_JOINS,  /* it takes batches again; what was lost has been reported */
};

struct ran_message {
    enum accelerator_news news; /* LEAVES and JOINS: only to the central thread, about `accelerator` */
    uint32_t model, generation, type, items, accelerator;
    uint32_t late;  /* requests whose deadline had passed when it ended; all of them, if it was too late to run it */
    uint64_t tag;   /* of the plan */
    int64_t run_ns; /* measured, without gathering and scattering; 0: the batch was not run, or not as one */
    int64_t dispatch_ns; /* from its seal until the executor had it; -1: not measured, or the batch before still ran
                            when it was sealed */
    int64_t gather_ns;   /* fetching and gathering the inputs of all items; 0: not measured */
};

/* The message about the batch of a plan; what was measured is yet to be set. */
static inline struct ran_message batch_plan_ran(const struct batch_plan *plan) {
    return (struct ran_message){
        .news = NEWS_ENDED,
        .model = plan->model,
        .generation = plan->generation,
        .items = plan->items,
        .accelerator = plan->accelerator,
        .tag = plan->tag,
    };
}

/* ---- executor -> rank thread ---- */

struct freed_message {
    enum accelerator_news news;
    uint8_t unlike; /* ENDED: 1 if the batch did not run as one: it was too late, failed or was lost, or its requests
                       ran apart. No bool, as it may come from another process */
    uint8_t type;   /* JOINS, where accelerators come from other processes: its type */
    uint32_t accelerator;
    int64_t ended_ns; /* ENDED */
};

/* ---- who started the threads -> model thread ---- */

enum model_move_kind {
    MODEL_MOVES, /* a variant goes to another sub-cluster */
    MODEL_COMES, /* a served model is there from now on, with all its variants; its cores are prepared */
    MODEL_GOES,  /* a served model is there no longer; nothing of it is queued or sealed, and nothing more comes for it
                  */
};

struct model_move {
    enum model_move_kind kind;
    uint32_t model; /* MOVES: the rank core's number of the variant; else the served model */
    uint32_t part;  /* MOVES, COMES: the sub-cluster that it is to belong to */
};

/* ---- who started the threads -> executor ---- */

enum accelerator_order {
    ACCELERATOR_JOIN,  /* take batches again */
    ACCELERATOR_DRAIN, /* end what is sealed, and take no more */
    ACCELERATOR_FAIL,  /* lose what it has, and what is still sent to it: only tests order this; accelerators fail by
                        * themselves (back/executor/executor_membership.c) */
    EXECUTOR_MODEL, /* for all accelerators of the executor: have a served model resident from now on, or no longer */
};

struct accelerator_command {
    uint32_t accelerator;
    enum accelerator_order order;
    /* MODEL: */
    uint32_t served_model;
    uint32_t version; /* of the served model, so that another one of its number is not taken for it */
    bool resident;
};

/* ---- executor -> who started the threads ---- */

/* Each order about a model is answered, in the order given. */
struct model_answer {
    uint32_t served_model, version;
    bool resident; /* whether it is resident from now on; if not, no model of that number is */
};

/* ---- executor -> frontend ---- */

enum request_status {
    REQUEST_OK,       /* `block` holds the outputs */
    REQUEST_REFUSED,  /* `refusal` says why; never run */
    REQUEST_FAILED,   /* the engine failed; `block` says how */
    REQUEST_LOST,     /* it did not run, or its run did not end; the port decides whether it sends it again */
    REQUEST_RELEASED, /* no result: a run that was given up, and still read the inputs, is over (`read`) */
};

struct output_block;

#define ITEMS_WHOLE UINT32_MAX

/* What became of a request, by value. */
struct result_message {
    _Alignas(CACHE_LINE) uint64_t handle;
    int64_t run_start_ns, run_end_ns;
    struct output_block *block; /* a reference, which the frontend owns from now on; may be NULL unless OK */
    uint32_t first_item;        /* of this request in the block's outputs; ITEMS_WHOLE: they are all its own */
    uint32_t batch_items;       /* of the batch that it ran in */
    uint8_t status;             /* enum request_status */
    uint8_t refusal;            /* enum refusal */
    bool suspect;               /* LOST: it may be why its batch failed, so it is to share no run any more */
    bool broke;                 /* LOST: its accelerator failed while it ran */
    bool absent;                /* LOST: its model was not resident on the accelerator */
    bool read;                  /* LOST: a run that was given up may still read the inputs, until RELEASED */
    bool unready;               /* LOST: its inputs were not prepared when its batch began */
    bool misfit;                /* LOST: its backend never takes its inputs */
    bool gone;                  /* LOST: a backend that had read it is gone */
};
_Static_assert(sizeof(struct result_message) == CACHE_LINE, "a result is a cache line");
