/* block_pool.c - output blocks, recycled. */
#include "back/engine/block_pool.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"

struct block_pool {
    uint32_t outputs;
    void (*discard)(struct pooled_block *block);
    void (*finish)(void *context);
    void *context;
    struct pooled_block *free_local; /* owned by the executor's thread */
    _Alignas(CACHE_LINE) _Atomic(struct pooled_block *)
        free_shared;        /* pushed by any thread, taken whole by the owner */
    _Atomic uint32_t users; /* blocks in use, plus 1 until the owner has left */
};

static void list_free(struct pooled_block *block) {
    while (block) {
        struct pooled_block *next = block->next;
        free(block);
        block = next;
    }
}

static void user_gone(struct block_pool *pool) {
    /* acq_rel: the last one must see every other's pushes */
    if (atomic_fetch_sub_explicit(&pool->users, 1, memory_order_acq_rel) != 1)
        return;
    list_free(pool->free_local);
    list_free(atomic_load_explicit(&pool->free_shared, memory_order_relaxed)); /* nobody else is left */
    pool->finish(pool->context);
    free(pool);
}

static void block_release(struct output_block *block) {
    struct pooled_block *pooled = container_of(block, struct pooled_block, block);
    struct block_pool *pool = pooled->pool;
    if (pool->discard)
        pool->discard(pooled);
    struct pooled_block *top = atomic_load_explicit(&pool->free_shared, memory_order_relaxed);
    do
        pooled->next = top;
    while (!atomic_compare_exchange_weak_explicit(&pool->free_shared, &top, pooled,
                                                  memory_order_release, /* with the exchange in block_pool_get() */
                                                  memory_order_relaxed));
    user_gone(pool);
}

struct block_pool *block_pool_new(uint32_t outputs, void (*discard)(struct pooled_block *block),
                                  void (*finish)(void *context), void *context) {
    struct block_pool *pool = aligned_alloc(CACHE_LINE, sizeof(*pool));
    if (!pool)
        return NULL;
    memset(pool, 0, sizeof(*pool));
    pool->outputs = outputs;
    pool->discard = discard;
    pool->finish = finish;
    pool->context = context;
    atomic_init(&pool->users, 1);
    return pool;
}

/* Makes a block. The struct ends with the outputs that the block has, and the values lie behind them. */
static struct pooled_block *block_make(const struct block_pool *pool) {
    size_t bytes = offsetof(struct pooled_block, block.outputs) + pool->outputs * sizeof(struct tensor_view);
    struct pooled_block *pooled = calloc(1, bytes + pool->outputs * sizeof(pooled->values[0]));
    if (!pooled)
        return NULL;
    pooled->values = (void *)((char *)pooled + bytes);
    pooled->value_count = pool->outputs;
    return pooled;
}

struct pooled_block *block_pool_get(struct block_pool *pool) {
    if (!pool->free_local) /* acquire: with the push in block_release() */
        pool->free_local = atomic_exchange_explicit(&pool->free_shared, NULL, memory_order_acquire);
    struct pooled_block *pooled = pool->free_local;
    if (pooled)
        pool->free_local = pooled->next;
    else if (!(pooled = block_make(pool)))
        return NULL;
    pooled->pool = pool;
    pooled->block.release = block_release;
    pooled->block.output_count = 0;
    atomic_store_explicit(&pooled->block.references, 1, memory_order_relaxed); /* not shared yet */
    atomic_fetch_add_explicit(&pool->users, 1, memory_order_relaxed);          /* the owner's own reference holds it */
    return pooled;
}

void block_pool_leave(struct block_pool *pool) {
    user_gone(pool);
}
