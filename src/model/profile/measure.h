/* measure.h - measures a loaded engine's l(b) and memory for one model. For the profiling process: it fills memory and
 * keeps the accelerator busy. */
#pragma once

#include "core/util/rng.h"
#include "model/engine/engine.h"
#include "model/profile/store.h"
#include "model/profile/values.h"

/* How a thread has used its core. */
struct core_use {
    int64_t cpu_ns;
    long lost, left; /* how often it was taken off the core, and how often it left on its own to wait */
};

/* Where the times of runs come from. */
struct measure_clock {
    int64_t (*now_ns)(void);
    struct core_use (*core_use)(void); /* of the calling thread */
};

struct measure_options {
    struct engine *engine;             /* that has loaded the model; NULL if it has no memory of its own for inputs */
    uint32_t batch_max;                /* greatest batch wanted */
    int64_t budget_ns;                 /* about how long measuring one batch size may take */
    int64_t latency_max_ns;            /* batches that take longer are not wanted */
    uint64_t seed;                     /* of the inputs */
    const struct input_values *values; /* theirs; NULL: random */
    const char *unbatched; /* why the batch dimension was taken away, for the record; NULL or "": it was not */
    bool told;             /* items are run together, even if they mix */
    bool untried;          /* that is not tried: a process before this one died of it */
    const uint32_t *sizes; /* [size_count] batch sizes to measure in any case, ascending */
    uint32_t size_count;
    void (*progress)(void *context, const char *phase, uint32_t batch); /* before each step; may be NULL */
    void *context;
    const struct measure_clock *clock; /* NULL: the kernel's; tests have their own */
};

/* What a profile is measured with unless somebody says otherwise. */
#define MEASURE_BATCH_MAX      64
#define MEASURE_BUDGET_NS      (300 * NS_PER_MS)
#define MEASURE_LATENCY_MAX_NS (1 * NS_PER_S)

/* Random elements: floats in [0.5, 1), integers and booleans 0 or 1, which are valid as indices, strings "0" or "1",
 * which can be read as numbers. */
void measure_fill(void *data, size_t count, enum datatype type, struct rng *rng);

/* Inputs of `items` items for a model, filled as `values` says, what is random from `seed`; without values (NULL) as
 * above. Optional inputs are not given. The data are one allocation, or none; free(inputs[0].data). -ENOMEM. */
int measure_inputs(const struct signature *signature, int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t items,
                   const struct input_values *values, uint64_t seed, struct tensor_view *inputs);

/* Runs a batch of such items once and drops the outputs: to see whether they run, or to pay what a first run costs in
 * advance. */
int measure_run(const struct engine_ops *ops, struct engine_model *model, const struct signature *signature,
                int64_t item_dims[][TENSOR_DIMS_MAX], uint32_t items, const struct input_values *values,
                struct sy_error *err);

/* The dimensions to try for an item of the model, in order of preference: `choice` 0, 1, ...; -ENOENT after the last.
 * Dimensions that the signature fixes are kept; the batch dimension is 1. Unknown height and width of an image are
 * 320 x 320, 48 x 320 (a line of text), 224 x 224, 48 x 192; other unknown dimensions 128, then 16, then 1. */
int measure_item_dims(const struct signature *signature, uint32_t choice, int64_t item_dims[][TENSOR_DIMS_MAX]);

/* The batch size to measure after `b`: 1, 2, 3, 4, 6, 8, 12, 16, 24, ..., `last`; then a size beyond `last`. `sizes`,
 * ascending, are among them. */
uint32_t measure_batch_next(uint32_t b, uint32_t last, const uint32_t *sizes, uint32_t size_count);

/* Measures a loaded model: batches up to where larger ones gain nothing, and the sizes wanted; where batches are
 * padded, up to the greatest. Fills the record's findings (batched, batch_max, note, points, batch_bytes). With
 * signature->batched it tries batches by separable_try(): those of up to SEPARABLE_KINDS before each is timed, in place
 * of a first run that does not count, and one of the greatest size; and adds to record->mixes. An item has been run
 * before. -errno and the engine's sentence if a single item fails. */
int measure_model(const struct engine_ops *ops, struct engine_model *model, const struct signature *signature,
                  int64_t item_dims[][TENSOR_DIMS_MAX], const struct measure_options *options,
                  struct profile_record *record, struct sy_error *err);

/* Sorts times, the shortest first. */
void measure_sort(int64_t *took_ns, size_t count);

/* The process's resident memory in bytes. */
uint64_t measure_resident_bytes(void);
