/* shape_queue.c - the queue of each model, the rings of shapes, and when requests are too late. */
#include "sched/core/shape_queue.h"

#include "core/util/arena.h"
#include "core/util/assert.h"

#define BUCKETS 4096 /* keys of shapes are hashes: with 65536 shapes, 16 to a bucket */

/* ---- set-up ---- */

static void lay_out(struct shape_queue *queue, struct arena *arena, uint32_t models, uint32_t capacity) {
    queue->waiters = arena_take(arena, capacity * sizeof(*queue->waiters));
    queue->buckets = arena_take(arena, BUCKETS * sizeof(*queue->buckets));
    queue->models = arena_take(arena, models * sizeof(*queue->models));
    queue->busy = arena_take(arena, models * sizeof(*queue->busy));
    heap_take(arena, &queue->late, capacity);
}

size_t shape_queue_bytes(uint32_t models, const struct request_pool *pool) {
    struct shape_queue scratch;
    struct arena arena = {NULL, 0};
    lay_out(&scratch, &arena, models, pool->capacity);
    return arena.used;
}

void shape_queue_init(struct shape_queue *queue, void *memory, uint32_t models, struct request_pool *pool) {
    struct arena arena = {memory, 0};
    *queue = (struct shape_queue){.pool = pool};
    lay_out(queue, &arena, models, pool->capacity);
    for (uint32_t b = 0; b < BUCKETS; b++)
        queue->buckets[b] = REQUEST_NONE;
    for (uint32_t m = 0; m < models; m++) {
        queue->models[m] = (struct shape_model){0};
        deadline_queue_init(&queue->models[m].queue);
    }
}

/* ---- rings of shapes ---- */

static uint32_t *bucket_of(const struct shape_queue *queue, uint64_t shape_key) {
    return &queue->buckets[shape_key % BUCKETS];
}

/* The first request of a shape, or REQUEST_NONE. */
static uint32_t ring_find(const struct shape_queue *queue, uint32_t model, uint64_t shape_key) {
    uint32_t node = *bucket_of(queue, shape_key);
    while (node != REQUEST_NONE &&
           (queue->waiters[node].model != model || queue->waiters[node].message.shape_key != shape_key))
        node = queue->waiters[node].next_shape;
    return node;
}

static void ring_add(struct shape_queue *queue, uint32_t node) {
    struct shape_waiter *all = queue->waiters, *waiter = &all[node];
    uint32_t first = ring_find(queue, waiter->model, waiter->message.shape_key);

    if (first == REQUEST_NONE) {
        uint32_t *bucket = bucket_of(queue, waiter->message.shape_key);
        waiter->next = waiter->before = node;
        waiter->next_shape = *bucket;
        *bucket = node;
        return;
    }
    waiter->next = first;
    waiter->before = all[first].before;
    all[waiter->before].next = all[first].before = node;
}

static void ring_remove(struct shape_queue *queue, uint32_t node) {
    struct shape_waiter *all = queue->waiters, *waiter = &all[node];
    uint32_t *link = bucket_of(queue, waiter->message.shape_key);

    while (*link != REQUEST_NONE && *link != node)
        link = &all[*link].next_shape;
    if (*link == node && waiter->next == node) {
        *link = waiter->next_shape;
    } else if (*link == node) {
        all[waiter->next].next_shape = waiter->next_shape;
        *link = waiter->next;
    }
    all[waiter->before].next = waiter->next;
    all[waiter->next].before = waiter->before;
}

/* ---- what waits of a model ---- */

static void model_count(struct shape_queue *queue, uint32_t node, int more) {
    struct shape_model *m = &queue->models[queue->waiters[node].model];
    uint8_t priority = queue->pool->nodes[node].priority;
    uint32_t *waiting = priority == PRIORITY_BEST_EFFORT ? &m->best_effort : &m->waiting[priority];
    *waiting += (uint32_t)more;
}

static void model_insert(struct shape_queue *queue, uint32_t node) {
    struct shape_model *m = &queue->models[queue->waiters[node].model];

    if (m->queue.count == 0) {
        m->at = queue->busy_count++;
        queue->busy[m->at] = queue->waiters[node].model;
    }
    deadline_queue_insert(&m->queue, queue->pool->nodes, node);
    model_count(queue, node, 1);
}

static void model_remove(struct shape_queue *queue, uint32_t node) {
    struct shape_model *m = &queue->models[queue->waiters[node].model];
    const struct request_node *request = &queue->pool->nodes[node];

    CHECK_EQ(
        deadline_queue_remove(&m->queue, queue->pool->nodes, request->priority, request->deadline_ns, request->handle),
        node);
    model_count(queue, node, -1);
    if (m->queue.count > 0)
        return;
    uint32_t last = queue->busy[--queue->busy_count];
    queue->busy[m->at] = last;
    queue->models[last].at = m->at;
}

static void take_out(struct shape_queue *queue, uint32_t node) {
    heap_remove(&queue->late, node);
    ring_remove(queue, node);
    model_remove(queue, node);
    queue->count--;
}

