/* output_block.h - the outputs of a batch: its executor makes them, and the frontends of its requests read and drop
 * them. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "core/data/tensor.h"

/* The outputs of one batch, or why there are none. run() gives the executor one reference. Each answered request holds
 * one reference until its frontend has sent the answer. Whoever drops the last reference calls release(). */
struct output_block {
    _Atomic uint32_t references; /* number of references that are held */
    uint32_t output_count;
    const char *failure; /* sentence that says why there are no outputs; NULL: there are outputs */
    void (*release)(struct output_block *block); /* function that frees the block; any thread */
    /* outputs of the whole batch; with `batched`, item i is slice i of dimension 0. Entries from output_count on are
     * never touched, and need no memory */
    struct tensor_view outputs[TENSORS_MAX];
};

static inline void output_block_put(struct output_block *block) {
    /* acq_rel: all other holders' reads must be done before the last one frees the memory */
    if (block && atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) == 1)
        block->release(block);
}

/* A block that says why there are no outputs, with one reference. NULL without memory. */
struct output_block *output_block_failed(const char *sentence);
