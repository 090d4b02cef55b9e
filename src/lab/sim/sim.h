/* sim.h - an emulated cluster in virtual time: workloads, the scheduler's own cores, and accelerators that take l(b).
 *
 * A run is a function of its configuration and seed: one event after the other, in int64 nanoseconds, ties in a fixed
 * order. It drives the very model cores and rank cores of the live server, through the same messages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/profile.h"
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
#define SIM_QUERIES_MAX ((1U << SIM_QUERY_BITS) - 1) /* at once; more are dropped */

static inline uint64_t sim_request_number(uint64_t handle) {
    return handle & ((1ULL << SIM_NUMBER_BITS) - 1);
}

enum sim_arrivals { SIM_POISSON, SIM_UNIFORM, SIM_GAMMA, SIM_TRACE };

struct sim_model {
    char name[SIM_NAME_MAX];
    const struct profile *profiles[ACCELERATOR_TYPES_MAX]; /* by type; NULL: does not run on it */
    uint32_t batch_max;                                    /* items; at most every profile's */
    int64_t slo_ns;
    double weight;                     /* of its share under overload, against the other models'; 0: 1 */
    double share;                      /* of all requests, relative to the other models' */
    double best_effort;                /* share of its requests that have no SLO */
    uint32_t priority_count;           /* 0: all have the highest */
    double priorities[PRIORITIES_MAX]; /* shares of the other requests, from the highest on; they add up to 1 */
    uint32_t items_least, items_most;  /* of a request, uniform */
    double slo_spread;                 /* a request's SLO is uniform in slo*(1 - spread .. 1 + spread) */
    double surge_at_s, surge_factor;   /* from then on its rate is multiplied; factor 0: never */
    uint64_t weights_bytes;            /* that it takes on an accelerator, where memory is limited */
    int64_t load_ns;                   /* what loading it there takes */
    uint32_t variants; /* over 0: it stands for so many models that share a prefix; each request is for one of them, all
                          as likely. A batch runs the prefix for its items, and each variant's suffix for that one's;
                          `profiles` has the most that this can take (core/data/shared.h) */
    const struct profile *prefixes[ACCELERATOR_TYPES_MAX], *suffixes[ACCELERATOR_TYPES_MAX]; /* of variants, by type */
};

/* Queries of several models. Each item of a stage is a request. */
struct sim_pipeline {
    struct sim_model queries; /* how they come: name, SLO, share; a query begins with one item */
    struct pipeline graph;    /* its models are those of the config */
};

struct sim_rate_step {
    double at_s; /* from the start, warm-up included */
    double rate_rps;
};

/* Told what happens in a run, as it happens; any member may be NULL. */
struct sim_observer {
    void *context;
    void (*arrived)(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items, uint8_t priority,
                    int64_t deadline_ns);
    void (*refused)(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason);
    /* A batch is sent to an accelerator, which may still be busy. expected_end_ns: when it ends if this batch, and all
     * that the accelerator still has to do, takes as long as the tables in force say, delays included. */
    void (*sent)(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items,
                 int64_t expected_end_ns);
    void (*joined)(void *context, uint64_t handle); /* each request of the batch just sent */
    /* It begins to run; end_ns: when it will end, if nothing happens to the accelerator. */
    void (*began)(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items, int64_t end_ns);
    /* It ends, or goes down with the accelerator. */
    void (*ended)(void *context, int64_t now_ns, uint32_t accelerator);
    /* With several sub-clusters: the model is of `part` from now on (UINT32_MAX: of none), and once a move is over, for
     * how long no rank core knew the model. */
    void (*assigned)(void *context, int64_t now_ns, uint32_t model, uint32_t part);
    void (*moved)(void *context, int64_t now_ns, uint32_t model, int64_t wait_ns);
    /* A request of a batch is answered; `ran` false: the batch was not run, or was lost. */
    void (*answered)(void *context, int64_t now_ns, uint64_t handle, bool ran);
    /* A request's batch was lost, and the frontend sends the request again. */
    void (*sent_again)(void *context, int64_t now_ns, uint64_t handle);
    /* A query arrives, by a number from 0 on; a stage of it begins, with items that arrive at once as requests, or
     * none; it ends. */
    void (*query_arrived)(void *context, int64_t now_ns, uint64_t query, uint32_t pipeline, int64_t deadline_ns);
    void (*stage_began)(void *context, int64_t now_ns, uint64_t query, uint32_t stage, uint32_t items);
    void (*query_ended)(void *context, int64_t now_ns, uint64_t query, enum query_end end, enum refusal reason);
    /* A model was loaded onto an accelerator from begin_ns until now, or unloaded. */
    void (*loaded)(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, bool in, int64_t begin_ns);
};

