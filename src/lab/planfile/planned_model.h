/* planned_model.h - a model in the file of a planner (`symphony plan squishy`, `plan split`): its name and its latency,
 * as a table, as a line, or from a zoo. */
#pragma once

#include "core/data/profile.h"
#include "core/util/conf.h"
#include "core/util/time.h"

#define PLANNED_RATE_MAX   1e9
#define PLANNED_SLO_MS_MAX 3.6e6
#define PLANNED_TIME_WHAT  "a number of milliseconds"

struct planned_model {
    char name[128], zoo[64], model[128];
    double alpha_ms, beta_ms; /* negative: not given */
    int64_t slo_ns, batch_max;
    const struct conf_node *latency;
};

#define PLANNED_MODEL_NONE                                                                                             \
    { .alpha_ms = -1, .beta_ms = -1 }

/* The keys of a model, except `slo_ms`, for a table of keys of struct S, whose member `m` is the model. */
#define PLANNED_MODEL_KEYS(S, m)                                                                                       \
    CONF_KEY_TEXT(S, m.name, "name", "a name"), CONF_KEY_TEXT(S, m.zoo, "zoo", "gtx1080ti or a100"),                   \
        CONF_KEY_TEXT(S, m.model, "model", "the name of a model in the zoo"),                                          \
        CONF_KEY_DOUBLE(S, m.alpha_ms, "alpha_ms", 0, PLANNED_SLO_MS_MAX, PLANNED_TIME_WHAT),                          \
        CONF_KEY_DOUBLE(S, m.beta_ms, "beta_ms", 0, PLANNED_SLO_MS_MAX, PLANNED_TIME_WHAT),                            \
        CONF_KEY_NODE(S, m.latency, "latency_ms"),                                                                     \
        CONF_KEY_INT(S, m.batch_max, "max_batch", 1, PROFILE_BATCH_MAX, "a number of items")

/* Takes the latency from the zoo if `node` names a model there, with the zoo's SLO if none is given. Else checks that
 * `node` gives exactly one latency. */
int planned_model_check(struct planned_model *model, const struct conf_node *node, struct sy_error *err);
/* Makes the model's profile, which the caller frees with free(). The profile ends at `batch_max`; if that is not given,
 * at the largest batch of the table, or for a line at the largest batch that the SLO, which must be set, allows. */
int planned_model_profile(const struct planned_model *model, const struct conf_node *node, struct profile **profile,
                          struct sy_error *err);
