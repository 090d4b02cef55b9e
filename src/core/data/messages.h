/* messages.h - everything that threads say to each other about requests, batches and accelerators, by direction.
 *
 * Plain structs, copied through bounded rings (core/util/ring.h). Times are int64 nanoseconds of one clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/numbers.h"
#include "core/util/container.h"
#include "core/util/time.h"

#define ACCELERATOR_TYPES_MAX 8 /* types of accelerators in one sub-cluster */

/* Bounds of the weight of a model's share in an overloaded sub-cluster; the models share by their weights. */
#define MODEL_WEIGHT_LEAST 0.001
#define MODEL_WEIGHT_MOST  1000.0

/* Priorities of the requests of one model, which are batched by priority, then by deadline. 0 is the highest. */
#define PRIORITIES_MAX 32

/* The priority of best effort: requests without an SLO. They run when nothing else wants an accelerator, in batches so
 * short that requests which arrive meanwhile are still in time. The deadline of such a request is the end of its
 * wait. */
#define PRIORITY_BEST_EFFORT 255
#define BEST_EFFORT_WAIT_NS  (60 * NS_PER_S) /* longest wait of a best-effort request without a timeout */
#define BEST_EFFORT_MAX      1024            /* best-effort requests of one model that may wait */

/* A model's longest wait for further requests of a batch, where requests must not wait for any. The value 0 means that
 * no longest wait is configured. */
#define WAIT_NONE_NS 1

/* Input shapes of one model that may have a queue each at a time. Requests of further shapes wait for a free queue
 * (sched/core/shape_queue.h). */
#define VARIANTS_MAX 32

/* Why a request left the scheduler without a batch. */
enum refusal {
    REFUSAL_NONE,
    REFUSAL_DEADLINE,   /* the request can no longer finish by its deadline */
    REFUSAL_QUEUE_FULL, /* as many requests of the model and priority wait as the configuration allows (queue_levels) */
    REFUSAL_BEST_EFFORT_FULL, /* BEST_EFFORT_MAX requests of the model wait as best effort */
    REFUSAL_POOL_FULL,        /* the scheduling thread holds as many requests as it may (--queue-max) */
    REFUSAL_THREAD_BUSY, /* the model thread has no time left, and the request has spent much of its own time waiting
                            for that thread */
    REFUSAL_PLANS_FULL,  /* a central policy sent an accelerator more plans than it holds (WIRING_PLANS_CENTRAL) */
    REFUSAL_CANCELLED,   /* the client left */
    REFUSAL_STRANDED,    /* no accelerator in service runs the model, and none came back in time */
    REFUSAL_LOST,        /* the accelerator failed, and there is no time to run the request on another one (port.c) */
    REFUSAL_UNPREPARED,  /* the inputs were not prepared in time (port.c) */
    REFUSAL_UNSCHEDULED, /* a frontend of a cluster had no scheduler until its deadline (frontend_link.c) */
    REFUSAL_COUNT,
};

/* What a request that is refused for its deadline was given up for. */
enum refusal_cause {
    CAUSE_NONE,    /* not known */
    CAUSE_SHORT,   /* it could not have been in time even if it had run at once */
    CAUSE_CROWDED, /* a larger batch of later requests fits before their deadlines (the window drop) */
    CAUSE_SHARE,   /* it was beyond its model's share of an overloaded sub-cluster */
    CAUSE_WAITED,  /* no accelerator was granted in time */
    CAUSE_COLD,    /* no accelerator had its model, nor could load it in time */
    CAUSE_UNREAD,  /* its time was over, or half of it, before its frontend read it */
    CAUSE_COUNT,
};

/* What the scheduler knew when it refused a request for its deadline; 0: not known. */
struct refusal_figures {
    uint32_t run_us;      /* time from a decision until the request has run alone, by the table in force */
    uint32_t measured_us; /* the same by the table as profiled */
    float needed;         /* accelerators that the requests of all models need; of those that run on the same types */
    uint16_t serving;     /* accelerators of these types that are in service */
    uint16_t later;       /* CROWDED: items of the batch that fits */
};

/* ---- frontend -> model thread ---- */

/* In CANCELLED and READY only handle, deadline, shape, place, port and priority count. */
enum request_message_kind {
    REQUEST_ARRIVED,
    REQUEST_CANCELLED,
    REQUEST_READY, /* the request's inputs are there earlier than was promised; a hint, which may be left out */
};

