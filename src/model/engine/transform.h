/* transform.h - a model with one input and one output that prepares the inputs of another model: a table of functions,
 * one row per engine.
 *
 * Unlike the models of engine.h it has no thread of its own. Any number of threads may run it at once, each on its own
 * processor time, and the output goes where the caller wants it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "core/util/pace.h"

struct transform_ops;

/* The engine's own data follow. */
struct transform {
    const struct transform_ops *ops;
    struct tensor_spec input, output; /* as the file has them */
    struct pace pace; /* of a run, for each of transform_elements(); kept by the caller, not the engine */
};

/* A run on fewer elements of input costs as much as one on so many: some 20 us. */
#define TRANSFORM_ELEMENTS_LEAST 4096

/* The elements by which the time of a run on this input is noted and promised: those it has, or the least. Else a run
 * on one element, which costs what any run does, would make the promise for a million elements hours long. */
static inline double transform_elements(const struct tensor_view *input) {
    double elements = (double)dims_product(input->dims, 0, input->rank);
    return elements > TRANSFORM_ELEMENTS_LEAST ? elements : TRANSFORM_ELEMENTS_LEAST;
}

/* What ends a run from another thread. A thread that runs transforms has one, for all of them. */
struct transform_stop;

struct transform_ops {
    /* Opens a file on the CPU. A broken file may crash the library, so try it in a child process first. -errno with the
     * engine's reason; -EINVAL for more than one input or output. */
    int (*open)(const char *path, struct transform **transform, struct sy_error *err);
    /* The same of a file's contents, which need not stay. Weights in further files are refused. */
    int (*open_bytes)(const void *contents, size_t bytes, struct transform **transform, struct sy_error *err);
    /* While nobody runs it. */
    void (*close)(struct transform *transform);
    /* Runs it once. All dims are given; `output` must be what comes out, else this is an error, and nothing is written
     * beyond output->bytes. `stop` may be NULL. -errno with the engine's sentence. */
    int (*run)(struct transform *transform, struct transform_stop *stop, const struct tensor_view *input,
               const struct tensor_view *output, struct sy_error *err);
    /* NULL: no memory. */
    struct transform_stop *(*stop_new)(void);
    void (*stop_free)(struct transform_stop *stop);
    /* If `wanted`, makes the run in progress with this `stop`, and later ones, fail soon; else lets later ones work
     * again. Any thread, one at a time. A run may not notice it in the middle of one operator. */
    void (*stop)(struct transform_stop *stop, bool wanted);
};
