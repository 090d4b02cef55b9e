/* sim.h - an emulated cluster in virtual time: workloads, the scheduler's own cores, and accelerators that take l(b).
 *
 * A run is a function of its configuration and seed: one event after the other, in int64 nanoseconds, with equal times
 * in a fixed order. A run drives the same model cores and rank cores as the live server, through the same messages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/profile.h"
#include "core/data/reason.h"
#include "core/util/time.h"
#include "lab/scenario/query_size.h"
#include "lab/scenario/trace.h"
#include "lab/sim/sim_times.h"
#include "sched/core/central.h"
#include "sched/core/policy.h"
#include "sched/plan/autoscale.h"
#include "sched/plan/query.h"

#define SIM_NAME_MAX 64

/* A request's handle is its number in the run. The handle of a stage's request also says of which query and stage it
 * is. */
#define SIM_NUMBER_BITS 38
#define SIM_QUERY_BITS  20
#define SIM_QUERIES_MAX ((1U << SIM_QUERY_BITS) - 1) /* queries at once; more are dropped */

static inline uint64_t sim_request_number(uint64_t handle) {
    return handle & ((1ULL << SIM_NUMBER_BITS) - 1);
}

enum sim_arrivals { SIM_POISSON, SIM_UNIFORM, SIM_GAMMA, SIM_TRACE };

struct sim_model {
    char name[SIM_NAME_MAX];
    const struct profile *profiles[ACCELERATOR_TYPES_MAX]; /* profiles by type; NULL: the model does not run on the
                                                            * type */
    uint32_t batch_max; /* most items of a batch; at most the batch_max of each profile */
    int64_t slo_ns;
    double weight;                     /* weight of the model under overload, relative to the other models; 0: 1 */
    double share;                      /* share of the requests, relative to the other models' shares */
    double best_effort;                /* share of the model's requests that have no SLO */
    uint32_t priority_count;           /* number of priorities; 0: all requests have the highest */
    double priorities[PRIORITIES_MAX]; /* shares of priorities in the requests with an SLO, from the highest priority
                                        * on; they add up to 1 */
    uint32_t items_least, items_most;  /* range of a request's number of items, which is uniform */
    double slo_spread;                 /* spread of the SLOs of requests: uniform in slo*(1 - spread .. 1 + spread) */
    double surge_at_s, surge_factor;   /* time of a surge, and factor of the rate from then on; factor 0: no surge */
    uint64_t weights_bytes;            /* bytes of weights on an accelerator, where memory is limited */
    int64_t load_ns;                   /* time to load the weights onto an accelerator */
    bool pinned;                       /* they are loaded from the start on, and one accelerator keeps them */
    uint32_t variants; /* number of models that share a prefix and have one traffic, each request being for any of them
                        * with equal chance; 0: a single model. A batch runs the prefix for all its items, and each
                        * variant's suffix for that variant's items; `profiles` has the longest time that this can take
                        * (core/data/shared.h) */
    const struct profile *prefixes[ACCELERATOR_TYPES_MAX],
        *suffixes[ACCELERATOR_TYPES_MAX]; /* with variants: profiles of prefix and suffix, by type */
};

/* Queries of several models. Each item of a stage is a request. */
struct sim_pipeline {
    struct sim_model queries; /* arrivals of queries: name, SLO, share; a query begins with one item */
    struct pipeline graph;    /* graph of the stages; its model numbers are those of the config */
};

struct sim_rate_step {
    double at_s; /* time since the start, warm-up included */
    double rate_rps;
};