struct request_message {
    uint64_t handle;       /* handle of the request; unique while the scheduler has the request */
    int64_t arrival_ns;    /* time at which the request's first byte was read */
    int64_t deadline_ns;   /* client's deadline less the reply margin; in a cancellation, too */
    uint64_t shape_key;    /* requests with different keys never share a batch; 0: the model has one shape */
    float work;            /* cost of an item relative to the profiled item; 1 for models of one shape */
    struct place_id place; /* place that the request queues for */
    uint32_t items;
    uint16_t port; /* number of the frontend, which the answer goes back to */
    uint8_t kind;  /* enum request_message_kind */
    uint8_t priority;
    int64_t ready_ns;    /* ARRIVED: time at which the inputs are promised to be there; 0: they are there */
    uint16_t batch_most; /* ARRIVED: items that a batch with this request should have at most; 0: any number */
    uint8_t losses;      /* ARRIVED, in a frontend of a cluster: times that the request was lost before */
    bool doubtful; /* ARRIVED: whether the request may be why backends that had it were lost. A frontend of a cluster
                     has one such request at a time in the scheduler */
    uint16_t failed_at; /* ARRIVED, in a frontend of a cluster: number of the backend where the request's run has
                           failed; 0: none. It is tried once elsewhere */
};

/* ---- model thread -> frontend ---- */

struct refusal_message {
    uint64_t handle;
    struct place_id place;
    uint8_t reason; /* enum refusal */
    uint8_t cause;  /* enum refusal_cause */
    struct refusal_figures figures;
};

/* ---- model thread -> rank thread ---- */

/* Levels of supply: how many accelerators of a type are free. A batch that may start at once while many are free may
 * have to wait for further requests while few are free. */
#define SUPPLY_LEVELS 3
#define SUPPLY_SCARCE 0 /* one is free, or at most an eighth */
#define SUPPLY_AMPLE  2 /* at least half are free */

/* The level of `free` accelerators, at least one, out of `up` in service. */
static inline uint32_t supply_level(uint32_t free, uint32_t up) {
    return free <= 1 || 8 * free <= up ? SUPPLY_SCARCE : 2 * free < up ? SUPPLY_SCARCE + 1 : SUPPLY_AMPLE;
}

/* The share of `up` accelerators that a policy may assume to be free at a level: the least of the level where it is
 * scarce or ample; in between, the geometric mean of 1/8 and 1/2. */
static inline double supply_share(uint32_t level, double up) {
    return level == SUPPLY_SCARCE ? 1 / up : level == SUPPLY_AMPLE ? 0.5 : 0.25;
}

/* A model's next batch on accelerators of one type, and its best effort. */
struct candidate {
    int64_t start_ns[SUPPLY_LEVELS]; /* earliest start by level; TIME_NEVER at all levels: there is no batch */
    int64_t order_ns;                /* place among the candidates that may start: the least goes first */
    int64_t invalid_after_ns;        /* latest start of the batch */
    int64_t best_effort_run_ns;      /* run time of the first best-effort request alone; 0: there is none */
};
_Static_assert(sizeof(struct candidate) == 48, "with one type, a slot of the board takes one cache line");

/* The candidate of a model that has nothing to run. */
static inline struct candidate candidate_none(void) {
    return (struct candidate){
        .start_ns = {TIME_NEVER, TIME_NEVER, TIME_NEVER},
        .invalid_after_ns = TIME_NEVER,
    };
}

/* Whether there is a batch to start, now or later. */
static inline bool candidate_any(const struct candidate *candidate) {
    return candidate->start_ns[SUPPLY_SCARCE] != TIME_NEVER;
}

/* What the rank core needs to know of a model, as of `at_ns`, for the sub-cluster's parameters. */
struct model_rates {
    int64_t at_ns;
    double rate;          /* items per second, weighted over 2 s */
    double rate_fast;     /* items per second, weighted over 0.1 s */
    double arrivals_fast; /* number of arrivals, weighted over 0.1 s; with few of them rate_fast is not sure */
    double dropped_rate;  /* share of the requests that were refused, weighted over the last 2000, or over all if there
                             were fewer */
    double bad_rate;      /* share of the requests that were refused or late, weighted like dropped_rate */
    double slo_ns;        /* mean time between arrival and deadline */
    double weight;        /* weight of the model's share of an overloaded sub-cluster */
    double batch_best;    /* best batch size, b* */
    double alpha_ns, beta_ns; /* line of the model's latencies on the sub-cluster's accelerators */
    double thread_busy;       /* share of time in which the model's thread has something to do; 0 in virtual time */
    uint32_t arrived;         /* requests that came since the rates before were told */
    uint32_t cold;            /* where memory is limited: those of them that found the model on no accelerator */
    uint32_t lost, lost_cold; /* requests that could not be in time, since then; those of them that had found it on none
                               */
    uint32_t runs_on;         /* types of accelerators that run the model, a bit each; 0: all */
};

