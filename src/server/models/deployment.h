/* deployment.h - the models, accelerators and profiles of a server, as they are before it starts. */
#pragma once

#include "lab/scenario/scenario.h"
#include "model/prefix/shared_prefixes.h"
#include "model/profile/child.h"
#include "model/repository/repositories.h"
#include "model/repository/start_progress.h"
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

/* Finds the models of repositories that are there at the start (CONTROL_NONE), MODEL_LOADING or set aside with their
 * reasons, or makes empty places for models that come and go; and the accelerators. The caller has set mode, from,
 * names, look_every_ns and, but for CONTROL_NONE, models_max of `control`; this function fills in the rest. With
 * share_prefixes it profiles the models of the start, each in a child process, and shows the progress on a terminal.
 * -errno with a sentence if there is nothing to serve at all, or a path is no directory. */
int deployment_from_repositories(struct deployment *deployment, struct repository_control *control,
                                 const struct deployment_options *options, struct sy_error *err);
/* Gives the models of the start (CONTROL_NONE) their profiles, so that other processes find them, and sets aside those
 * that have none. Tells `progress` how far it is; `stop` ends it early, with -EINTR. -errno with a sentence if no model
 * has a profile. */
int deployment_profile(struct deployment *deployment, const struct repository_control *control,
                       struct start_progress *progress, const _Atomic bool *stop, struct sy_error *err);
/* Shows on a terminal, at standard error, which model is measured: a line that is overwritten. For struct
 * profile_options. */
void deployment_progress_show(void *context, const struct profile_progress *progress);
/* Makes the sentence that none of the models of the start can be served. Returns -ENOENT. */
int deployment_nothing(const struct repository_control *control, const struct served_model *models,
                       struct sy_error *err);
/* Takes the models and accelerators of a scenario, emulated. */
int deployment_from_scenario(struct deployment *deployment, const struct scenario *scenario, struct sy_error *err);
void deployment_free(struct deployment *deployment);
/* The functions that run models that prepare inputs in this process; NULL: there are none. */
const struct transform_ops *deployment_transforms(void);
