/* scenario_served.h - makes served models from the models of a scenario: emulated, with the scenario's profiles. */
#pragma once

#include <stdint.h>

#include "core/data/profile.h"
#include "core/util/error.h"
#include "lab/scenario/scenario.h"
#include "model/config/served_model.h"

/* Makes the scenario's models, in its order, ready to be served: platform "emulated", one input INPUT and one output
 * OUTPUT, both FP32 [-1,1] with a batch dimension, the SLO, and batches as large as the SLO permits. `*profiles` gets
 * the profile of each model and type, at [model * scenario->type_count + type], up to the model's batch_max. -ENOMEM.
 * Free with scenario_models_free(). */
int scenario_served_models(const struct scenario *scenario, struct served_model **models, struct profile ***profiles,
                           uint32_t *count, struct sy_error *err);
/* NULLs are allowed. */
void scenario_models_free(const struct scenario *scenario, struct served_model *models, struct profile **profiles,
                          uint32_t count);
