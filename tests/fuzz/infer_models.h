/* infer_models.h - models of several signatures, and what must hold of a request that is accepted for one of them; for
 * the fuzz targets of both wire formats. */
#pragma once

#include <stdint.h>

#include "blocks.h"
#include "core/data/strings.h"
#include "core/util/container.h"
#include "front/request/classify.h"
#include "front/request/infer_call.h"
#include "specs.h"

static const struct served_model models[] = {
    {.name = "batched",
     SPECS_MODEL,
     .batch_max = 8,
     .signature = {.input_count = 2,
                   .output_count = 2,
                   .batched = true,
                   .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}},
                                   {.name = "ids", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}}),
                   .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}},
                                    {.name = "z", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}})}},
    {.name = "images",
     SPECS_MODEL,
     .batch_max = 4,
     .item_elements = 3072,
     .signature = {.input_count = 1,
                   .output_count = 1,
                   .batched = true,
                   .variable_shapes = true,
                   .inputs = SPECS({.name = "x", .type = DATATYPE_UINT8, .dim_count = 4, .dims = {-1, 3, -1, -1}}),
                   .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 10}})}},
    {.name = "single",
     SPECS_MODEL,
     .batch_max = 1,
     .signature = {.input_count = 1,
                   .output_count = 1,
                   .inputs = SPECS({.name = "x", .type = DATATYPE_FP64, .dim_count = 2, .dims = {2, 2}}),
                   .outputs = SPECS({.name = "y", .type = DATATYPE_FP64, .dim_count = 2, .dims = {2, 2}})}},
    {.name = "types",
     SPECS_MODEL,
     .batch_max = 2,
     .signature = {.input_count = 4,
                   .output_count = 1,
                   .batched = true,
                   .inputs = SPECS({.name = "b", .type = DATATYPE_BOOL, .dim_count = 2, .dims = {-1, 2}},
                                   {.name = "h", .type = DATATYPE_FP16, .dim_count = 2, .dims = {-1, 2}},
                                   {.name = "f", .type = DATATYPE_BF16, .dim_count = 2, .dims = {-1, 1}},
                                   {.name = "u", .type = DATATYPE_UINT64, .dim_count = 1, .dims = {-1}}),
                   .outputs = SPECS({.name = "y", .type = DATATYPE_INT8, .dim_count = 1, .dims = {-1}})}},
    {.name = "strings",
     SPECS_MODEL,
     .batch_max = 8,
     .signature = {.input_count = 2,
                   .output_count = 2,
                   .batched = true,
                   .inputs = SPECS({.name = "x", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, 2}},
                                   {.name = "n", .type = DATATYPE_INT32, .dim_count = 1, .dims = {-1}}),
                   .outputs = SPECS({.name = "y", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, 2}},
                                    {.name = "z", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}})}},
    {.name = "string",
     SPECS_MODEL,
     .batch_max = 1,
     .signature = {.input_count = 1,
                   .output_count = 1,
                   .variable_shapes = true,
                   .inputs = SPECS({.name = "x", .type = DATATYPE_BYTES, .dim_count = 1, .dims = {-1}}),
                   .outputs = SPECS({.name = "y", .type = DATATYPE_BYTES, .dim_count = 1, .dims = {3}})}},
    {.name = "optional",
     SPECS_MODEL,
     .batch_max = 1,
     .signature = {.input_count = 2,
                   .output_count = 1,
                   .inputs_optional = 2,
                   .variable_shapes = true,
                   .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 1, .dims = {-1}},
                                   {.name = "n", .type = DATATYPE_BYTES, .dim_count = 1, .dims = {2}}),
                   .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 1, .dims = {1}})}},
};

static bool inside(const struct tensor_view *view, const char *block, size_t bytes) {
    const char *data = view->data;
    return data >= block && data + view->bytes <= block + bytes;
}

/* As many bytes as the shape takes, or whole strings of that number. */
static void check_bytes(const struct tensor_view *view, enum datatype type) {
    int64_t elements = dims_product(view->dims, 0, view->dim_count);
    if (type == DATATYPE_BYTES) {
        CHECK_EQ(strings_check(view->data, view->bytes, elements, NULL), 0);
        return;
    }
    CHECK_EQ((uintptr_t)view->data % datatype_bytes(type), 0);
    CHECK_EQ(view->bytes, (size_t)elements * datatype_bytes(type));
}

/* Every input lies wholly in the body or in memory taken, aligned, with the bytes of its shape. */
static inline void check_inputs(const struct served_model *model, const struct infer_call *call, const char *body,
                                size_t bytes, const struct memory *memory) {
    const struct signature *signature = &model->signature;
    CHECK_LE(1, call->items);
    CHECK_LE(call->items, model->batch_max);
    for (uint32_t i = 0; i < signature->input_count; i++) {
        const struct tensor_view *view = &call->inputs[i];
        const struct tensor_spec *spec = &signature->inputs[i];
        if (!(call->inputs_named & tensor_bit(i))) {
            CHECK(signature->inputs_optional & tensor_bit(i) && !view->data && view->bytes == 0);
            continue;
        }
        if (call->inputs_shared & tensor_bit(i)) { /* not read yet */
            CHECK(call->shared[i].bytes == view->bytes ||
                  (spec->type == DATATYPE_BYTES && call->shared[i].bytes > view->bytes));
            CHECK(call->shared[i].region);
            continue;
        }
        bool found = inside(view, body, bytes);
        for (int b = 0; b < memory->count; b++)
            found = found || inside(view, memory->blocks[b], memory->bytes[b]);
        CHECK(found);
        check_bytes(view, spec->type);
        CHECK_EQ(view->dim_count, spec->dim_count);
        for (uint32_t d = 0; d < spec->dim_count; d++)
            CHECK(spec->dims[d] == view->dims[d] ||
                  (spec->dims[d] == -1 && view->dims[d] >= (d == 0 && signature->batched)));
        if (signature->batched)
            CHECK_EQ(view->dims[0], call->items);
    }
}

/* The outputs of the request's batch, all zeros: strings are empty. What is classified lies in `classes`. */
static inline void outputs_fill(const struct served_model *model, struct infer_call *call, struct tensor_view *outputs,
                                struct text *classes) {
    static char zeros[8 * 10 * 8];
    for (uint32_t i = 0; i < model->signature.output_count; i++) {
        const struct tensor_spec *spec = &model->signature.outputs[i];
        outputs[i] = (struct tensor_view){.data = zeros, .dim_count = spec->dim_count};
        for (uint32_t d = 0; d < spec->dim_count; d++)
            outputs[i].dims[d] = spec->dims[d] < 0 ? call->items : spec->dims[d];
        outputs[i].bytes = (size_t)dims_product(outputs[i].dims, 0, spec->dim_count) * datatype_bytes_min(spec->type);
        CHECK_LE(outputs[i].bytes, sizeof(zeros));
    }
    if (call->classified)
        CHECK_EQ(classify_outputs(call, model, model->labels, outputs, model->signature.output_count, 0, classes, NULL),
                 0);
}