/* The number of accelerators that a model with these rates keeps busy at its best batch size. */
static inline double model_rates_load(const struct model_rates *rates) {
    return rates->rate / (double)NS_PER_S * (rates->alpha_ns + rates->beta_ns / rates->batch_best);
}

enum rank_message_kind {
    RANK_ANSWER, /* the answer to a grant of an accelerator */
    RANK_RATES,
    RANK_LEAVE, /* the model leaves this sub-cluster; until GRANT_LEFT it only answers grants */
    RANK_GOES,  /* as LEAVE, for good: GRANT_LEFT comes once no accelerator of limited memory has the model's weights */
    RANK_JOIN,  /* the model joins this sub-cluster, with no grant outstanding, and brings its candidates */
};

/* The weights of a model, where memory is limited. All variants of a served model have the same ones. */
struct rank_weights {
    uint32_t first;  /* first of the variants that have these weights, whose numbers are in a row */
    uint32_t count;  /* number of these variants; 0: the variant is in no model's use */
    uint32_t pages;  /* pages of an accelerator's memory, at least 1 */
    uint32_t types;  /* types of accelerators that run the model, a bit each */
    bool pinned;     /* they are loaded before the model is asked for, and one accelerator keeps them */
    int64_t load_ns; /* time to load them */
};

/* What a model made of a grant. */
struct rank_answer {
    uint32_t accelerator;
    uint32_t items;    /* items of the batch; 0: the accelerator was not used and is given back */
    int64_t sealed_ns; /* time at which the batch was sealed */
    int64_t end_ns;    /* time at which the batch will have ended, by the tables */
    int64_t run_ns;    /* time for which the batch occupies the accelerator, by the tables */
};

/* A message. Its candidates follow the struct, one for each type of accelerators. A slot of the ring is as long as the
 * longest message, rank_message_bytes(). */
struct rank_message {
    enum rank_message_kind kind;
    struct variant_id variant;
    uint32_t types; /* entries of candidates[], one for each type of accelerators; 0 except in ANSWER and JOIN */
    union {
        struct rank_answer answer;   /* ANSWER */
        struct model_rates rates;    /* RATES */
        struct rank_weights weights; /* JOIN, where memory is limited */
    };
    int64_t origin_ns; /* ANSWER, JOIN: time at which the message that led to these candidates was handed over */
    struct candidate candidates[]; /* ANSWER, JOIN: [types] newest candidates of the model */
};

/* Bytes that any message takes at most where there are `types` types of accelerators. */
static inline size_t rank_message_bytes(uint32_t types) {
    return sizeof(struct rank_message) + types * sizeof(struct candidate);
}

/* ---- rank thread -> model thread ---- */

/* What the policy derives from all models of the sub-cluster, every 10 ms while requests come. Where some models run on
 * some types of accelerators only, gamma to tau_ns and `busy` to `serving` are those of the models that have their load
 * in common (load_classes.h). */
struct cluster_parameters {
    double gamma;  /* share of b* that the window drop aims at */
    double theta;  /* share of b* from which a batch need not wait */
    double loss;   /* share of the requests that are dropped */
    double rounds; /* harmonic mean over the models of the square of how many runs fit into the SLO beside one run; a
                      model that loses requests weighs more */
    double rounds_plain; /* mean by load of the square of how many runs fit into the SLO beside one run */
    double tau_ns;       /* mean time between batches; longer where models outnumber accelerators */
    double accelerators; /* number of accelerators in service */
    double busy;         /* share of the accelerators' time that batches take, over 2 s */
    double needed;       /* accelerators that these models' requests need */
    double serving;      /* accelerators in service that these models run on */
    double hop_ns;       /* mean time from the moment at which a grant is due to its answer */
    double thread_busy;  /* largest share of time in which a model thread has something to do */
    float type_share[ACCELERATOR_TYPES_MAX]; /* share of the accelerators in service, by type */
    uint64_t way;                            /* way in which the policy decides, of those that its options allow */
};

