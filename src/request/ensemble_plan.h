/* ensemble_plan.h - how an ensemble's SLO is divided among its steps. The thread that loads models makes the plan; the
 * main thread, too, divides the SLO anew. Frontends copy the parts when a request begins. */
#pragma once

#include <stdatomic.h>

#include "pipeline/pipeline.h"
#include "repository/ensemble.h"

struct ensemble_plan {
    uint64_t number;            /* unique in this process: tells the plan from an earlier one at the same address */
    struct pipeline graph;      /* constant; its parts are those of the first division */
    _Atomic uint64_t divisions; /* how often it was divided; written after the parts */
    _Atomic int64_t part_ns[ENSEMBLE_STEPS_MAX];
    _Atomic uint32_t batch_most[ENSEMBLE_STEPS_MAX]; /* items of a step's batches whose run fits into its part */
};
