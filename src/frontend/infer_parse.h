/* infer_parse.h - the body of an infer request, checked and laid out as the model's inputs.
 *
 * Pure: no clock, no I/O, no state; it may be called on any thread. What is wrong with a body is always the client's
 * mistake: one clear sentence and the status to answer it with. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "engine/tensor.h"
#include "repository/served_model.h"

#define INFER_NO_HEADER (-1)

/* Where the parser gets memory for inputs that cannot stay where they are in the body: values given as JSON, and binary
 * ones that lie unaligned. At most one call an input. NULL: there is none. The caller frees it when the request is
 * over.
 */
struct infer_memory {
    void *(*take)(void *context, size_t bytes);
    void *context;
};

struct infer_body {
    const struct served_model *model;
    void *data; /* not changed; binary inputs will point into it */
    size_t bytes;
    int64_t json_bytes; /* value of Inference-Header-Content-Length, or INFER_NO_HEADER: all of it is JSON */
    struct infer_memory memory;
};

struct infer_output {
    uint32_t index; /* in the signature */
    bool binary;
};

struct infer_call {
    struct tensor_view inputs[TENSORS_MAX];   /* in the signature's order; data lie in the body or in taken memory */
    struct infer_output outputs[TENSORS_MAX]; /* wanted, in the order to answer in */
    uint32_t output_count;
    uint32_t items;
    uint64_t shape_key; /* 0 for models of one shape, never 0 for others */
    float work;         /* 1 for models of one shape */
    int64_t timeout_us; /* 0: not given */
    const char *id;     /* as it stands between its quotes in the body; NULL: none given */
    size_t id_length;
};

/* 0, or an HTTP status: 400 a mistake in the body, 501 a part of the protocol that is not served yet, 503 no memory.
 * The sentence is then in `err`, and `call` undefined. */
int infer_parse(const struct infer_body *body, struct infer_call *call, struct sy_error *err);