/* The parameters until the first ones are derived. */
static inline struct cluster_parameters cluster_parameters_none(void) {
    return (struct cluster_parameters){.gamma = 1, .rounds = 1, .rounds_plain = 1};
}

enum grant_message_kind {
    GRANT_ACCELERATOR,
    GRANT_PARAMETERS,
    GRANT_MEMORY, /* an accelerator has the model now, loads it, or none has it any more; only where memory is limited
                   */
    GRANT_LEFT,   /* the model asked to leave the sub-cluster and has left; nothing more comes for the model */
};

struct grant_message {
    enum grant_message_kind kind;
    struct variant_id variant;
    uint32_t accelerator, type;
    uint32_t supply;    /* ACCELERATOR: level of supply at which the accelerator was granted */
    bool best_effort;   /* ACCELERATOR: whether best effort may run: no batch wants the accelerator now */
    int64_t run_ns;     /* ACCELERATOR, if best_effort: longest run of a batch of best effort */
    int64_t granted_ns; /* ACCELERATOR: time at which the accelerator was granted */
    int64_t due_ns;     /* ACCELERATOR: time of the grant if no message and no thread took any time */
    int64_t free_ns;    /* ACCELERATOR: time at which the accelerator is expected to be free; INT64_MIN: it is free */
    int64_t there_ns;   /* MEMORY: time at which an accelerator is expected to have the model; INT64_MIN: one has it;
                         * TIME_NEVER: none loads it */
    int64_t load_ns;    /* MEMORY: time that a load of it takes */
    double admit_share; /* PARAMETERS: share of this model's arrivals to admit; 1: all */
    struct cluster_parameters parameters;
};

/* ---- model thread -> executor ---- */

/* What an accelerator is to do. A batch is sent as batch_plan, the others as move_order, where memory is limited. */
enum central_action_kind {
    CENTRAL_RUN,
    CENTRAL_LOAD,   /* load the weights of `model` */
    CENTRAL_UNLOAD, /* unload them */
    CENTRAL_EMPTY,  /* unload all models, once the batches that were sent before have ended; no policy sends this */
};

/* The `items` of a batch of one request whose items the scheduler does not count; their number is on the request's
 * card. */
#define ITEMS_OF_REQUEST 0

/* A sealed batch. The plan is copied whole into the ring, whose slots are cache lines. The handles of the requests
 * follow the struct. */
struct batch_plan {
    uint32_t accelerator;
    struct variant_id variant;
    uint32_t generation;   /* generation of the variant: a later one may be given to another shape or model */
    struct place_id place; /* place of the model whose loaded copy runs the batch */
    uint32_t request_count;
    uint16_t items;                 /* number of items; ITEMS_OF_REQUEST: those of the only request */
    uint8_t zero;                   /* 0 */
    uint8_t waited;                 /* time from the first request's arrival to the seal: wait_code() of timeline.h */
    int64_t sealed_ns;              /* time at which the scheduling thread decided */
    int64_t earliest_ns, latest_ns; /* bounds of the start: not before the one, not after the other */
    uint64_t tag;                   /* number that comes back in ran_message */
    uint32_t ready_us;     /* time before the seal for which the batch waited for an accelerator, and for no company;
                              UINT32_MAX: it never waited for company */
    uint32_t predicted_us; /* run time by the table in force; 0: not known */
    uint64_t handles[];    /* [request_count] */
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
    NEWS_LEAVES, /* the accelerator takes no more batches; those that are sealed end or are lost, and are reported */
    NEWS_JOINS,  /* the accelerator takes batches again; all that were lost have been reported */
};

struct ran_message {
    enum accelerator_news news; /* LEAVES and JOINS: only to the central thread, about `accelerator` */
    struct variant_id variant;
    uint32_t generation, type, items, accelerator;
    uint32_t late; /* requests that were late when the batch ended; all, if it was too late to run the batch */
    uint64_t tag;  /* tag of the plan; JOINS, where accelerators come from other processes: memory for weights in bytes,
                    * and `items` those of its pages */
    int64_t run_ns; /* measured run time, without gathering and scattering; 0: the batch was not run, or not as one */
    int64_t dispatch_ns; /* time from the batch's seal until the executor had the batch; -1: not measured, or the batch
                            before still ran at the seal */
    int64_t gather_ns;   /* time of fetching and gathering the inputs of all items; 0: not measured */
};

