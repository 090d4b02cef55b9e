/* request_pool.c - free list of request nodes. */
#include "sched/request_pool.h"

#include "base/assert.h"

void request_pool_init(struct request_pool *pool, struct request_node *nodes, uint32_t capacity) {
    *pool = (struct request_pool){.nodes = nodes, .capacity = capacity, .free_head = capacity ? 0 : REQUEST_NONE};
    for (uint32_t i = 0; i < capacity; i++)
        nodes[i].next = i + 1 < capacity ? i + 1 : REQUEST_NONE;
}

uint32_t request_pool_get(struct request_pool *pool) {
    uint32_t node = pool->free_head;
    if (node == REQUEST_NONE)
        return node;
    pool->free_head = pool->nodes[node].next;
    if (pool->free_head != REQUEST_NONE) /* the next one who asks would wait for its line */
        __builtin_prefetch(&pool->nodes[pool->free_head], 1);
    pool->used++;
    return node;
}

void request_pool_put(struct request_pool *pool, uint32_t node) {
    CHECK_LT(node, pool->capacity);
    pool->nodes[node].next = pool->free_head;
    pool->free_head = node;
    pool->used--;
}
