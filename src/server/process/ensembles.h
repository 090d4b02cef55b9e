/* ensembles.h - makes ensembles ready to be served: finds the models of their steps, checks that they fit together, and
 * divides the ensemble's SLO among the steps. For the thread that loads models. */
#pragma once

#include "front/request/infer_counters.h"
#include "model/repository/model_index.h"
#include "server/process/server.h"

/* What an ensemble's models are looked up in. */
struct ensemble_world {
    struct served_model *models; /* by number */
    const uint32_t *listed;      /* [count] numbers of those to choose from; NULL: all */
    uint32_t count;
    const struct server_accelerators *accelerators; /* [type_count] with their profiles */
    uint32_t type_count;
    bool elsewhere;     /* requests come to other frontends, too, whose counts are not known */
    uint64_t published; /* how many lists of models frontends have come to use since the start */
};

/* Makes the ensemble's plan, and sets its SLO if none was given. Its steps' models are ready; those that are ensembles
 * can run, and have their steps in it. -EINVAL with a sentence that names file, line and step: there is no such model,
 * it is not ready, or does not fit; or ensembles are steps of each other. */
int ensemble_prepare(struct served_model *ensemble, const struct ensemble_world *world, struct sy_error *err);
/* 0: the ensemble can run with the models as they are now; else -EINVAL as above. Every 30 seconds, and when a step's
 * model was replaced, this divides the SLO anew, by how many items the steps have had and at what rate; when a step's
 * ensemble has other steps, it makes another plan. `counts`: of all frontends together; `now_ns`: clock_now_ns(). */
int ensemble_look(struct served_model *ensemble, const struct ensemble_world *world, const struct step_counters *counts,
                  int64_t now_ns, struct sy_error *err);
/* Logs the ensemble and, once it has a plan, each step's part of the SLO. */
void ensemble_log(const struct served_model *ensemble);
/* ensemble_prepare() if that has not been done, else ensemble_look(): 0, or why the ensemble cannot run now. For the
 * thread that publishes models, under the lock of the models. */
int server_ensemble_able(const struct server *server, struct served_model *ensemble, const struct ensemble_world *world,
                         struct sy_error *err);
/* Frees the ensemble and what ensemble_prepare() made of it. Does nothing if the model is no ensemble. */
void ensemble_release(struct served_model *ensemble);