/* The message about the batch of a plan; what was measured is yet to be set. */
static inline struct ran_message batch_plan_ran(const struct batch_plan *plan) {
    return (struct ran_message){
        .news = NEWS_ENDED,
        .variant = plan->variant,
        .generation = plan->generation,
        .items = plan->items,
        .accelerator = plan->accelerator,
        .tag = plan->tag,
    };
}

/* ---- executor -> rank thread, or central thread ---- */

struct freed_message {
    enum accelerator_news news;
    uint8_t unlike; /* ENDED: 1: the batch did not run as one. It was too late, failed or was lost, or its requests ran
                       apart. No bool, as another process may write it */
    uint8_t type;   /* JOINS, where accelerators come from other processes: type of the accelerator */
    uint32_t accelerator;
    struct variant_id variant; /* ENDED: variant of the batch: batches of several model threads may run in another order
                                * than they were granted in */
    int64_t ended_ns;          /* ENDED: time at which the batch ended */
};

/* What the link of a cluster's scheduler tells of accelerators' memory, and hears, besides orders and their ends. When
 * an accelerator joins: SIZE, then OFFERED for each of its models, then BEGINS. */
enum memory_telling {
    MEMORY_SIZE = 16, /* the accelerator's memory has `pages`, and weights take multiples of `grain` of them; `done`: it
                       * has its models for good; `cuts`: a load may go ahead of another one that is under way */
    MEMORY_OFFERED,   /* the accelerator may load the model; `done`: it has the model already */
    MEMORY_WITHDRAWN, /* it may not any more: the rank thread gives it up there with a move_order that yields */
    MEMORY_BEGINS,    /* all was told that the accelerator has: loads may begin */
    MEMORY_JOINED,    /* to the link: the rank thread knows the model, and may be told where it is offered */
};

/* The end of a move_order, or what is told of an accelerator's memory. Every order is answered, once it
 * has ended: those of an accelerator in the sequence in which they came, but for what goes ahead. */
struct memory_moved {
    uint8_t kind; /* enum central_action_kind of the order, or enum memory_telling */
    bool done;    /* false: the order was refused, or lost with the accelerator */
    bool failed;  /* not done, as the model cannot be loaded: it is no use to try again at once */
    bool cuts;
    uint8_t grain;
    uint32_t accelerator;
    uint32_t epoch; /* times that the accelerator had left */
    struct variant_id variant;
    uint32_t pages;
    int64_t took_ns; /* done: time that it took */
};

/* ---- rank thread, or central thread -> executor ---- */

/* What an accelerator is to do with its memory. An accelerator has at most MEMORY_ORDERS_MOST orders that it has not
 * answered; of a rank thread one of them is a LOAD. */
#define MEMORY_ORDERS_MOST 32
#define MEMORY_PAGES_MOST  ((uint32_t)1 << 30) /* most pages of an accelerator, or of a model */

struct move_order {
    uint8_t kind; /* enum central_action_kind: LOAD, UNLOAD or EMPTY; MEMORY_JOINED */
    bool ahead;   /* LOAD, UNLOAD: it goes before loads that do not, also one that is under way */
    bool yields;  /* UNLOAD: the rank core has nothing more to do with the model there, which may not be there at all */
    uint32_t accelerator, epoch;
    struct variant_id variant; /* LOAD, UNLOAD: a variant of the model */
    struct place_id place;     /* LOAD, UNLOAD: place of the model */
    int64_t latest_ns;         /* LOAD: latest begin: a load that cannot begin by then is refused; TIME_NEVER: none */
};

/* ---- who started the threads -> model thread ---- */

enum model_move_kind {
    MODEL_MOVES, /* a variant goes to another sub-cluster */
    MODEL_COMES, /* a served model is there from now on, with all its variants; its cores are prepared */
    MODEL_GOES,  /* a served model is there no longer; no request of it is queued or sealed, and none comes any more */
};

struct model_move {
    enum model_move_kind kind;
    union {
        struct variant_id variant; /* MOVES */
        struct place_id place;     /* COMES, GOES */
    };
    uint32_t subcluster; /* MOVES, COMES: sub-cluster that the model is to belong to */
};

/* ---- who started the threads -> executor ---- */

