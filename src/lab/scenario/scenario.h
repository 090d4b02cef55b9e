/* scenario.h - a scenario file (docs/scenarios.md): cluster, models, workload, policy and run, checked and resolved.
 *
 * Any thread; no state. Values that the file does not give have their defaults. Times are nanoseconds. */
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
    char name[64]; /* name of the accelerator type, e.g. "gtx1080ti" */
    uint32_t count;
    uint32_t most; /* with autoscale: most accelerators of the type that there may be */
    double price;  /* price of one accelerator in dollars an hour; 0: not known */
};

/* The latency l(b) of a batch of b items on one type: a line, or measured points with interpolation between and beyond
 * them. */
struct scenario_latency {
    double alpha_ns, beta_ns; /* line l(b) = alpha*b + beta; not used if there are points */
    uint32_t points;
    const uint32_t *batch; /* [points] ascending batch sizes, in memory of the zoo or the scenario */
    const int64_t *latency_ns;
};

/* Memory of a table of points that the file gives: latencies, then batches. */
struct scenario_points {
    struct scenario_points *next;
    int64_t latency_ns[];
};

struct scenario_model {
    char name[MODEL_NAME_MAX];
    int64_t slo_ns; /* SLO; of a model without an SLO of its own: the smallest part that a pipeline's SLO gives it */
    bool own_slo, own_batch_max; /* whether the file gives slo_ns, batch_max */
    bool staged;   /* whether the model is a stage of a pipeline: without a share it then has no traffic of its own */
    double weight; /* weight of the model under overload, relative to the other models */
    double share;  /* share of the offered rate; the shares of models and pipelines add up to 1 */
    double best_effort; /* share of the model's requests that have no SLO */
    uint32_t priority_count;
    double priorities[PRIORITIES_MAX]; /* shares of priorities in the requests with an SLO, from the highest priority
                                        * on; they add up to 1 */
    double surge_at_s, surge_factor;   /* as in sim_model */
    uint32_t batch_max; /* most items of a batch, 1 to PROFILE_BATCH_MAX; not given: the largest batch that meets the
                         * SLO if it starts at once, on the type that can run the largest */
    uint64_t weights_bytes;                                 /* bytes of weights on an accelerator; 0: not known */
    int64_t load_ns;                                        /* time to load the weights onto an accelerator */
    bool pinned;                                            /* as in sim_model */
    struct scenario_latency latency[ACCELERATOR_TYPES_MAX]; /* latencies by type; with variants, those of the prefix */
    uint32_t variants; /* number of models, with one traffic, that share a prefix; 0: a single model */
    struct scenario_latency suffix[ACCELERATOR_TYPES_MAX]; /* with variants: latencies of a variant's suffix, by type */
};

/* A query of several models. */
struct scenario_pipeline {
    char name[MODEL_NAME_MAX];
    double share; /* share of the offered rate; the shares of models and pipelines add up to 1 */
    char stage_names[PIPELINE_STAGES_MAX][MODEL_NAME_MAX];
    bool gathering; /* whether the SLO is split by the pipeline's rate, with time for batches to gather */
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
    int64_t min, max; /* least and most accelerators */
    int64_t start_delay_ns, every_ns;
    double headroom; /* share of accelerators to keep idle */
};

struct scenario {
    struct scenario_type types[ACCELERATOR_TYPES_MAX];
    uint32_t type_count;
    uint32_t accelerator_count;                 /* accelerators of all types */
    uint64_t memory_bytes;                      /* memory of an accelerator for weights; 0: enough for all models */
    double link_bytes_s;                        /* bytes/s at which weights come to an accelerator */
    double noise;                               /* as in sim_config */
    double fault_every_s, fault_s;              /* as in sim_config; 0: no faults */
    double fault_stalls;                        /* as in sim_config */
    bool fault_again, fault_silent;             /* as in sim_config */
    int64_t fault_noticed_ns, fault_backends;   /* as in sim_config, where fault_backends is `backends` */
    double scheduler_every_s, scheduler_down_s; /* as in sim_config */
    uint32_t subclusters;                       /* number of sub-clusters; each has its share of each type */
    double epoch_s, max_rate_rps;  /* time between moves of models from one sub-cluster to another; 0: no moves. Highest
                                    * rate of a sub-cluster; 0: no limit */
    struct scenario_model *models; /* [model_count] in the file's order */
    uint32_t model_count;
    struct scenario_pipeline *pipelines; /* [pipeline_count] in the file's order */
    uint32_t pipeline_count;
    struct scenario_points *points; /* list of tables that the models' latencies point into */

    struct scenario_step *steps; /* [step_count] in the order of their times, the first at 0; none: the file gives no
                                  * rate */
    uint32_t step_count;
    enum scenario_arrivals arrivals;
    double gamma_shape;      /* shape of ARRIVALS_GAMMA; 1: Poisson; less: burstier */
    struct trace_spec trace; /* trace of ARRIVALS_TRACE */
    struct query_size_spec query_size;

    const struct policy_ops *policy;
    struct policy_options policy_options;

    int64_t ctrl_ns, data_ns;               /* delay(b) = ctrl + data*b before a batch starts */
    int64_t reply_margin_ns;                /* time of an answer's way back */
    int64_t message_ns;                     /* time of a message between model cores and rank cores */
    int64_t link_jitter_ns, link_resend_ns; /* as in sim_config */
    int64_t link_margin_ns;                 /* as in sim_config */
    double link_loss;                       /* as in sim_config */

    struct scenario_autoscale autoscale;

    int64_t duration_ns, warmup_ns; /* measured time, and the time of warm-up before it */
    int64_t seed;
};

/* Reads a file, changed by `sets`, each "KEY=VALUE" with a dotted key ("workload.rate_rps=7000"). -EINVAL with
 * "PATH:LINE: KEY: sentence" ("--set: KEY: sentence"), or the file's -errno. Free the scenario with scenario_free();
 * after an error it is empty. */
int scenario_read(const char *path, const char *const *sets, uint32_t set_count, struct scenario *scenario,
                  struct sy_error *err);
/* Reads a scenario from memory, as scenario_read(); `origin` is its name in error messages. */
int scenario_read_text(const char *origin, const char *text, size_t bytes, const char *const *sets, uint32_t set_count,
                       struct scenario *scenario, struct sy_error *err);
/* The configuration of autoscaling that a scenario has enabled. */
struct autoscale_config scenario_autoscale_config(const struct scenario_autoscale *autoscale);
/* Frees what the scenario holds, not the struct. */
void scenario_free(struct scenario *scenario);

/* Fills a model's table on one type of the cluster, for batches up to `batch_max`. For a model with variants the table
 * is that of core/data/shared.h. */
void scenario_profile(const struct scenario_model *model, uint32_t type, uint32_t batch_max, struct profile *profile);
/* Fills the table of the prefix that variants share, and that of a variant's suffix. */
void scenario_variants(const struct scenario_model *model, uint32_t type, uint32_t batch_max, struct profile *prefix,
                       struct profile *suffix);
/* Finds a model that has variants; NULL: there is none. Programs that serve single models, or send requests to them,
 * refuse such scenarios. */
const struct scenario_model *scenario_with_variants(const struct scenario *scenario);