struct sim_config {
    const struct sim_model *models;
    uint32_t model_count;
    const struct sim_pipeline *pipelines; /* [pipeline_count] */
    uint32_t pipeline_count;
    const uint8_t *accelerator_type; /* [accelerators] */
    uint32_t accelerators, types;
    uint32_t subclusters;       /* each with its rank core, its share of each type, and models; 0: one. Policies by
                                   candidates */
    double epoch_s;             /* how often models may move between them (sched/plan/balance.h); 0: they stay */
    double subcluster_rate_max; /* items/s that each is to have at most; 0: any */
    double forced_moves_rate;   /* besides, so many models a second move anywhere, for tests; 0: none */
    double forced_away;         /* share of these that first leave for nowhere, for a while */
    const struct autoscale_config *autoscale; /* NULL: all accelerators are there throughout */
    uint32_t accelerators_first;              /* with autoscale: to begin with */
    enum sim_arrivals arrivals;
    double gamma_shape;
    const struct trace *trace;         /* of SIM_TRACE: replayed so that its mean is the rate of the steps */
    const struct sim_rate_step *steps; /* the first at 0; ascending */
    uint32_t step_count;
    const struct query_sizes *query_sizes; /* items of every request; NULL: each model's items_least to items_most */
    int64_t ctrl_ns, data_ns, reply_margin_ns; /* delay(b) = ctrl + data*b before a batch; the way back of an answer */
    int64_t message_ns, message_jitter_ns;     /* between the cores, each way; jitter is uniform and keeps the order */
    double noise;                  /* a batch takes l(b) * (1 + noise * x), x exponential with mean 1, at most 5 */
    bool learn;                    /* the cores correct their tables from measured runs */
    double cancel_share;           /* of requests, whose client leaves before the deadline; not with links' faults */
    double fault_every_s, fault_s; /* mean time between two faults and their mean length; 0: none. None in the last
                                      tenth of the run */
    double fault_stalls;           /* share of them after which an accelerator goes on where it was; else what it had
                                      to do is lost */
    uint32_t backends;             /* processes that the accelerators are divided among, in order; all accelerators of
                                      a backend have a fault together. 0: one accelerator has it */
    bool fault_again;              /* requests whose batch is lost are sent again, if their deadlines allow. Not with
                                      pipelines nor autoscale */
    bool fault_silent;             /* instead of losing its batches at once, a backend stands still, and counts as gone
                                      after fault_noticed_ns */
    int64_t fault_noticed_ns;
    /* Faults of the network (sim_links.c), not with pipelines nor autoscale. Each message between the scheduler,
     * frontends and accelerators is late by up to link_jitter_ns, uniform. With probability link_loss it is lost, and
     * sent again link_resend_ns later; if that is lost, too, after twice that time, and so on. */
    int64_t link_jitter_ns, link_resend_ns;
    int64_t link_margin_ns; /* policies plan batches to end that much earlier, as room for delays */
    double link_loss;
    /* Mean time until the scheduler dies, and until another one takes over; 0: never. It does not die in the last tenth
     * of the run. Not with pipelines, autoscale, sub-clusters nor limited memory. */
    double scheduler_every_s, scheduler_down_s;
    double seconds, warmup_s; /* requests that arrive during `seconds` after the warm-up count */
    uint64_t seed;
    uint64_t memory_bytes;   /* of an accelerator, for weights; 0: every model is loaded everywhere. Central policies */
    bool rates_known;        /* central policies are told the first rates */
    uint32_t queue_capacity; /* requests in the scheduler at once; more are refused. 0: plenty */
    const struct policy_ops *policy;
    struct policy_options options;
    const struct sim_observer *observer; /* or NULL */
    double give_up_bad; /* the run ends early as soon as the bad requests of a model, or queries of a pipeline, exceed
                           this share of all that it is to be offered, and ten; 0: never */
    bool (*go_on)(void *context, int64_t now_ns); /* every few thousand events; false ends the run early. Or NULL */
    void *go_on_context;
};

/* Advice in a run: from then on there should be so many accelerators. */
struct sim_advice {
    double at_s;
    uint32_t accelerators;
};

