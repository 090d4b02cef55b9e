/* target.h - the models of the server under load, with their inputs and SLOs, from the server's v2 metadata or as the
 * user declares them.
 *
 * Set-up only; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "lab/load/fetch.h"

struct target_input {
    char *name;
    enum datatype type;
    uint32_t dim_count;
    int64_t dims[TENSOR_DIMS_MAX]; /* dimensions in a request, all known */
    bool batched;                  /* whether dims[0] is the number of items */
};

struct target_model {
    char *name;
    int64_t slo_ns; /* SLO; 0: the server does not tell */
    uint32_t inputs_count;
    struct target_input *inputs;
};

/* What the user says of an input. Texts are those of the command line, and must outlive the target. */
struct target_hint {
    const char *text; /* "[MODEL/]INPUT:D,D" (sets dimensions the server leaves open, without that of the items) or,
                       * declared, "[MODEL/]INPUT:TYPE:D,D" (takes the place of the server's metadata; -1 in front is
                       * the number of items) */
    bool declared;
    bool used; /* set if the hint applies to some model */
};

struct target {
    uint32_t models_count;
    struct target_model *models;
};

/* Reads the models named in `names` ("a,b"; NULL: all that the server lists as ready) with `items` items a request.
 * Where an open dimension has no hint: 320 for height and width of an image ([N,C,-1,-1] or [N,-1,-1,C], C of 1, 3 or
 * 4), else 1. 0, or -errno and a sentence that says which model and why: -EINVAL for what the user said, -ENOENT for a
 * model the server does not have. Free with target_free either way. */
int target_read(struct target *target, const struct server *server, const char *names, int64_t items,
                struct target_hint *hints, uint32_t hints_count, struct sy_error *err);
void target_free(struct target *target);

/* Fills one input from the datatype and shape of a model's metadata; the pure part of target_read(). */
int target_input_fill(struct target_input *input, const char *datatype, const int64_t *shape, uint32_t dim_count,
                      int64_t items, const char *hint_dims, struct sy_error *err);
/* Percent-encodes a model's name for a path. */
void path_encode(const char *name, char *text, size_t size);
