/* measure.h - measures the latencies l(b) and the memory of one model that an engine has loaded. For the profiling
 * process: measuring fills memory and keeps the accelerator busy. */
#pragma once

#include "core/util/rng.h"
#include "model/engine/engine.h"
#include "model/profile/store.h"
#include "model/profile/values.h"

/* A thread's use of its core. */
struct core_use {
    int64_t cpu_ns;
    long lost, left; /* number of times that the thread was taken off the core; that it left on its own, to wait */
};

/* The source of the times of runs. */
struct measure_clock {
    int64_t (*now_ns)(void);
    struct core_use (*core_use)(void); /* use of the core by the calling thread */
};

struct measure_options {
    struct engine *engine;  /* engine that has loaded the model; NULL: it has no memory of its own for inputs */
    uint32_t batch_max;     /* greatest batch to measure */
    int64_t budget_ns;      /* time for measuring one batch size, about */
    int64_t latency_max_ns; /* longest latency; batches that take longer are not wanted */
    uint64_t seed;          /* seed of the inputs */
    const struct input_values *values; /* values of the inputs; NULL: random */
    const char *unbatched; /* reason why the batch dimension was taken away, for the record; NULL or "": it was not */
    bool told;             /* whether items are run together even if they change each other's outputs */
    bool untried;          /* whether not to try unlike items together: an earlier process died of such a trial */
    const uint32_t *sizes; /* [size_count] batch sizes that are measured in any case, ascending */
    uint32_t size_count;
    void (*progress)(void *context, const char *phase, uint32_t batch); /* called before each step; may be NULL */
    void *context;
    const struct measure_clock *clock; /* source of times; NULL: the kernel; tests have their own */
};

/* Options of a measurement unless somebody says otherwise. */
#define MEASURE_BUDGET_NS      (300 * NS_PER_MS)
#define MEASURE_LATENCY_MAX_NS (1 * NS_PER_S)

/* Fills `data` with random elements: floats in [0.5, 1); integers and booleans 0 or 1, which are valid as indices;
 * strings "0" or "1", which can be read as numbers. */
void measure_fill(void *data, size_t count, enum datatype type, struct rng *rng);

/* Makes inputs of `items` items for a model, filled as `values` says, or as by measure_fill() if `values` is NULL.
 * `seed` is that of random elements. Optional inputs are not given. The data are one allocation, or none:
 * free(inputs[0].data). 0 or -ENOMEM. */
int measure_inputs(const struct signature *signature, int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t items,
                   const struct input_values *values, uint64_t seed, struct tensor_view *inputs);

/* Runs a batch of measure_inputs() once and drops the outputs: to see whether it runs, or to pay the cost of a first
 * run in advance. */
int measure_run(const struct engine_ops *ops, struct engine_model *model, const struct signature *signature,
                int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t items, const struct input_values *values,
                struct sy_error *err);

/* Gives dimensions to try for an item of the model: `choice` is 0, 1, ... in order of preference; -ENOENT after the
 * last choice. Dimensions that the signature fixes are kept; the batch dimension is 1. Unknown height and width of an
 * image are 320 x 320, 48 x 320 (a line of text), 224 x 224, 48 x 192; other unknown dimensions are 128, then 16, then
 * 1. */
int measure_item_dims(const struct signature *signature, uint32_t choice, int64_t item_dims[][TENSOR_DIMS_MAX]);

/* The batch size to measure after `b`. The batch sizes are 1, 2, 3, 4, 6, 8, 12, 16, 24, ..., `last`, and those of
 * `sizes`, ascending; after `last` comes a size beyond it. */
uint32_t measure_batch_next(uint32_t b, uint32_t last, const uint32_t *sizes, uint32_t size_count);

/* Measures a loaded model, an item of which has been run before. Measures batches up to where larger ones gain nothing,
 * and the sizes wanted; where batches are padded, up to the greatest. Fills the record's findings (batched, batch_max,
 * note, points, batch_bytes). With signature->batched, tries batches by separable_try(), and adds to record->mixes:
 * batches of up to SEPARABLE_KINDS before each is timed, in place of a first run that does not count, and one batch of
 * the greatest size. -errno and the engine's sentence if a single item fails. */
int measure_model(const struct engine_ops *ops, struct engine_model *model, const struct signature *signature,
                  int64_t item_dims[][TENSOR_DIMS_MAX], const struct measure_options *options,
                  struct profile_record *record, struct sy_error *err);

/* Sorts times, the shortest first. */
void measure_sort(int64_t *took_ns, size_t count);

/* The process's resident memory in bytes. */
uint64_t measure_resident_bytes(void);
