/* block_pool.h - output blocks for the engines: taken by the executor's thread, given back by whatever thread sent the
 * last answer.
 *
 * There are two lists of free blocks: the executor takes from the first, and other threads push to the second. When the
 * first list is empty, the executor takes the whole second one, so there is neither an ABA problem nor a lock. The
 * pool, and the memory that its blocks point to, live until the owner has left and the last block is back: answers may
 * still go out when a model is unloaded. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "model/engine/engine.h"

struct block_pool;

struct pooled_block {
    struct block_pool *pool;
    struct pooled_block *next;
    uint32_t value_count;
    void **values;             /* [value_count] the engine's handles of block.outputs; NULL: the output has none */
    struct output_block block; /* block that is handed out; has memory for the pool's number of outputs */
};

/* Makes a pool whose blocks have at most `outputs` outputs. `discard` drops a block's values when the block comes back,
 * on any thread; may be NULL. `finish` runs once, with `context`, after the owner has left and the last block is back,
 * on any thread. Returns NULL if memory is out. */
struct block_pool *block_pool_new(uint32_t outputs, void (*discard)(struct pooled_block *block),
                                  void (*finish)(void *context), void *context);
/* A block with one reference and no outputs; NULL: memory is out. The pool grows to the greatest number of blocks ever
 * in use; that is limited by the server's bound on requests in flight. The owner's thread. */
struct pooled_block *block_pool_get(struct block_pool *pool);
/* The owner leaves, and may not use the pool any more. */
void block_pool_leave(struct block_pool *pool);
