/* request_pool.h - the fixed pool of queued requests that the model cores of one thread share. */
#pragma once

#include <stdint.h>

#include "core/data/messages.h"

#define REQUEST_NONE   UINT32_MAX
#define REQUEST_LEVELS 6 /* levels of the deadline queue's skip list */

/* A queued request, one cache line. Cores link requests by index. */
struct request_node {
    uint64_t handle;
    int64_t arrival_ns, deadline_ns;
    uint32_t model, items;
    uint32_t next; /* next node of a list, ended by REQUEST_NONE; in a deadline queue: a hint (deadline_queue.h) */
    uint16_t port;
    uint8_t refusal : 4; /* enum refusal */
    uint8_t cause : 4;   /* enum refusal_cause: why the request is refused, or would be */
    uint8_t priority;
    union {
        uint32_t links[REQUEST_LEVELS]; /* links of the deadline queue, by level */
        int64_t ready_ns;               /* in no queue: time for which the inputs are promised (model_promises.c) */
        struct refusal_figures figures; /* refused */
    };
};
_Static_assert(sizeof(struct request_node) == 64, "one cache line");
_Static_assert(REFUSAL_COUNT <= 16 && CAUSE_COUNT <= 16, "four bits each");

/* The free nodes are a stack. The pool keeps the indexes of the top REQUEST_POOL_TOP nodes, and each free node names
 * the node REQUEST_POOL_TOP places below it. So the nodes that will be asked for soon are known, and can be prefetched
 * without reading the nodes between. */
#define REQUEST_POOL_TOP 8

struct request_pool {
    struct request_node *nodes;
    uint32_t capacity, used;
    uint32_t top[REQUEST_POOL_TOP]; /* top nodes, in a circle: [at] is the next node to be taken, then [at - 1] */
    uint32_t at;
};

/* `nodes` is the caller's, [capacity]. */
void request_pool_init(struct request_pool *pool, struct request_node *nodes, uint32_t capacity);
/* Index of a free node, or REQUEST_NONE. */
uint32_t request_pool_get(struct request_pool *pool);
/* The node that request_pool_get() would return. */
static inline uint32_t request_pool_next(const struct request_pool *pool) {
    return pool->top[pool->at];
}
void request_pool_put(struct request_pool *pool, uint32_t node);

/* Fills a node from a request's arrival, with priority 0: central policies have no priorities. `model`: number by which
 * the core knows the request's model. */
static inline void request_node_set(struct request_node *node, uint32_t model, const struct request_message *message) {
    node->handle = message->handle;
    node->arrival_ns = message->arrival_ns;
    node->deadline_ns = message->deadline_ns;
    node->model = model;
    node->items = message->items;
    node->port = message->port;
    node->refusal = REFUSAL_NONE;
    node->cause = CAUSE_NONE;
    node->priority = 0;
}
