/* shape_queue.h - requests whose input shape has no core yet: a pure state machine in virtual time.
 *
 * A model has VARIANTS_MAX cores, and each serves one shape at a time. While all cores have requests queued, requests
 * of other shapes wait here, by priority and deadline. When a core becomes idle, it is given to the shape of the first
 * waiting request, and all waiting requests of that shape go to it. So no request is refused because there are many
 * shapes: a request leaves to a core, by its cancellation, or as soon as it could no longer be in time even if it ran
 * alone at once. The pool's size bounds how many requests wait, and a model's limits count the requests here, too.
 *
 * The requests of one shape are linked as a ring, so that they are found together. A hash table has the first request
 * of each ring. */
#pragma once

#include "core/util/heap.h"
#include "sched/core/deadline_queue.h"
#include "sched/core/model_core.h"

/* What is kept of a request that waits, besides its node of the pool. */
struct shape_waiter {
    struct request_message message;
    uint32_t model;
    uint32_t next, before; /* neighbours in the ring of its shape */
    uint32_t next_shape;   /* first request of the next ring in the bucket; only the first of a ring has it */
    int64_t latest_ns;     /* time until which the request can be in time; TIME_NEVER: always */
    bool delayed;          /* the request becomes best effort instead of being refused */
};

/* The waiting requests of one model. */
struct shape_model {
    struct deadline_queue queue;
    uint32_t waiting[PRIORITIES_MAX], best_effort; /* requests in `queue` by priority; those of best effort */
    uint32_t at;                                   /* index of the model in shape_queue.busy */
    bool filling;                                  /* a core takes the requests of shape `filling_key` */
    uint64_t filling_key;
};

struct shape_queue {
    struct request_pool *pool;
    struct shape_waiter *waiters; /* [pool->capacity] */
    uint32_t *buckets;            /* first request of the first ring of each bucket, or REQUEST_NONE */
    struct shape_model *models;   /* [models] */
    uint32_t *busy;               /* models with requests that wait, in no order */
    uint32_t busy_count;
    uint32_t count;   /* waiting requests of all models */
    struct heap late; /* nodes of the waiting requests, by latest_ns */
};

/* Bytes of memory for the queue of a thread with so many models. */
size_t shape_queue_bytes(uint32_t models, const struct request_pool *pool);
/* `memory` is aligned to CACHE_LINE. Requests that wait have nodes of `pool`. */
void shape_queue_init(struct shape_queue *queue, void *memory, uint32_t models, struct request_pool *pool);

/* Adds an arrival that can be in time until latest_ns (TIME_NEVER: always). The pool must have a free node. `levels`
 * are the model's limits, or NULL. Another value than REFUSAL_NONE: the arrival was not added, since as many requests
 * wait as may wait. */
enum refusal shape_queue_add(struct shape_queue *queue, uint32_t model, const struct request_message *message,
                             int64_t latest_ns, bool delayed, const struct queue_levels *levels);
/* Whether as many requests of a priority wait as the limit allows, here and in the cores together. */
bool shape_queue_is_full(const struct shape_queue *queue, uint32_t model, uint8_t priority,
                         const struct queue_levels *levels);
/* Takes out the request that a cancellation names, and gives its node to the caller; REQUEST_NONE: it is not here. */
uint32_t shape_queue_cancel(struct shape_queue *queue, uint32_t model, const struct request_message *message);
/* The inputs of a request are there before their time. False: the request is not here. */
bool shape_queue_ready(struct shape_queue *queue, uint32_t model, const struct request_message *message);
/* Takes out a request that can no longer be in time and does not become best effort. Gives its node to the caller;
 * REQUEST_NONE: there is no such request. */
uint32_t shape_queue_late(struct shape_queue *queue, int64_t now_ns);
/* The request whose shape is to get the model's next idle core; NULL: none waits. */
const struct request_message *shape_queue_next(const struct shape_queue *queue, uint32_t model);
/* A core is given to a shape: shape_queue_take() takes the requests of the shape out, until it returns false. */
void shape_queue_fill(struct shape_queue *queue, uint32_t model, uint64_t shape_key);
/* Takes out a request of the shape of shape_queue_fill(), writes it to `message`, and frees its node. False: no request
 * of the shape waits any more. */
bool shape_queue_take(struct shape_queue *queue, uint32_t model, struct request_message *message);

/* How many requests of a model wait. */
static inline uint32_t shape_queue_count(const struct shape_queue *queue, uint32_t model) {
    return queue->models[model].queue.count;
}

/* When to call shape_queue_late() next; TIME_NEVER: no request gets late. */
static inline int64_t shape_queue_wake_ns(const struct shape_queue *queue) {
    return heap_empty(&queue->late) ? TIME_NEVER : heap_top(&queue->late).key + 1;
}