/* Functions that are called when something happens in a run; any may be NULL. */
struct sim_observer {
    void *context;
    void (*arrived)(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items, uint8_t priority,
                    int64_t deadline_ns);
    void (*refused)(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason);
    /* A batch is sent to an accelerator, which may still be busy. expected_end_ns: when it ends if this batch, and all
     * that the accelerator still has to do, takes as long as the tables in force say, delays included. */
    void (*sent)(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items,
                 int64_t expected_end_ns);
    void (*joined)(void *context, uint64_t handle); /* called for each request of the batch just sent */
    /* Before began(), of the same batch: when its first request came, since when it has waited for no company
     * (INT64_MIN: it never did), and how long it is to take by the table in force. */
    void (*waited)(void *context, uint32_t accelerator, int64_t came_ns, int64_t ready_ns, int64_t expected_ns);
    /* A batch begins to run; end_ns: when the batch will end, if nothing happens to the accelerator. */
    void (*began)(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items, int64_t end_ns);
    /* The running batch ends, or goes down with the accelerator. */
    void (*ended)(void *context, int64_t now_ns, uint32_t accelerator);
    /* With several sub-clusters. assigned: from now on the model is in `subcluster` (UINT32_MAX: in none). moved: a
     * move is over; for wait_ns no rank core knew the model. */
    void (*assigned)(void *context, int64_t now_ns, uint32_t model, uint32_t subcluster);
    void (*moved)(void *context, int64_t now_ns, uint32_t model, int64_t wait_ns);
    /* A request of a batch is answered; `ran` false: the batch was not run, or was lost. */
    void (*answered)(void *context, int64_t now_ns, uint64_t handle, bool ran);
    /* A request's batch was lost, and the frontend sends the request again. */
    void (*sent_again)(void *context, int64_t now_ns, uint64_t handle);
    /* A query arrives; queries are numbered from 0 on. A stage of a query begins: its items, if any, arrive at once as
     * requests. A query ends. */
    void (*query_arrived)(void *context, int64_t now_ns, uint64_t query, uint32_t pipeline, int64_t deadline_ns);
    void (*stage_began)(void *context, int64_t now_ns, uint64_t query, uint32_t stage, uint32_t items);
    void (*query_ended)(void *context, int64_t now_ns, uint64_t query, enum query_end end, enum refusal reason);
    /* A model was loaded onto an accelerator from begin_ns until now, or unloaded, or lost with the accelerator. */
    void (*loaded)(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, bool in, int64_t begin_ns);
};

