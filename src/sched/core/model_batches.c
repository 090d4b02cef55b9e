/* model_batches.c - which requests a batch may hold: consecutive requests of a queue in deadline order, so few that the
 * batch ends by the deadline of its first request. */
#include "sched/core/model_core_state.h"

/* The largest batch of up to `most` items that ends by the deadline; one of `least` does. */
static uint32_t items_fitting(const struct model_core *core, uint32_t type, int64_t now_ns, int64_t deadline_ns,
                              uint32_t least, uint32_t most) {
    if (most <= least || model_in_time(core, type, now_ns, most, deadline_ns))
        return most > least ? most : least;
    /* The line through the table says about how many. Where that is right, two looks are enough; halving the table
     * would take more, and each look may wait for a cache line. */
    const struct profile *profile = core->view.profiles[type];
    int64_t none_ns = model_end_ns(core, type, now_ns, 0);
    double guess =
        ((double)(deadline_ns - none_ns) - profile->beta_ns) / (profile->alpha_ns + (double)core->view.data_ns);
    if (guess > least && guess < most) {
        uint32_t items = (uint32_t)guess;
        if (model_in_time(core, type, now_ns, items, deadline_ns))
            least = items;
        else
            most = items;
        if (least + 1 < most && !model_in_time(core, type, now_ns, least + 1, deadline_ns))
            return least;
    }
    while (most - least > 1) {
        uint32_t middle = (least + most) / 2;
        if (model_in_time(core, type, now_ns, middle, deadline_ns))
            least = middle;
        else
            most = middle;
    }
    return least;
}

uint32_t model_start_find(const struct model_core *core, const struct deadline_queue *queue, uint32_t type,
                          int64_t now_ns, uint32_t items) {
    const struct request_node *nodes = core->pool->nodes;
    uint32_t node = deadline_queue_first(queue);
    if (node == REQUEST_NONE)
        return node;
    if (items < nodes[node].items)
        items = nodes[node].items;
    if (model_in_time(core, type, now_ns, items, nodes[node].deadline_ns))
        return node;
    uint8_t priority = nodes[node].priority;
    node = deadline_queue_find(queue, nodes, priority, model_end_ns(core, type, now_ns, items));
    if (node == REQUEST_NONE)
        node = deadline_queue_find(queue, nodes, priority, model_end_ns(core, type, now_ns, 1));
    while (node != REQUEST_NONE && !model_in_time(core, type, now_ns, nodes[node].items, nodes[node].deadline_ns))
        node = deadline_queue_next(nodes, node); /* this one has too many items */
    return node;
}

struct type_batch model_batch_compose(const struct model_core *core, const struct deadline_queue *queue, uint32_t type,
                                      int64_t now_ns, uint32_t start, uint32_t most) {
    const struct request_node *nodes = core->pool->nodes;
    if (start == REQUEST_NONE)
        return (struct type_batch){.start = REQUEST_NONE};
    uint32_t first = nodes[start].items; /* alone, it may be larger than `most` */
    bool single = start == deadline_queue_first(queue) && queue->items == queue->count; /* of one item each */
    if (single && queue->items <= most && model_in_time(core, type, now_ns, queue->items, nodes[start].deadline_ns))
        return (struct type_batch){start, queue->items, false, false, now_ns};
    most = items_fitting(core, type, now_ns, nodes[start].deadline_ns, first, most);
    if (single)
        return (struct type_batch){start, most < queue->items ? most : queue->items, most < queue->items, false,
                                   now_ns};
    uint32_t items = 0, node = start;
    while (node != REQUEST_NONE && items + nodes[node].items <= most) {
        items += nodes[node].items;
        node = deadline_queue_next(nodes, node);
    }
    return (struct type_batch){start, items, node != REQUEST_NONE, false, now_ns};
}

/* Takes of each priority in turn, from the highest on, the requests that are in time and make no other request of the
 * batch late. */
struct type_batch model_mixed_compose(const struct model_core *core, const struct deadline_queue *queue, uint32_t type,
                                      int64_t now_ns, uint32_t most) {
    struct request_node *nodes = core->pool->nodes;
    struct type_batch batch = {.start = REQUEST_NONE, .changed_ns = now_ns};
    uint32_t *link = &batch.start;
    uint8_t priority = 0;
    for (uint32_t node = deadline_queue_first(queue); node != REQUEST_NONE;) {
        struct request_node *request = &nodes[node];
        uint32_t items = batch.items + request->items;
        batch.full = batch.items && items > most;
        if (batch.full)
            break;
        if (!model_in_time(core, type, now_ns, items, request->deadline_ns)) {
            int64_t one_ns = model_end_ns(core, type, now_ns, batch.items + 1);
            node = request->deadline_ns < one_ns ? deadline_queue_find(queue, nodes, request->priority, one_ns)
                                                 : deadline_queue_next(nodes, node); /* too many items */
            continue;
        }
        batch.full = batch.items && !model_in_time(core, type, now_ns, items, nodes[batch.start].deadline_ns);
        if (batch.full)
            break;
        if (request->priority != priority)
            link = &batch.start;
        priority = request->priority;
        while (*link != REQUEST_NONE && nodes[*link].deadline_ns <= request->deadline_ns)
            link = &nodes[*link].next;
        request->next = *link;
        *link = node;
        batch.items = items;
        node = deadline_queue_next(nodes, node);
    }
    return batch;
}

/* No longer than an ordinary batch, of which two fit into the SLO; but one request in any case. */
struct type_batch model_best_effort_compose(const struct model_core *core, uint32_t type, int64_t now_ns,
                                            int64_t run_ns) {
    const struct request_node *nodes = core->pool->nodes;
    const struct request_node *first =
        core->any_best_effort ? model_node(core, deadline_queue_first(&core->best_effort)) : NULL;
    struct type_batch batch = {.start = REQUEST_NONE};
    if (!first || !core->view.used[type] || model_run_ns(core, type, first->items) > run_ns ||
        !model_in_time(core, type, now_ns, first->items, first->deadline_ns))
        return batch;
    int64_t ordinary_ns = (int64_t)core->view.slo_ns / 2;
    run_ns = run_ns < ordinary_ns ? run_ns : ordinary_ns;
    batch.start = deadline_queue_first(&core->best_effort);
    for (uint32_t node = batch.start; node != REQUEST_NONE; node = deadline_queue_next(nodes, node)) {
        uint32_t items = batch.items + nodes[node].items;
        if (batch.items && (items > model_items_most(&core->view, type) || model_run_ns(core, type, items) > run_ns ||
                            !model_in_time(core, type, now_ns, items, first->deadline_ns)))
            break;
        batch.items = items;
    }
    return batch;
}
