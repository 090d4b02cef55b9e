/* deployment.h - the models, accelerators and profiles of a server, made ready before it starts. */
#pragma once

#include "lab/scenario/scenario.h"
#include "model/prefix/shared_prefixes.h"
#include "model/repository/repositories.h"
#include "server/models/accelerators.h"
#include "server/threads/model_control.h"
#include "server/threads/server_config.h"

/* Owns everything it points to. */
struct deployment {
    struct served_model *models;
    uint32_t model_count;
    struct server_accelerators accelerators[ACCELERATOR_TYPES_MAX];
    uint32_t type_count;
    struct profile **profiles; /* every profile that `accelerators` points to */
    uint32_t profile_count;
    struct shared_prefixes shared; /* models that share their first layers; empty unless share_prefixes was set */
};

struct deployment_options {
    const struct accelerator_group *groups;
    uint32_t group_count;
    int64_t slo_ns;  /* SLO of models that give none; 0: chosen from the profile */
    cpu_set_t cores; /* cores of executors, on the first of which profiles are measured; empty: any cores */
    const char *cache_dir;
    bool backend;        /* whether the frontends are in other processes */
    bool share_prefixes; /* whether models that begin with the same layers are found; on CPU accelerators only, and not
                          * in a backend */
};

/* Finds and completes the models of repositories. Profiles those without a cached profile, each in a child process, and
 * shows the progress on a terminal. Models that cannot be served stay in the deployment, MODEL_UNAVAILABLE with their
 * reason. -errno with a sentence if there is nothing to serve at all. */
int deployment_from_repositories(struct deployment *deployment, const struct repositories *from,
                                 const struct deployment_options *options, struct sy_error *err);
/* Makes empty places for models that come and go, and the accelerators. The caller has set mode, from, names,
 * look_every_ns and models_max of `control`; this function fills in the rest. -errno with a sentence if a path is no
 * directory. */
int deployment_for_control(struct deployment *deployment, struct repository_control *control,
                           const struct deployment_options *options, struct sy_error *err);
/* Takes the models and accelerators of a scenario, emulated. */
int deployment_from_scenario(struct deployment *deployment, const struct scenario *scenario, struct sy_error *err);
void deployment_free(struct deployment *deployment);
/* The functions that run models that prepare inputs in this process; NULL: there are none. */
const struct transform_ops *deployment_transforms(void);
