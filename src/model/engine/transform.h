/* transform.h - a transform: a model with one input and one output that prepares the inputs of another model. A table
 * of functions for each engine.
 *
 * Unlike the models of engine.h, a transform has no thread of its own. Any number of threads may run it at once, each
 * on its own processor time, and the output goes where the caller wants it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/data/tensor.h"
#include "core/util/error.h"
#include "core/util/pace.h"

struct transform_ops;

/* An open transform. The engine's own data follow the struct. */
struct transform {
    const struct transform_ops *ops;
    struct tensor_spec input, output; /* input and output as the file has them */
    struct pace pace; /* time of a run, divided by its transform_elements(); kept by the caller, not the engine */
};

/* Elements of input; a run on fewer elements costs as much as a run on this many: some 20 us. */
#define TRANSFORM_ELEMENTS_LEAST 4096

/* The number of elements by which the time of a run on this input is noted and promised: those that the input has, or
 * the least. Without this least number, a run on one element, which costs what any run does, would make the promise for
 * a million elements hours long. */
static inline double transform_elements(const struct tensor_view *input) {
    double elements = (double)dims_product(input->dims, 0, input->dim_count);
    return elements > TRANSFORM_ELEMENTS_LEAST ? elements : TRANSFORM_ELEMENTS_LEAST;
}

/* A handle by which another thread ends a run. Each thread that runs transforms has one, for all transforms. */
struct transform_stop;

struct transform_ops {
    /* Opens a file on the CPU. A broken file may crash the library, so try it in a child process first. -errno with the
     * engine's reason; -EINVAL for more than one input or output. */
    int (*open)(const char *path, struct transform **transform, struct sy_error *err);
    /* As open(), from the contents of a file, which need not stay. Weights in further files are refused. */
    int (*open_bytes)(const void *contents, size_t bytes, struct transform **transform, struct sy_error *err);
    /* Closes a transform. Call it while nobody runs the transform. */
    void (*close)(struct transform *transform);
    /* Runs a transform once. Both views have all dims. The tensor that comes out must be as `output` says, else the
     * call fails, and nothing is written beyond output->bytes. `stop` may be NULL. -errno with the engine's
     * sentence. */
    int (*run)(struct transform *transform, struct transform_stop *stop, const struct tensor_view *input,
               const struct tensor_view *output, struct sy_error *err);
    /* Makes a stop. NULL: out of memory. */
    struct transform_stop *(*stop_new)(void);
    void (*stop_free)(struct transform_stop *stop);
    /* If `wanted`, makes the run in progress with this `stop`, and later runs, fail soon; else lets later runs work
     * again. Any thread, one at a time. A run may not notice the stop in the middle of one operator. */
    void (*stop)(struct transform_stop *stop, bool wanted);
};
