/* separable.h - runs unlike items together and each alone, and compares: whether an item's outputs depend on what it is
 * batched with. For the profiling process. */
#pragma once

#include "model/engine/engine.h"
#include "model/profile/values.h"

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

struct separable;

#define SEPARABLE_KINDS 8 /* of items: a larger batch has some of them again */

/* Makes items of ordinary size, tiny and huge ones, negative ones, zeros and NaN; strings of many lengths and none; and
 * runs each alone. What the model does not take even alone is left out. The trial must stay until separable_end(). The
 * engine's -errno and sentence if it takes none; then *separable is NULL. */
int separable_begin(const struct separable_trial *trial, struct separable **separable, struct sy_error *why);

/* Tries a batch of so many of these items: a small one of the kinds behind those that were tried last, so that batches
 * of 2, 3 and 4 have all; a large one of those that differ most. Each row must be equal, bit by bit, to what the
 * item gives alone, or differ by no more than the same item does in a batch of its own kind, which is rounding: kernels
 * choose their order of summation by the size of the batch. 0; -EXDEV: they mix; -EMSGSIZE: an output has another
 * number of rows than the batch; or the engine's -errno; each with a sentence. */
int separable_try(struct separable *separable, uint32_t items, struct sy_error *why);

/* Whether small batches have had all kinds. */
bool separable_all_tried(const struct separable *separable);

/* Frees the items. NULL is allowed. */
void separable_end(struct separable *separable);
