/* one_step.h - an ensemble of one step, which runs a model with one input "x" and one output "y". */
#pragma once

#include <string.h>

#include "model/config/ensemble.h"

/* There is one, for the model named last. */
static inline struct ensemble *one_step(const char *model) {
    static struct ensemble_flow x = {.name = "x", .tensor = 0}, y = {.name = "y", .tensor = 1};
    static struct ensemble_step step = {.written = 1,
                                        .inputs = &x,
                                        .outputs = &y,
                                        .input_count = 1,
                                        .output_count = 1,
                                        .each = ENSEMBLE_NONE,
                                        .when = ENSEMBLE_NONE};
    static struct ensemble graph = {.steps = &step,
                                    .step_count = 1,
                                    .tensor_count = 2,
                                    .input_count = 1,
                                    .tensors = {{.name = "x", .step = ENSEMBLE_NONE, .output = ENSEMBLE_NONE},
                                                {.name = "y", .step = 0, .output = 0}}};
    strcpy(step.model, model);
    return &graph;
}
