/* separable.h - finds out whether an item's outputs depend on the other items of its batch: runs unlike items together
 * and each alone, and compares. For the profiling process. */
#pragma once

#include "model/engine/engine.h"
#include "model/profile/values.h"

struct separable_trial {
    const struct engine_ops *ops;
    struct engine_model *model;
    const struct signature *signature; /* signature of the model, which is `batched` */
    int64_t (*item_dims)[TENSOR_DIMS_MAX];
    const struct input_values *values; /* values of inputs, given or found, which all items have; NULL: any values */
    uint64_t seed;                     /* seed of random values */
    void (*progress)(void *context, const char *phase, uint32_t batch); /* called before each run; may be NULL */
    void *context;
};

struct separable;

#define SEPARABLE_KINDS 8 /* kinds of items; a larger batch has some kinds more than once */

/* Makes items of ordinary values, of tiny, huge and negative ones, of zeros and of NaN, with strings of many lengths
 * and none; and runs each item alone. Items that the model does not take even alone are left out. `trial` must stay
 * until separable_end(). If the model takes no item: the engine's -errno and sentence, and *separable is NULL. */
int separable_begin(const struct separable_trial *trial, struct separable **separable, struct sy_error *why);

/* Tries a batch of `items` of these items. A small batch has the kinds that follow those tried last, so that batches of
 * 2, 3 and 4 have all kinds; a large batch has the kinds that differ most. Each row must be equal, bit by bit, to what
 * the item gives alone, or differ by no more than the same item does in a batch of its own kind: that is rounding, as
 * kernels choose their order of summation by the size of the batch. 0; with a sentence -EXDEV: items change each
 * other's outputs; -EMSGSIZE: an output has another number of rows than the batch; or the engine's -errno. */
int separable_try(struct separable *separable, uint32_t items, struct sy_error *why);

/* Whether small batches have had all kinds of items. */
bool separable_all_tried(const struct separable *separable);

/* Frees the items. NULL is allowed. */
void separable_end(struct separable *separable);
