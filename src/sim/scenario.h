/* scenario.h - a scenario file (docs/scenarios.md): cluster, models, workload, policy and run, checked and resolved.
 *
 * Any thread; no state. What a file leaves out has its default here. Times are nanoseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/tensor.h"
#include "policy/policy.h"
#include "sched/messages.h"

#define SCENARIO_MODELS_MAX 100000

struct scenario_type {
    char name[64]; /* of the accelerator type, e.g. "gtx1080ti" */
    uint32_t count;
};

struct scenario_model {
    char name[MODEL_NAME_MAX];
    int64_t slo_ns;
    double share;                                                           /* of the offered rate; all add up to 1 */
    double alpha_ns[ACCELERATOR_TYPES_MAX], beta_ns[ACCELERATOR_TYPES_MAX]; /* l(b) = alpha*b + beta, by type */
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
    uint32_t accelerator_count; /* of all types */

    struct scenario_model *models; /* in the file's order */
    uint32_t model_count;

    struct scenario_step *steps; /* ascending, the first at 0; none: the file gives no rate */
    uint32_t step_count;
    enum scenario_arrivals arrivals;
    double gamma_shape;    /* of ARRIVALS_GAMMA: 1 is Poisson, less is burstier */
    char trace_path[4096]; /* of ARRIVALS_TRACE */

    const struct policy_ops *policy;
    struct policy_options policy_options;

    int64_t ctrl_ns, data_ns; /* delay(b) = ctrl + data*b before a batch starts */
    int64_t reply_margin_ns;  /* what an answer takes on its way back */

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
/* Frees what the scenario holds, not the struct. */
void scenario_free(struct scenario *scenario);

/* The greatest batch of a model that meets its SLO when it starts at once, on the type where it is greatest: at least
 * 1, at most PROFILE_BATCH_MAX. */
uint32_t scenario_batch_max(const struct scenario *scenario, const struct scenario_model *model);
