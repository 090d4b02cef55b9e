/* payload.h - the bytes of whole inference requests, made before the load starts.
 *
 * Set-up only; any thread; a function of the seed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"
#include "lab/load/target.h"

struct payload {
    char *bytes;
    size_t length;
};

struct payload_options {
    bool json_tensors;   /* whether inputs are JSON numbers instead of binary tensors */
    bool binary_outputs; /* whether the request asks for binary outputs */
    int64_t timeout_us;  /* `timeout` of the request; 0: none */
};

/* Makes head and body of a POST to the model's infer path with random inputs: integers 0 to 99, floats in [0, 1),
 * booleans, strings of 8 letters. 0, or -errno and a sentence; free bytes with free(). */
int payload_build(struct payload *payload, const struct server *server, const struct target_model *model,
                  const struct payload_options *options, uint64_t seed, struct sy_error *err);
