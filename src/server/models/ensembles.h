/* ensembles.h - makes ensembles ready to be served: finds the models of their steps, checks that they fit together, and
 * divides the ensemble's SLO among the steps. For the thread that loads models. */
#pragma once

#include "front/request/infer_counters.h"
#include "server/threads/model_list.h"

/* The models among which those of an ensemble's steps are looked up. */
struct ensemble_world {
    struct served_model *models; /* models by number */
    const uint32_t *listed;      /* [count] numbers of the models to choose from; NULL: all of `models` */
    uint32_t count;
    const struct server_accelerators *accelerators; /* [type_count] accelerators, with the models' profiles */
    uint32_t type_count;
    bool elsewhere;     /* whether requests also come to other frontends, whose counts are not known */
    uint64_t published; /* number of lists of models that frontends have come to use since the start */
};

/* Makes the ensemble's plan, and sets its SLO if none was given. Models of steps must be ready, and ensembles among
 * them must be able to run; the plan then has their steps instead. -EINVAL with a sentence that names file, line and
 * step: there is no such model, it is not ready, or does not fit; or ensembles are steps of each other. */
int ensemble_prepare(struct served_model *ensemble, const struct ensemble_world *world, struct sy_error *err);
/* Checks what ensemble_prepare() would, and makes no plan. */
int ensemble_fits(const struct served_model *ensemble, const struct ensemble_world *world, struct sy_error *err);
/* 0: the ensemble can run with the models as they are now; else -EINVAL as for ensemble_prepare(). Every 30 seconds,
 * and when a step's model was replaced, ensemble_look() divides the SLO anew, by the number and the rate of the steps'
 * items. When an ensemble that is a step has other steps, ensemble_look() makes another plan. `counts`: those of all
 * frontends together; `now_ns`: clock_now_ns(). */
int ensemble_look(struct served_model *ensemble, const struct ensemble_world *world, const struct step_counters *counts,
                  int64_t now_ns, struct sy_error *err);
/* Logs the ensemble and, once it has a plan, each step's part of the SLO. */
void ensemble_log(const struct served_model *ensemble);
/* Calls ensemble_prepare() if the ensemble has no plan yet, else ensemble_look(). 0, or -errno with a sentence that
 * says why the ensemble cannot run now. For the thread that publishes models, under the lock of the models. */
int ensemble_able(const struct frontends *frontends, struct served_model *ensemble, const struct ensemble_world *world,
                  struct sy_error *err);
/* Sets listed ensembles aside while the model of a step cannot be asked, and takes them back; `elsewhere` as in
 * ensemble_world: only divides their SLOs anew, since cluster_models.c lists those that can run. Any thread. */
void ensembles_look(struct model_list *list, const struct server_accelerators *accelerators, uint32_t type_count,
                    bool elsewhere);
/* Frees the plans that ensemble_prepare() made, before served_model_release(). */
void ensemble_release(struct served_model *ensemble);
