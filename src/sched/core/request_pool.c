/* request_pool.c - the stack of free request nodes. */
#include "sched/core/request_pool.h"

#include "core/util/assert.h"

/* The node REQUEST_POOL_TOP places below a free node in the stack; REQUEST_NONE: there is none. */
static uint32_t *below(struct request_pool *pool, uint32_t node) {
    return &pool->nodes[node].links[0];
}

void request_pool_init(struct request_pool *pool, struct request_node *nodes, uint32_t capacity) {
    *pool = (struct request_pool){.nodes = nodes, .capacity = capacity, .at = REQUEST_POOL_TOP - 1};
    for (uint32_t i = 0; i < capacity; i++)
        *below(pool, i) = i + REQUEST_POOL_TOP < capacity ? i + REQUEST_POOL_TOP : REQUEST_NONE;
    for (uint32_t i = 0; i < REQUEST_POOL_TOP; i++)
        pool->top[REQUEST_POOL_TOP - 1 - i] = i < capacity ? i : REQUEST_NONE;
}

uint32_t request_pool_get(struct request_pool *pool) {
    uint32_t node = pool->top[pool->at];
    if (node == REQUEST_NONE)
        return node;
    uint32_t later = *below(pool, node);
    pool->top[pool->at] = later;
    pool->at = (pool->at - 1) % REQUEST_POOL_TOP;
    if (later != REQUEST_NONE)
        __builtin_prefetch(&pool->nodes[later], 1);
    pool->used++;
    return node;
}

void request_pool_put(struct request_pool *pool, uint32_t node) {
    CHECK_LT(node, pool->capacity);
    pool->at = (pool->at + 1) % REQUEST_POOL_TOP;
    *below(pool, node) = pool->top[pool->at];
    pool->top[pool->at] = node;
    pool->used--;
}
