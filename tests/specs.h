/* specs.h - inputs and outputs of the models of tests. */
#pragma once

#include <assert.h>
#include <stdlib.h>

#include "model/config/served_model.h"

/* The specs of a signature: .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}}).
 * They live as long as the block. */
#define SPECS(...)                                                                                                     \
    (struct tensor_spec[]) {                                                                                           \
        __VA_ARGS__                                                                                                    \
    }

/* The other arrays of a model whose signature is made of SPECS(): nothing is in them. */
#define SPECS_MODEL                                                                                                    \
    .reference_dims = (int64_t[TENSORS_MAX][TENSOR_DIMS_MAX]){{0}}, .formats = (uint8_t[TENSORS_MAX]){0},              \
    .label_files = (const char *[TENSORS_MAX]){NULL}, .labels = (struct labels *[TENSORS_MAX]) {                       \
        NULL                                                                                                           \
    }

/* Gives a model a signature, with room for any number of tensors, until served_model_release(). */
static inline void specs_set(struct served_model *model, struct signature signature) {
    struct signature_room *room = calloc(1, sizeof(*room));
    signature_room_fill(room, &signature);
    room->signature.input_count = room->signature.output_count = TENSORS_MAX;
    int rc = served_model_tensors_set(model, &room->signature, NULL);
    assert(rc == 0);
    (void)rc;
    model->signature.input_count = signature.input_count;
    model->signature.output_count = signature.output_count;
    free(room);
}
