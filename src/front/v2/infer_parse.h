/* infer_parse.h - checks the body of an infer request, and lays it out as the model's inputs.
 *
 * Pure: no clock, no I/O, no state; any thread. A fault in a body is always the client's mistake: the caller gets one
 * clear sentence and the status for the client. */
#pragma once

#include <stdint.h>

#include "front/request/infer_call.h"

#define INFER_NO_HEADER (-1)

struct infer_body {
    const struct served_model *model;
    void *data; /* the body, which is not changed; binary inputs will point into it */
    size_t bytes;
    int64_t json_bytes;         /* value of Inference-Header-Content-Length; INFER_NO_HEADER: the whole body is JSON */
    struct infer_memory memory; /* memory for inputs that cannot stay in the body */
};

/* 0, or an HTTP status: 400 a mistake in the body, 501 a part of the protocol that is not served yet, 503 no memory.
 * The sentence is then in `err`, and `call` undefined. */
int infer_parse(const struct infer_body *body, struct infer_call *call, struct sy_error *err);