static void late_set(struct shape_queue *queue, uint32_t node) {
    if (queue->waiters[node].latest_ns != TIME_NEVER)
        heap_set(&queue->late, node, queue->waiters[node].latest_ns);
}

/* ---- arrivals, and what leaves ---- */

bool shape_queue_is_full(const struct shape_queue *queue, uint32_t model, uint8_t priority,
                         const struct queue_levels *levels) {
    return levels && priority < PRIORITIES_MAX &&
           levels->of[priority].waiting + queue->models[model].waiting[priority] >= levels->of[priority].most;
}

enum refusal shape_queue_add(struct shape_queue *queue, uint32_t model, const struct request_message *message,
                             int64_t latest_ns, bool delayed, const struct queue_levels *levels) {
    if (shape_queue_is_full(queue, model, message->priority, levels))
        return REFUSAL_QUEUE_FULL;
    if (message->priority == PRIORITY_BEST_EFFORT && queue->models[model].best_effort >= BEST_EFFORT_MAX)
        return REFUSAL_BEST_EFFORT_FULL;
    uint32_t node = request_pool_get(queue->pool);
    CHECK(node != REQUEST_NONE); /* the caller sees to a free node */
    request_node_set(&queue->pool->nodes[node], message->place.n, message);
    queue->pool->nodes[node].priority = message->priority;
    queue->waiters[node] = (struct shape_waiter){
        .message = *message,
        .model = model,
        .latest_ns = latest_ns,
        .delayed = delayed,
    };
    ring_add(queue, node);
    model_insert(queue, node);
    late_set(queue, node);
    queue->count++;
    return REFUSAL_NONE;
}

/* The request that a message is about, or REQUEST_NONE. */
static uint32_t request_find(const struct shape_queue *queue, uint32_t model, const struct request_message *message) {
    uint32_t first = ring_find(queue, model, message->shape_key), node = first;
    while (node != REQUEST_NONE && queue->waiters[node].message.handle != message->handle)
        node = queue->waiters[node].next == first ? REQUEST_NONE : queue->waiters[node].next;
    return node;
}

uint32_t shape_queue_cancel(struct shape_queue *queue, uint32_t model, const struct request_message *message) {
    uint32_t node = request_find(queue, model, message);

    if (node == REQUEST_NONE)
        return REQUEST_NONE;
    take_out(queue, node);
    queue->pool->nodes[node].refusal = REFUSAL_CANCELLED;
    queue->pool->nodes[node].next = REQUEST_NONE;
    return node;
}

bool shape_queue_ready(struct shape_queue *queue, uint32_t model, const struct request_message *message) {
    uint32_t node = request_find(queue, model, message);

    if (node != REQUEST_NONE)
        queue->waiters[node].message.ready_ns = 0;
    return node != REQUEST_NONE;
}

/* A request becomes best effort, if there is room for one more. */
static bool best_effort_become(struct shape_queue *queue, uint32_t node) {
    struct shape_waiter *waiter = &queue->waiters[node];
    struct request_node *request = &queue->pool->nodes[node];

    if (queue->models[waiter->model].best_effort >= BEST_EFFORT_MAX)
        return false;
    model_remove(queue, node);
    waiter->delayed = false;
    waiter->message.priority = request->priority = PRIORITY_BEST_EFFORT;
    waiter->message.deadline_ns = request->deadline_ns += BEST_EFFORT_WAIT_NS;
    waiter->latest_ns += BEST_EFFORT_WAIT_NS;
    model_insert(queue, node);
    late_set(queue, node);
    return true;
}

uint32_t shape_queue_late(struct shape_queue *queue, int64_t now_ns) {
    while (shape_queue_wake_ns(queue) <= now_ns) {
        uint32_t node = heap_top(&queue->late).item;
        bool delayed = queue->waiters[node].delayed;
        if (delayed && best_effort_become(queue, node))
            continue;
        take_out(queue, node);
        queue->pool->nodes[node].refusal = (uint8_t)(delayed ? REFUSAL_BEST_EFFORT_FULL : REFUSAL_DEADLINE);
        queue->pool->nodes[node].next = REQUEST_NONE;
        return node;
    }
    return REQUEST_NONE;
}

/* ---- cores that are idle ---- */

const struct request_message *shape_queue_next(const struct shape_queue *queue, uint32_t model) {
    const struct shape_model *m = &queue->models[model];
    return m->queue.count > 0 ? &queue->waiters[deadline_queue_first(&m->queue)].message : NULL;
}

void shape_queue_fill(struct shape_queue *queue, uint32_t model, uint64_t shape_key) {
    queue->models[model].filling = true;
    queue->models[model].filling_key = shape_key;
}

bool shape_queue_take(struct shape_queue *queue, uint32_t model, struct request_message *message) {
    struct shape_model *m = &queue->models[model];
    uint32_t node = m->filling ? ring_find(queue, model, m->filling_key) : REQUEST_NONE;

    m->filling = node != REQUEST_NONE;
    if (!m->filling)
        return false;
    *message = queue->waiters[node].message;
    take_out(queue, node);
    request_pool_put(queue->pool, node);
    return true;
}