enum accelerator_order {
    ACCELERATOR_JOIN,  /* take batches again */
    ACCELERATOR_DRAIN, /* end the batches that are sealed, and take no more */
    ACCELERATOR_FAIL, /* lose the batches that the accelerator has and those that are still sent to it. Only tests order
                         this: accelerators fail by themselves (back/executor/executor_membership.c) */
    EXECUTOR_MODEL,   /* for all accelerators of the executor: keep a served model resident from now on, or no longer */
};

struct accelerator_command {
    uint32_t accelerator;
    enum accelerator_order order;
    /* MODEL: */
    struct place_id place;
    uint32_t version; /* version of the served model; tells the model from another one in the same place */
    bool resident;
};

/* ---- executor -> who started the threads ---- */

/* The answer to an order about a model. Every order is answered, in the sequence in which the orders were given. */
struct model_answer {
    struct place_id place;
    uint32_t version;
    bool resident; /* whether the model is resident from now on; if not, no model of that place is */
};

/* ---- executor -> frontend ---- */

enum request_status {
    REQUEST_OK,       /* `block` holds the outputs */
    REQUEST_REFUSED,  /* the request never ran; `refusal` says why */
    REQUEST_FAILED,   /* the engine failed; `block` says how */
    REQUEST_LOST,     /* the request did not run, or its run did not end; the port decides whether to send it again */
    REQUEST_RELEASED, /* no result: a run that was given up earlier (`read`) no longer reads the inputs */
};

struct output_block;

#define ITEMS_WHOLE UINT32_MAX

#define MODEL_NONE UINT32_MAX

/* How a batch came to its run, for trails (trail.h). Times are in microseconds. */
struct batch_past {
    uint32_t ready_us;     /* time before the run for which the batch waited for an accelerator, and for no company;
                              UINT32_MAX: it never waited for company */
    uint32_t sealed_us;    /* time from the seal to the run */
    uint32_t predicted_us; /* run time by the table in force at the seal; 0: not known */
    uint32_t accelerator;
    uint32_t before; /* served model of the batch that ran there while this one waited; from a backend of a cluster: low
                        bits of served_model_key() of it; MODEL_NONE: none did */
};

/* A batch that has not waited for company may have come when its accelerator was idle. So it is taken to have waited
 * for the batch before only if that ended so shortly before the seal, or after it. */
#define READY_MOST_NS (10 * NS_PER_MS)

/* batch_past.before of a batch that was sealed at sealed_ns, ready_us (batch_plan) after it was ready; the last batch
 * of its accelerator, of ended_model, ended at ended_ns. */
static inline uint32_t batch_before(int64_t sealed_ns, uint32_t ready_us, int64_t ended_ns, uint32_t ended_model) {
    int64_t waited_ns = ready_us * NS_PER_US;
    return ended_ns > sealed_ns - (waited_ns < READY_MOST_NS ? waited_ns : READY_MOST_NS) ? ended_model : MODEL_NONE;
}

/* What became of a request. */
struct result_message {
    _Alignas(CACHE_LINE) uint64_t handle;
    int64_t run_start_ns, run_end_ns;
    struct output_block *block; /* reference, which the frontend owns from now on; may be NULL unless OK */
    union {
        uint32_t first_item; /* item of the block at which this request's begin; ITEMS_WHOLE: all are its own */
        uint32_t failed_at;  /* LOST, if `failed`: number of the backend */
    };
    uint32_t batch_items; /* items of the batch that the request ran in */
    uint8_t status;       /* enum request_status */
    uint8_t refusal;      /* enum refusal */
    bool suspect : 1;     /* LOST: whether the request may be why its batch failed: then it shares no run any more */
    bool broke : 1;       /* LOST: whether the accelerator failed while it ran the request */
    bool absent : 1;      /* LOST: whether the model was not resident on the accelerator */
    bool read : 1;        /* LOST: whether a run that was given up may still read the inputs, until RELEASED */
    bool unready : 1;     /* LOST: whether the inputs were not prepared when the batch began */
    bool misfit : 1;      /* LOST: whether the backend never takes this request's inputs */
    bool gone : 1;        /* LOST: whether a backend that had read the request is gone */
    bool failed : 1; /* LOST: whether the run failed at a backend, with `block`, or, without it, whether the backend at
                        which it had failed before gave the request back unrun. It is tried at another */
    struct batch_past past;
};
_Static_assert(sizeof(struct result_message) == CACHE_LINE, "a result is a cache line");
