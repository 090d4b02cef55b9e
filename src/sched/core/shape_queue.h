/* shape_queue.h - requests whose input shape has no core yet: a pure state machine in virtual time.
 *
 * A model has VARIANTS_MAX cores, and each serves one shape at a time. While all of them have requests queued, requests
 * of other shapes wait here, by priority and deadline. When a core is idle, it is given to the first one's shape, and
 * all that wait of that shape go to it. So variety alone refuses nothing: a request leaves to a core, by its
 * cancellation, or as soon as it could no longer be in time even if it ran alone at once. The pool's size bounds how
 * many wait, and a model's own limits count what waits here, too.
 *
 * Requests of one shape are a ring, so that they are found together; the first one of each ring is in a hash table. */
#pragma once

#include "core/util/heap.h"
#include "sched/core/deadline_queue.h"
#include "sched/core/model_core.h"

/* A request that waits, beside its node of the pool. */
struct shape_waiter {
    struct request_message message;
    uint32_t model;
    uint32_t next, before; /* in the ring of its shape */
    uint32_t next_shape;   /* of the first of a ring: the first of another ring in the same bucket */
    int64_t latest_ns;
    bool delayed; /* it is to become best effort instead of being refused */
};

/* What waits of one model. */
struct shape_model {
    struct deadline_queue queue;
    uint32_t waiting[PRIORITIES_MAX], best_effort; /* of `queue`, by priority */
    uint32_t at;                                   /* in shape_queue.busy */
    bool filling;                                  /* a core was given to `filling_key`, and more of it may wait */
    uint64_t filling_key;
};

struct shape_queue {
    struct request_pool *pool;
    struct shape_waiter *waiters; /* [pool->capacity] */
    uint32_t *buckets;            /* the first of a ring, or REQUEST_NONE */
    struct shape_model *models;
    uint32_t *busy; /* models with requests that wait, in no order */
    uint32_t busy_count;
    uint32_t count;   /* requests that wait, of all models */
    struct heap late; /* their nodes, by latest_ns */
};

/* Bytes of memory for the queue of a thread with so many models. */
size_t shape_queue_bytes(uint32_t models, const struct request_pool *pool);
/* `memory` is aligned to CACHE_LINE. Requests that wait have nodes of `pool`. */
void shape_queue_init(struct shape_queue *queue, void *memory, uint32_t models, struct request_pool *pool);

/* Adds an arrival, which can be in time until latest_ns (TIME_NEVER: always). The pool must have a free node. `levels`
 * are the model's limits, or NULL. Not REFUSAL_NONE: it was not added, since as many as may wait already. */
enum refusal shape_queue_add(struct shape_queue *queue, uint32_t model, const struct request_message *message,
                             int64_t latest_ns, bool delayed, const struct queue_levels *levels);
/* Whether another request of a priority would be more than the limit, of those here and in the cores together. */
bool shape_queue_is_full(const struct shape_queue *queue, uint32_t model, uint8_t priority,
                         const struct queue_levels *levels);
/* Takes out the request that a cancellation names. Its node is the caller's then; REQUEST_NONE: it is not here. */
uint32_t shape_queue_cancel(struct shape_queue *queue, uint32_t model, const struct request_message *message);
/* The inputs of a request are there before their time. False: it is not here. */
bool shape_queue_ready(struct shape_queue *queue, uint32_t model, const struct request_message *message);
/* Takes out a request that can no longer be in time, and has no later deadline as best effort; REQUEST_NONE: there is
 * none. The node is the caller's. */
uint32_t shape_queue_late(struct shape_queue *queue, int64_t now_ns);
/* The request whose shape is to get the model's next idle core; NULL: none waits. */
const struct request_message *shape_queue_next(const struct shape_queue *queue, uint32_t model);
/* A core is given to a shape: requests of it go there by shape_queue_take(), until that says that there are none. */
void shape_queue_fill(struct shape_queue *queue, uint32_t model, uint64_t shape_key);
/* Takes out a request of the shape that a core was given to, which it fills, and frees its node. False: there is none
 * (any more). */
bool shape_queue_take(struct shape_queue *queue, uint32_t model, struct request_message *message);

/* What waits of a model. */
static inline uint32_t shape_queue_count(const struct shape_queue *queue, uint32_t model) {
    return queue->models[model].queue.count;
}

/* When shape_queue_late() is to be called. */
static inline int64_t shape_queue_wake_ns(const struct shape_queue *queue) {
    return heap_empty(&queue->late) ? TIME_NEVER : heap_top(&queue->late).key + 1;
}
