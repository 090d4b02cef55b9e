/* scenario.h - a scenario file (docs/scenarios.md): cluster, models, workload, policy and run, checked and resolved.
 *
 * Any thread; no state. What a file leaves out has its default here. Times are nanoseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/messages.h"
#include "core/data/profile.h"
#include "core/data/tensor.h"
#include "core/util/error.h"
#include "lab/scenario/query_size.h"
#include "lab/scenario/trace.h"
#include "sched/core/policy.h"
#include "sched/plan/autoscale.h"
#include "sched/plan/pipeline.h"

#define SCENARIO_MODELS_MAX    100000
#define SCENARIO_PIPELINES_MAX 1000
#define SUBCLUSTERS_MAX        64

struct scenario_type {
    char name[64]; /* of the accelerator type, e.g. "gtx1080ti" */
    uint32_t count;
    double price; /* dollars an hour for one; 0: not known */
};

/* l(b) on one type: a line, or measured points, between which and beyond which it is interpolated. */
struct scenario_latency {
    double alpha_ns, beta_ns; /* l(b) = alpha*b + beta, if there are no points */
    uint32_t points;
    const uint32_t *batch; /* [points], ascending; the zoo's or the scenario's */
    const int64_t *latency_ns;
};

/* Memory of a table of points that the file gives: latencies, then batches. */
struct scenario_points {
    struct scenario_points *next;
    int64_t latency_ns[];
};

struct scenario_model {
    char name[MODEL_NAME_MAX];
    int64_t slo_ns;              /* if it has none of its own: the least part that it gets of a pipeline's */
    bool own_slo, own_batch_max; /* given */
    bool staged;                 /* a stage of some pipeline: no traffic of its own, unless it has a share */
    double weight;               /* of its share under overload, against the other models' */
    double share;                /* of the offered rate; all add up to 1 */
    double best_effort;          /* share of its requests that have no SLO */
    uint32_t priority_count;
    double priorities[PRIORITIES_MAX]; /* shares of its other requests, from the highest on; they add up to 1 */
    double surge_at_s, surge_factor;   /* as sim_model's */
    uint32_t batch_max; /* as given, or the greatest batch that meets the SLO when it starts at once, on the type where
                           it is greatest: 1 to PROFILE_BATCH_MAX */
    uint64_t weights_bytes;                                 /* that it takes on an accelerator; 0: not known */
    int64_t load_ns;                                        /* what loading it there takes */
    struct scenario_latency latency[ACCELERATOR_TYPES_MAX]; /* by type */
    uint32_t variants; /* over 0: it stands for so many models, with one traffic, that share what `latency` is of; */
    struct scenario_latency suffix[ACCELERATOR_TYPES_MAX]; /* and each then runs this for its own items */
};

/* A query of several models. */
struct scenario_pipeline {
    char name[MODEL_NAME_MAX];
    double share; /* of the offered rate, with the models' */
    char stage_names[PIPELINE_STAGES_MAX][MODEL_NAME_MAX];
    bool gathering; /* its SLO is split by its rate, for batches that gather */
    struct pipeline graph;
};

/* From `start_ns` on, warm-up included, the models together are offered `rate_rps`. */
struct scenario_step {
    int64_t start_ns;
    double rate_rps;
};

enum scenario_arrivals { ARRIVALS_POISSON, ARRIVALS_UNIFORM, ARRIVALS_GAMMA, ARRIVALS_TRACE };

struct scenario_autoscale {
    bool enabled;
    int64_t min, max; /* accelerators */
    int64_t start_delay_ns, every_ns;
    double headroom; /* share of accelerators to keep idle */
};

struct scenario {
    struct scenario_type types[ACCELERATOR_TYPES_MAX];
    uint32_t type_count;
    uint32_t accelerator_count;     /* of all types */
    uint64_t memory_bytes;          /* of an accelerator, for weights; 0: enough for all models */
    double noise;                   /* as sim_config's */
    double fault_every_s, fault_s;  /* as sim_config's; 0: none */
    double fault_stalls;            /* as sim_config's */
    bool fault_again, fault_silent; /* likewise */
    int64_t fault_noticed_ns, fault_backends;
    double scheduler_every_s, scheduler_down_s; /* likewise */
    uint32_t subclusters;                       /* each with its share of each type */
    double epoch_s, max_rate_rps; /* how often models may move between them; limit of each. 0: never, none */

    struct scenario_model *models; /* in the file's order */
    uint32_t model_count;
    struct scenario_pipeline *pipelines; /* in the file's order */
    uint32_t pipeline_count;
    struct scenario_points *points; /* that the models' latencies point into */

    struct scenario_step *steps; /* ascending, the first at 0; none: the file gives no rate */
    uint32_t step_count;
    enum scenario_arrivals arrivals;
    double gamma_shape;      /* of ARRIVALS_GAMMA: 1 is Poisson, less is burstier */
    struct trace_spec trace; /* of ARRIVALS_TRACE */
    struct query_size_spec query_size;

    const struct policy_ops *policy;
    struct policy_options policy_options;

    int64_t ctrl_ns, data_ns;               /* delay(b) = ctrl + data*b before a batch starts */
    int64_t reply_margin_ns;                /* what an answer takes on its way back */
    int64_t message_ns;                     /* what a message between model cores and rank cores takes */
    int64_t link_jitter_ns, link_resend_ns; /* as sim_config's */
    int64_t link_margin_ns;
    double link_loss;

    struct scenario_autoscale autoscale;

    int64_t duration_ns, warmup_ns; /* measured time, and what runs before it */
    int64_t seed;
};

/* Reads a file, changed by `sets`, each "KEY=VALUE" with a dotted key ("workload.rate_rps=7000"). -EINVAL with
 * "PATH:LINE: KEY: sentence" ("--set: KEY: sentence"), or the file's -errno. Free what it gives with
 * scenario_free(); after an error it is empty. */
int scenario_read(const char *path, const char *const *sets, uint32_t set_count, struct scenario *scenario,
                  struct sy_error *err);
/* The same from memory; `origin` is what mistakes call it. */
int scenario_read_text(const char *origin, const char *text, size_t bytes, const char *const *sets, uint32_t set_count,
                       struct scenario *scenario, struct sy_error *err);
/* The configuration of autoscaling that a scenario has enabled. */
struct autoscale_config scenario_autoscale_config(const struct scenario_autoscale *autoscale);
/* Frees what the scenario holds, not the struct. */
void scenario_free(struct scenario *scenario);

/* Fills a model's table on one type of the cluster, for batches up to `batch_max`. Of variants: core/data/shared.h. */
void scenario_profile(const struct scenario_model *model, uint32_t type, uint32_t batch_max, struct profile *profile);
/* The table of what variants share, and that of one variant's suffix. */
void scenario_variants(const struct scenario_model *model, uint32_t type, uint32_t batch_max, struct profile *prefix,
                       struct profile *suffix);
/* A model that has variants; NULL: there is none. Programs that serve single models, or send requests to them, refuse
 * such scenarios. */
const struct scenario_model *scenario_with_variants(const struct scenario *scenario);