struct sim_config {
    const struct sim_model *models;
    uint32_t model_count;
    const struct sim_pipeline *pipelines; /* [pipeline_count] */
    uint32_t pipeline_count;
    const uint8_t *accelerator_type; /* [accelerators] */
    uint32_t accelerators, types;
    const double *price;  /* [types] dollars an hour for an accelerator; NULL: not known */
    uint32_t subclusters; /* number of sub-clusters, each with its rank core, its share of each type, and models; 0:
                           * one. Not with a central policy */
    double epoch_s;       /* time between balances of the sub-clusters (sched/plan/balance.h); 0: models stay */
    double subcluster_rate_max; /* most items/s that a sub-cluster is to have; 0: no limit */
    double forced_moves_rate;   /* further moves a second, of models to any sub-cluster, for tests; 0: none */
    double forced_away;         /* share of the forced moves in which the model is in no sub-cluster for a while */
    const struct autoscale_config *autoscale; /* settings of autoscaling; NULL: there is none */
    /* With autoscale: accelerators of each type in service at the start. Accelerators are then in the order of their
     * types. If there are several types, the policy has to choose pools (central_ops.pool). */
    uint32_t accelerators_first[ACCELERATOR_TYPES_MAX];
    enum sim_arrivals arrivals;
    double gamma_shape;
    const struct trace *trace;         /* trace of SIM_TRACE, replayed with the rate of the steps as its mean rate */
    const struct sim_rate_step *steps; /* [step_count] rates in the order of their times, the first at 0 */
    uint32_t step_count;
    const struct query_sizes *query_sizes;     /* distribution of a request's items; NULL: each model's items_least to
                                                * items_most */
    int64_t ctrl_ns, data_ns, reply_margin_ns; /* delay before a batch of b items is ctrl_ns + data_ns*b;
                                                * reply_margin_ns: time of an answer's way back */
    int64_t message_ns, message_jitter_ns;     /* time of a message between cores, each way; the jitter is uniform, and
                                                * messages keep their order */
    double noise;        /* factor: a batch takes l(b) * (1 + noise * x), x exponential with mean 1, at most 5 */
    bool learn;          /* whether the cores correct their tables by measured runs */
    double cancel_share; /* share of requests whose client leaves before the deadline; not with faults of links */
    double fault_every_s, fault_s; /* mean time between two faults and their mean length; 0: none. None in the last
                                    * tenth of the run */
    double fault_stalls; /* share of the faults after which the accelerator goes on where it was; after the others its
                          * batches are lost */
    uint32_t backends; /* number of processes among which the accelerators are divided, in order: all accelerators of a
                        * backend have a fault together; 0: each has its faults alone */
    bool fault_again;  /* whether requests whose batch is lost are sent again, if their deadlines allow. Not with
                        * pipelines nor autoscale */
    bool fault_silent; /* whether a backend with a fault stands still, and counts as gone after fault_noticed_ns; else
                        * its batches are lost at once */
    int64_t fault_noticed_ns;
    /* Faults of the network (sim_links.c), not with pipelines nor autoscale. Each message between the scheduler,
     * frontends and accelerators is late by up to link_jitter_ns, uniform. With probability link_loss a message is
     * lost, and sent again link_resend_ns later; if it is lost again, after twice that time, and so on. */
    int64_t link_jitter_ns, link_resend_ns;
    int64_t link_margin_ns; /* time by which policies plan batches to end earlier, as room for delays */
    double link_loss;
    /* Mean time until the scheduler dies, and until another one takes over; 0: never. The scheduler does not die in the
     * last tenth of the run. Not with pipelines, autoscale, sub-clusters nor limited memory. */
    double scheduler_every_s, scheduler_down_s;
    double seconds, warmup_s; /* length of the run and of the warm-up before it; only requests that arrive after the
                               * warm-up count */
    uint64_t seed;
    uint64_t memory_bytes; /* memory of an accelerator for weights, with central policies only; 0: every model is loaded
                            * everywhere */
    bool rates_known;      /* whether central policies are told the first rates */
    uint32_t queue_capacity; /* most requests in the scheduler at once; more are refused; 0: plenty */
    const struct policy_ops *policy;
    struct policy_options options;
    const struct sim_observer *observer; /* functions to call during the run; NULL: none */
    double give_up_bad; /* share of all requests that a model, or queries that a pipeline, is to be offered: the run
                         * ends early when more than this share plus ten are bad; 0: never */
    bool (*go_on)(void *context, int64_t now_ns); /* function that is called every few thousand events, and ends the run
                                                   * early by false; NULL: none */
    void *go_on_context;
};

/* Advice in a run: from at_s on there should be this number of accelerators. */
struct sim_advice {
    double at_s;
    uint32_t accelerators;
    uint16_t of_type[ACCELERATOR_TYPES_MAX]; /* the same by type, if there are several */
};

enum sim_outcome { SIM_GOOD, SIM_DROPPED, SIM_LATE, SIM_CANCELLED, SIM_OUTCOMES };

/* Requests of one priority, or best effort. */
struct sim_class_result {
    uint64_t count[SIM_OUTCOMES];
    struct sim_times latency; /* latencies of the requests that ran */
};

/* Requests without an SLO count in `best_effort` only, but their batches count with all batches. */
struct sim_model_result {
    uint64_t offered, good, dropped, late, cancelled; /* requests by outcome; `offered` is the sum of the others */
    uint64_t batches, batch_items;
    uint64_t moves;                     /* moves to another sub-cluster, in the whole run */
    uint64_t loads;                     /* loads of the model onto an accelerator */
    uint64_t cold;                      /* requests that came while no accelerator had the model */
    uint64_t suffix_runs;               /* with variants: runs of suffixes in the model's batches */
    int64_t prefix_ns, suffix_ns;       /* with variants: time of all prefixes and of all suffixes, without noise */
    uint32_t *batch_sizes;              /* [batch_max + 1] number of batches, by their items */
    struct sim_times latency, queueing; /* times from arrival to answer, and to the batch's start, if the request ran */
    struct sim_class_result *best_effort,
        *priorities; /* requests without an SLO; requests by priority, [priority_count]; NULL: there are none */
};

