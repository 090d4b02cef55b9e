/* request_pool.h - the fixed pool of queued requests that the model cores of one thread share. */
#pragma once

#include <stdint.h>

#include "core/data/messages.h"

#define REQUEST_NONE   UINT32_MAX
#define REQUEST_LEVELS 6 /* of the deadline queue's skip list */

/* A queued request, one cache line. Cores link them by index. */
struct request_node {
    uint64_t handle;
    int64_t arrival_ns, deadline_ns;
    uint32_t model, items;
    uint32_t next; /* in a list of model_output or central_output, ended by REQUEST_NONE; else deadline_queue.h */
    uint16_t port;
    uint8_t refusal; /* enum refusal */
    uint8_t priority;
    union {
        uint32_t links[REQUEST_LEVELS]; /* the deadline queue's */
        int64_t ready_ns;               /* while it is in no queue: when its inputs are promised (model_promises.c) */
    };
};
_Static_assert(sizeof(struct request_node) == 64, "one cache line");

/* The free nodes are a stack. The pool keeps the indexes of the top REQUEST_POOL_TOP nodes, and each free node names
 * the one that lies so many places below it. So the nodes that will be asked for soon are known, and can be prefetched,
 * without a look at the nodes between. */
#define REQUEST_POOL_TOP 8

struct request_pool {
    struct request_node *nodes;
    uint32_t capacity, used;
    uint32_t top[REQUEST_POOL_TOP]; /* in a circle: [at] is the next one to be taken, [at - 1] the one after it */
    uint32_t at;
};

/* `nodes` is the caller's, [capacity]. */
void request_pool_init(struct request_pool *pool, struct request_node *nodes, uint32_t capacity);
/* Index of a free node, or REQUEST_NONE. */
uint32_t request_pool_get(struct request_pool *pool);
/* The one that request_pool_get() would give. */
static inline uint32_t request_pool_next(const struct request_pool *pool) {
    return pool->top[pool->at];
}
void request_pool_put(struct request_pool *pool, uint32_t node);

/* Fills a node from a request's arrival, but with priority 0: central schedulers have none. */
static inline void request_node_set(struct request_node *node, const struct request_message *message) {
    node->handle = message->handle;
    node->arrival_ns = message->arrival_ns;
    node->deadline_ns = message->deadline_ns;
    node->model = message->model;
    node->items = message->items;
    node->port = message->port;
    node->refusal = REFUSAL_NONE;
    node->priority = 0;
}
