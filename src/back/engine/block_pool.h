/* block_pool.h - output blocks for the engines: taken by the executor's thread, given back by whatever thread sent the
 * last answer.
 *
 * There are two lists of free blocks: the executor takes from one, the other threads push to the other. When the first
 * is empty, the executor takes the whole second one, so there is neither an ABA problem nor a lock. The pool, and what
 * its blocks point into, live until the owner has left and the last block is back: answers may still go out when a
 * model is unloaded. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "model/engine/engine.h"

struct block_pool;

struct pooled_block {
    struct block_pool *pool;
    struct pooled_block *next;
    uint32_t value_count;
    void **values;             /* [value_count] the engine's handles of block.outputs, NULL where there is none */
    struct output_block block; /* with memory for so many outputs as the pool's blocks have */
};

/* Each block has so many outputs at most. `discard` drops a block's values when it comes back, on any thread; may be
 * NULL. `finish` runs once, with `context`, after the owner has left and the last block is back, on any thread. NULL if
 * memory is out. */
struct block_pool *block_pool_new(uint32_t outputs, void (*discard)(struct pooled_block *block),
                                  void (*finish)(void *context), void *context);
/* A block with one reference and no outputs, or NULL if memory is out. The pool grows to the greatest number of blocks
 * ever in use, which the server's bound on requests in flight limits. The owner's thread. */
struct pooled_block *block_pool_get(struct block_pool *pool);
/* The owner leaves: it may not use the pool any more. */
void block_pool_leave(struct block_pool *pool);
