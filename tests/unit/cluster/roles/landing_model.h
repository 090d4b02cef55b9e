/* landing_model.h - a model whose inputs are of all sorts: fixed, of any length, optional. For what checks cards. */
#pragma once

#include "model/config/served_model.h"
#include "specs.h"

static struct served_model landing_model = {
    .name = "m",
    .batch_max = 8,
    SPECS_MODEL,
    .signature = {.input_count = 3,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 3}},
                                  {.name = "s", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, -1}},
                                  {.name = "o", .type = DATATYPE_INT8, .dim_count = 1, .dims = {-1}}),
                  .inputs_optional = 4,
                  .batched = true},
};