enum sim_outcome { SIM_GOOD, SIM_DROPPED, SIM_LATE, SIM_CANCELLED, SIM_OUTCOMES };

/* Requests of one priority, or best effort. */
struct sim_class_result {
    uint64_t count[SIM_OUTCOMES];
    struct sim_times latency; /* of those that ran */
};

/* Best effort counts by itself alone, but for the batches. */
struct sim_model_result {
    uint64_t offered, good, dropped, late, cancelled; /* requests; offered is the sum of the others */
    uint64_t batches, batch_items;
    uint64_t moves;                     /* to another sub-cluster, in the whole run */
    uint64_t loads;                     /* onto an accelerator */
    uint64_t cold;                      /* requests that came while no accelerator had the model */
    uint64_t suffix_runs;               /* of variants: suffixes in those batches, */
    int64_t prefix_ns, suffix_ns;       /* and what the two kinds of parts took, but for noise */
    uint32_t *batch_sizes;              /* [batch_max + 1] batches, by their items */
    struct sim_times latency, queueing; /* of the requests that ran: arrival to answer, and to the batch's start */
    struct sim_class_result *best_effort, *priorities; /* NULL: it has no such requests; [priority_count] */
};

/* Requests of a stage: those that ended before the stage's deadline, were refused, ended later or were lost, or were
 * taken back since their query had ended. */
struct sim_stage_result {
    uint64_t count[SIM_OUTCOMES];
    struct sim_times latency; /* of those that ran */
};

/* Whole queries. */
struct sim_pipeline_result {
    uint64_t offered, good, dropped, late, cancelled;
    struct sim_times latency;        /* of the good ones */
    struct sim_stage_result *stages; /* [stage_count] */
};

/* A model's requests are those of its own traffic; its batches are also those of pipelines' requests. */
struct sim_result {
    struct sim_model_result *models;                  /* [model_count] */
    struct sim_pipeline_result *pipelines;            /* [pipeline_count] */
    uint64_t offered, good, dropped, late, cancelled; /* requests of models' own traffic, and queries */
    uint64_t batches, batch_items;
    uint64_t loads, cold;
    uint64_t requests;                      /* warm-up included */
    uint64_t moves;                         /* of models to another sub-cluster, warm-up included */
    uint64_t takeovers;                     /* deaths of the scheduler, warm-up included */
    uint64_t sent_again;                    /* requests whose batch was lost, warm-up included */
    int64_t move_wait_ns, move_wait_max_ns; /* in which no rank core knew the model: of all moves together, and most */
    struct central_moves placement;         /* of a central policy that binds models to accelerators */
    double worst_bad_rate;                  /* of a model or pipeline: bad over offered */
    double busy;                            /* share of the accelerators' time spent running, while requests counted */
    double accelerators_mean;               /* in service, while requests counted */
    uint32_t accelerators_max;              /* in service at once, ever */
    uint64_t joins, departures; /* of accelerators, by faults and autoscale; those with autoscale that are not there at
                                   the beginning are no departures */
    struct sim_advice *advice;  /* [advice_count] changes, with autoscale */
    uint32_t advice_count;
    uint32_t accelerators_used; /* that ever ran a batch */
    uint32_t stuck;             /* accelerators that the rank core did not get back; 0 unless something is broken */
    uint32_t unanswered;        /* requests and queries still there at the end; 0 unless something is broken */
    double way_share[POLICY_WAYS_MAX]; /* of the time in which requests count: by which way the policy decided */
    bool gave_up, stopped;             /* ended early, by give_up_bad or go_on; the rest is of what ran until then */
};

/* Memory that a run needs, aligned as malloc's; results included. */
size_t sim_bytes(const struct sim_config *config);
/* Runs; `result->models` points into `memory`. */
void sim_run(const struct sim_config *config, void *memory, struct sim_result *result);

/* A model of one type and one item a request, whose batches take alpha*b + beta up to what its SLO has time for; share
 * 1, no name. Its profile is the caller's to free(). False: out of memory. */
bool sim_model_line(struct sim_model *model, double alpha_ms, double beta_ms, double slo_ms);
/* Sets shares: equal, or Zipf with exponent s by rank in the order listed. */
void sim_shares_equal(struct sim_model *models, uint32_t count);
void sim_shares_zipf(struct sim_model *models, uint32_t count, double s);
