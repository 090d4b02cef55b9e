/* deadline_queue.c - the skip list. A predecessor of REQUEST_NONE stands for the head. */
#include "sched/core/deadline_queue.h"

#include "core/util/assert.h"

void deadline_queue_init(struct deadline_queue *queue) {
    *queue = (struct deadline_queue){0};
    for (uint32_t level = 0; level < REQUEST_LEVELS; level++)
        queue->head[level] = queue->tail[level] = REQUEST_NONE;
}

static uint32_t *link_after(struct deadline_queue *queue, struct request_node *nodes, uint32_t before, uint32_t level) {
    return before == REQUEST_NONE ? &queue->head[level] : &nodes[before].links[level];
}

static bool comes_before(const struct request_node *node, uint8_t priority, int64_t deadline_ns) {
    return node->priority != priority ? node->priority < priority : node->deadline_ns < deadline_ns;
}

/* On every level, the last node that comes before this priority and deadline. */
static void predecessors_find(const struct deadline_queue *queue, const struct request_node *nodes, uint8_t priority,
                              int64_t deadline_ns, uint32_t before[REQUEST_LEVELS]) {
    uint32_t at = REQUEST_NONE;
    for (uint32_t level = REQUEST_LEVELS; level-- > 0;) {
        uint32_t next = at == REQUEST_NONE ? queue->head[level] : nodes[at].links[level];
        while (next != REQUEST_NONE && comes_before(&nodes[next], priority, deadline_ns)) {
            at = next;
            next = nodes[at].links[level];
        }
        before[level] = at;
    }
}

void deadline_queue_insert(struct deadline_queue *queue, struct request_node *nodes, uint32_t node) {
    uint32_t height = 1 + (uint32_t)__builtin_ctz(++queue->inserted | 1U << 31) / 2, last = queue->tail[0];
    height = height < REQUEST_LEVELS ? height : REQUEST_LEVELS;
    uint8_t priority = nodes[node].priority;
    int64_t behind_ns = nodes[node].deadline_ns + 1; /* + 1: behind equal ones */
    queue->count++;
    queue->items += nodes[node].items;
    if (last == REQUEST_NONE || comes_before(&nodes[last], priority, behind_ns)) {
        for (uint32_t level = 0; level < height; level++) {
            nodes[node].links[level] = REQUEST_NONE;
            *link_after(queue, nodes, queue->tail[level], level) = node;
            queue->tail[level] = node;
        }
        /* The node appended AHEAD nodes ago gets `node` as its `next`, a hint. It is still in the queue if the queue is
         * long enough and nodes have left the queue only at its head. */
        uint32_t *ahead = &queue->last[queue->appended++ % DEADLINE_QUEUE_AHEAD];
        if (queue->count > DEADLINE_QUEUE_LONG && queue->appended > DEADLINE_QUEUE_AHEAD)
            nodes[*ahead].next = node;
        *ahead = node;
        return;
    }
    queue->appended = 0;
    uint32_t before[REQUEST_LEVELS];
    predecessors_find(queue, nodes, priority, behind_ns, before);
    for (uint32_t level = 0; level < height; level++) {
        uint32_t *link = link_after(queue, nodes, before[level], level);
        nodes[node].links[level] = *link;
        *link = node;
        if (queue->tail[level] == before[level])
            queue->tail[level] = node;
    }
}

uint32_t deadline_queue_pop(struct deadline_queue *queue, struct request_node *nodes) {
    uint32_t node = queue->head[0];
    CHECK(node != REQUEST_NONE);
    for (uint32_t level = 0; level < REQUEST_LEVELS && queue->head[level] == node; level++) {
        queue->head[level] = nodes[node].links[level];
        if (queue->tail[level] == node)
            queue->tail[level] = REQUEST_NONE;
    }
    queue->count--;
    queue->items -= nodes[node].items;
    return node;
}

uint32_t deadline_queue_remove(struct deadline_queue *queue, struct request_node *nodes, uint8_t priority,
                               int64_t deadline_ns, uint64_t handle) {
    uint32_t before[REQUEST_LEVELS];
    predecessors_find(queue, nodes, priority, deadline_ns, before);
    uint32_t node;
    for (;; /* over the requests of this place */) {
        node = *link_after(queue, nodes, before[0], 0);
        if (node == REQUEST_NONE || nodes[node].deadline_ns != deadline_ns || nodes[node].priority != priority)
            return REQUEST_NONE;
        if (nodes[node].handle == handle)
            break;
        for (uint32_t level = 0; level < REQUEST_LEVELS; level++) {
            if (*link_after(queue, nodes, before[level], level) != node)
                break;
            before[level] = node;
        }
    }
    for (uint32_t level = 0; level < REQUEST_LEVELS; level++) {
        uint32_t *link = link_after(queue, nodes, before[level], level);
        if (*link != node)
            break;
        *link = nodes[node].links[level];
        if (queue->tail[level] == node)
            queue->tail[level] = before[level];
    }
    queue->count--;
    queue->items -= nodes[node].items;
    queue->appended = 0;
    return node;
}

uint32_t deadline_queue_find(const struct deadline_queue *queue, const struct request_node *nodes, uint8_t priority,
                             int64_t deadline_ns) {
    uint32_t before[REQUEST_LEVELS];
    predecessors_find(queue, nodes, priority, deadline_ns, before);
    return before[0] == REQUEST_NONE ? queue->head[0] : nodes[before[0]].links[0];
}
