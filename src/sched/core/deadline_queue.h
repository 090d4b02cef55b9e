/* deadline_queue.h - queued requests by priority, by deadline, then by arrival: a skip list over pool indexes.
 *
 * Requests of one SLO arrive in deadline order, so an append is O(1); SLOs that differ cost O(log n). Heights follow a
 * counter instead of a coin (every fourth node is one level higher), which keeps runs repeatable and, for requests
 * that arrive in order, the list perfect.
 *
 * Taking many requests out of a long queue is one cache miss after the other. So the `next` of a queued node names the
 * node that stands DEADLINE_QUEUE_AHEAD places behind it, and a walk through the queue can prefetch that node in time
 * (deadline_queue_prefetch()). This `next` is a hint: it is kept only where queues are long and requests come in order,
 * and nobody follows it as a link. */
#pragma once

#include <stdbool.h>

#include "sched/core/request_pool.h"

#define DEADLINE_QUEUE_AHEAD 8  /* nodes from a node to the one that its hint names: some 200 ns of work on a batch */
#define DEADLINE_QUEUE_LONG  32 /* nodes above which a queue keeps hints */

struct deadline_queue {
    uint32_t head[REQUEST_LEVELS]; /* first node of each level, or REQUEST_NONE */
    uint32_t tail[REQUEST_LEVELS]; /* last node of each level, or REQUEST_NONE */
    uint32_t count, items;
    uint32_t inserted; /* counter of insertions, from which a node's height follows */
    uint32_t appended; /* nodes appended since a node was inserted before others, or removed other than by pop */
    uint32_t last[DEADLINE_QUEUE_AHEAD]; /* the newest appended nodes; [appended % AHEAD] is the oldest of them */
};

void deadline_queue_init(struct deadline_queue *queue);
/* Inserts behind all requests of the same priority and deadline. */
void deadline_queue_insert(struct deadline_queue *queue, struct request_node *nodes, uint32_t node);
/* Removes the first node, which must exist, and returns it. */
uint32_t deadline_queue_pop(struct deadline_queue *queue, struct request_node *nodes);
/* Removes the request of this priority, deadline and handle. Returns its node; REQUEST_NONE: it is not in the queue. */
uint32_t deadline_queue_remove(struct deadline_queue *queue, struct request_node *nodes, uint8_t priority,
                               int64_t deadline_ns, uint64_t handle);
/* First node of this priority whose deadline is at least deadline_ns, or else the first of a lower priority;
 * REQUEST_NONE if there is none. */
uint32_t deadline_queue_find(const struct deadline_queue *queue, const struct request_node *nodes, uint8_t priority,
                             int64_t deadline_ns);

/* Prefetches a node some places behind `node`; `node` is in the queue. A hint. */
static inline void deadline_queue_prefetch(const struct request_pool *pool, uint32_t node) {
    uint32_t later = pool->nodes[node].next;
    if (later < pool->capacity)
        __builtin_prefetch(&pool->nodes[later], 1);
}

static inline uint32_t deadline_queue_first(const struct deadline_queue *queue) {
    return queue->head[0];
}

/* The node after `node`, or REQUEST_NONE. */
static inline uint32_t deadline_queue_next(const struct request_node *nodes, uint32_t node) {
    return nodes[node].links[0];
}
