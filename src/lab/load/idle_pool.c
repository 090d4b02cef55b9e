/* idle_pool.c - chooses the idle connection that gets the next request. */
#include "lab/load/idle_pool.h"

#include <stdlib.h>

#include "core/util/assert.h"
#include "core/util/list.h"
#include "core/util/rng.h"

struct idle_node {
    struct list_node list;
    uint32_t place; /* index in `members`; IDLE_NONE: not in the pool */
};

struct idle_pool {
    enum reuse reuse;
    uint32_t capacity, kept;
    struct rng rng;
    struct list_node first, rest; /* connections in the order in which they are taken; `rest` after `first` */
    struct idle_node *nodes;      /* [capacity] */
    uint32_t *members;            /* [count] connections in the pool, in no order, for draws */
    uint32_t count;
};

struct idle_pool *idle_pool_create(enum reuse reuse, uint32_t capacity, uint32_t kept) {
    struct idle_pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return NULL;
    *pool = (struct idle_pool){.reuse = reuse, .capacity = capacity, .kept = kept};
    list_init(&pool->first);
    list_init(&pool->rest);
    rng_seed(&pool->rng, 0);
    pool->nodes = calloc(capacity, sizeof(*pool->nodes));
    pool->members = calloc(capacity, sizeof(*pool->members));
    if (!pool->nodes || !pool->members) {
        idle_pool_free(pool);
        return NULL;
    }
    for (uint32_t i = 0; i < capacity; i++) {
        list_init(&pool->nodes[i].list);
        pool->nodes[i].place = IDLE_NONE;
    }
    return pool;
}

void idle_pool_free(struct idle_pool *pool) {
    if (!pool)
        return;
    free(pool->nodes);
    free(pool->members);
    free(pool);
}

void idle_pool_seed(struct idle_pool *pool, uint64_t seed) {
    rng_seed(&pool->rng, seed);
}

void idle_pool_put(struct idle_pool *pool, uint32_t connection, bool used) {
    CHECK(connection < pool->capacity);
    struct idle_node *node = &pool->nodes[connection];
    CHECK(node->place == IDLE_NONE);
    node->place = pool->count;
    pool->members[pool->count++] = connection;
    if (pool->reuse == REUSE_OLDEST && connection < pool->kept)
        list_append(&pool->first, &node->list);
    else if (used)
        list_insert_before(pool->rest.next, &node->list);
    else
        list_append(&pool->rest, &node->list);
}

void idle_pool_remove(struct idle_pool *pool, uint32_t connection) {
    CHECK(connection < pool->capacity);
    struct idle_node *node = &pool->nodes[connection];
    if (node->place == IDLE_NONE)
        return;
    uint32_t last = pool->members[--pool->count];
    pool->members[node->place] = last;
    pool->nodes[last].place = node->place;
    node->place = IDLE_NONE;
    list_remove(&node->list);
}

uint32_t idle_pool_take(struct idle_pool *pool) {
    if (!pool->count)
        return IDLE_NONE;
    const struct list_node *list = list_empty(&pool->first) ? &pool->rest : &pool->first;
    uint32_t connection = pool->reuse == REUSE_RANDOM
                              ? pool->members[rng_below(&pool->rng, pool->count)]
                              : (uint32_t)(list_entry(list->next, struct idle_node, list) - pool->nodes);
    idle_pool_remove(pool, connection);
    return connection;
}

uint32_t idle_pool_count(const struct idle_pool *pool) {
    return pool->count;
}
