/* ensemble_plan.h - which steps an ensemble's requests run, and how its SLO is divided among them. The thread that
 * loads models makes the plan; the main thread, too, divides the SLO anew, or puts another plan in its place. Frontends
 * copy the parts when a request begins, which keeps the plan until it has ended. */
#pragma once

#include <stdatomic.h>

#include "model/config/ensemble.h"
#include "sched/plan/pipeline.h"

struct labels;

struct ensemble_plan {
    uint64_t number; /* unique in this process: tells the plan from an earlier one at the same address */
    const struct ensemble *ensemble;    /* the graph that runs: with the steps of ensembles that are steps */
    _Atomic uint32_t runs;              /* of all frontends, that have this plan */
    struct labels *labels[TENSORS_MAX]; /* of outputs that a step's ensemble has labels for; NULL: those of the model */
    struct pipeline graph;              /* constant; its parts are those of the first division */
    _Atomic uint64_t divisions;         /* how often it was divided; written after the parts */
    _Atomic int64_t part_ns[ENSEMBLE_STEPS_MAX];
    _Atomic uint32_t batch_most[ENSEMBLE_STEPS_MAX]; /* items of a step's batches whose run fits into its part */
};