/* Requests of a stage by outcome: ended before the stage's deadline (good), refused (dropped), ended later or lost
 * (late), taken back since their query had ended (cancelled). */
struct sim_stage_result {
    uint64_t count[SIM_OUTCOMES];
    struct sim_times latency; /* latencies of the requests that ran */
};

/* Whole queries of a pipeline. */
struct sim_pipeline_result {
    uint64_t offered, good, dropped, late, cancelled;
    struct sim_times latency;        /* latencies of the good queries */
    struct sim_stage_result *stages; /* [stage_count] */
};

/* A model's requests are those of its own traffic; its batches are also those of pipelines' requests. */
struct sim_result {
    struct sim_model_result *models;                  /* [model_count] */
    struct sim_pipeline_result *pipelines;            /* [pipeline_count] */
    uint64_t offered, good, dropped, late, cancelled; /* requests of the models' own traffic, and queries */
    uint64_t reasons[REASON_COUNT]; /* dropped and late requests of the models' own traffic, by enum reason_kind */
    struct reason reason_last[REASON_COUNT]; /* the reason of the last of them */
    uint64_t batches, batch_items;
    uint64_t loads, cold;
    uint64_t requests;                      /* requests, warm-up included */
    uint64_t moves;                         /* moves of models to another sub-cluster, warm-up included */
    uint64_t takeovers;                     /* deaths of the scheduler, warm-up included */
    uint64_t sent_again;                    /* requests whose batch was lost, warm-up included */
    int64_t move_wait_ns, move_wait_max_ns; /* time in which no rank core knew a moving model: sum over all moves, and
                                             * longest */
    struct central_moves placement;         /* moves by a central policy that binds models to accelerators */
    double worst_bad_rate;                  /* highest bad rate of a model or pipeline: bad over offered */
    double busy;                            /* share of the accelerators' time spent running, while requests counted */
    double accelerators_mean;               /* mean number of accelerators in service, while requests counted */
    double accelerators_mean_of[ACCELERATOR_TYPES_MAX]; /* the same by type */
    uint32_t accelerators_max;                          /* most accelerators in service at once */
    uint64_t joins, departures; /* accelerators that joined and left, by faults and autoscale; those that autoscale
                                 * leaves out at the start are no departures */
    struct sim_advice *advice;  /* [advice_count] changes of the advice, with autoscale */
    uint32_t advice_count;
    uint32_t accelerators_used; /* accelerators that ran a batch */
    uint32_t stuck;             /* accelerators that the rank core did not get back; 0 unless something is broken */
    uint32_t unanswered;        /* requests and queries still there at the end; 0 unless something is broken */
    double way_share[POLICY_WAYS_MAX]; /* share of the time, while requests counted, in which the policy decided by each
                                        * way */
    bool gave_up, stopped; /* whether the run ended early, by give_up_bad or by go_on; the other fields are about the
                            * time until then */
};

/* Memory that a run needs, aligned as malloc's; results included. */
size_t sim_bytes(const struct sim_config *config);
/* Simulates a run; `result->models` points into `memory`. */
void sim_run(const struct sim_config *config, void *memory, struct sim_result *result);

/* Makes a model of one type and one item a request, whose batches take alpha*b + beta and are as large as the SLO
 * allows; share 1, no name. The caller frees its profile with free(). False: out of memory. */
bool sim_model_line(struct sim_model *model, double alpha_ms, double beta_ms, double slo_ms);
/* Sets shares: Zipf with exponent s by rank in the order listed. */
void sim_shares_zipf(struct sim_model *models, uint32_t count, double s);
