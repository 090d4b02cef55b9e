/* ensemble_plan.h - which steps an ensemble's requests run, and how its SLO is divided among them. The thread that
 * loads models makes the plan. That thread and the main thread divide the SLO anew, or replace the plan by another. A
 * frontend copies the parts when a request begins, and the plan stays until the request has ended. */
#pragma once

#include <stdatomic.h>

#include "model/config/ensemble.h"
#include "sched/plan/pipeline.h"

struct labels;

struct ensemble_plan {
    uint64_t number; /* number of the plan, unique in this process: tells it from an earlier plan at the same address */
    const struct ensemble *ensemble;    /* graph that runs; ensembles among its steps are replaced by their own steps */
    _Atomic uint32_t runs;              /* requests of all frontends that use this plan */
    struct labels *labels[TENSORS_MAX]; /* labels of each output from the ensemble around its step; NULL: the labels of
                                           the step's model */
    struct pipeline graph;              /* stages, constant, with the parts of the first division */
    _Atomic uint64_t divisions;         /* count of divisions of the SLO; written after the parts */
    _Atomic int64_t part_ns[ENSEMBLE_STEPS_MAX]; /* part of the SLO for each step */
    _Atomic uint32_t
        batch_most[ENSEMBLE_STEPS_MAX]; /* most items of each step's batches whose run fits into its part */
};
