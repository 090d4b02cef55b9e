/* separable.h - runs unlike items together and each alone, and compares: whether an item's outputs depend on what it is
 * batched with. For the profiling process. */
#pragma once

#include "engine/engine.h"
#include "profile/values.h"

struct separable_trial {
    const struct engine_ops *ops;
    struct engine_model *model;
    const struct signature *signature; /* batched */
    int64_t (*item_dims)[TENSOR_DIMS_MAX];
    const struct input_values *values;                                  /* NULL: of any; else inputs whose values had */
    uint64_t seed;                                                      /* to be given or found are so in all items */
    void (*progress)(void *context, const char *phase, uint32_t batch); /* before each run; may be NULL */
    void *context;
};

/* Tries batches of `items`: among them items of ordinary size, tiny and huge ones, negative ones, zeros and NaN;
 * strings of many lengths and none. Each row must be equal, bit by bit, to what the item gives alone, or differ by no
 * more than the same item does in a batch of its own kind, which is rounding: kernels choose their order of summation
 * by the size of the batch. What the model does not take even alone is left out. 0; -EXDEV: they mix; -EMSGSIZE: an
 * output has another number of rows than the batch; or the engine's -errno; each with a sentence. */
int separable_try(const struct separable_trial *trial, uint32_t items, struct sy_error *why);
