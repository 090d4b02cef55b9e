/* ensemble_plan.h - how an ensemble's SLO is divided among its steps. Who loads models makes it and divides it anew;
 * frontends take the parts over at the beginning of a request. */
#pragma once

#include <stdatomic.h>

#include "pipeline/pipeline.h"
#include "repository/ensemble.h"

struct ensemble_plan {
    uint64_t number;            /* no other plan of this process has it, even where this one's memory was another's */
    struct pipeline graph;      /* constant; its parts are the first ones */
    _Atomic uint64_t divisions; /* how often it was divided; written after the parts */
    _Atomic int64_t part_ns[ENSEMBLE_STEPS_MAX];
    _Atomic uint32_t batch_most[ENSEMBLE_STEPS_MAX]; /* items of a step's batches whose run fits into its part */
};
