/* clockwork_strategy.c - the next batch of one model (Clockwork, OSDI 2020, section 5.3, "Scheduling INFER").
 *
 * A model's queue is in deadline order. So its batch queue of size b, the requests that a batch of b can still serve,
 * is the queue from the first request with start + l(b) <= deadline on. Nothing is kept for each size.
 *
 *      queue   r1   r2   r3   r4   r5        by deadline
 *   b = 1           |------------------      r1 can no longer make it
 *   b = 2           |------------------
 *   b = 4                |-------------      three left, not enough for four
 *
 * A strategy is a size b whose batch queue holds at least b, and the latest start of the first of them. The strategy
 * with the earliest latest start is taken. Its batch grows while its first request allows it and others can join. */
#include "sched/policy/clockwork.h"

/* The items of the requests from `node` on, in order, as far as they fit into `most`. */
static uint32_t items_from(const struct clockwork *c, uint32_t node, uint32_t most) {
    uint32_t items = 0;
    for (; node != REQUEST_NONE && items < most; node = deadline_queue_next(c->pool->nodes, node))
        if (items + clockwork_node(c, node)->items <= most)
            items += clockwork_node(c, node)->items;
    return items;
}

/* What a batch of a model depends on: the type's latencies, and when an accelerator of the type is free. */
struct slot {
    const struct clockwork_model *model;
    const int64_t *latency_ns;
    int64_t now_ns, free_ns;
};

static int64_t finish(const struct clockwork *c, const struct slot *slot, uint32_t items) {
    return time_later(slot->free_ns, slot->now_ns + clockwork_delay(c, items)) + slot->latency_ns[items];
}

/* The next size of a batch after `size`; more than batch_max: there is none. */
static uint32_t size_after(const struct clockwork *c, const struct clockwork_model *model, uint32_t size) {
    if (!c->powers || size >= model->batch_max)
        return size + 1;
    return 2 * size < model->batch_max ? 2 * size : model->batch_max;
}

/* The best strategy of a model whose requests have one item each. Its batch is grown. */
static struct clockwork_strategy strategy_of_singles(const struct clockwork *c, const struct slot *slot) {
    const struct clockwork_model *model = slot->model;
    struct clockwork_strategy best = {.start = REQUEST_NONE, .latest_ns = INT64_MAX};
    uint32_t node = deadline_queue_first(&model->queue), left = model->queue.count, best_left = 0;
    for (uint32_t b = 1; b <= model->batch_max; b = size_after(c, model, b)) {
        int64_t finish_ns = finish(c, slot, b);
        for (; node != REQUEST_NONE && clockwork_node(c, node)->deadline_ns < finish_ns; left--)
            node = deadline_queue_next(c->pool->nodes, node);
        if (left < b)
            break; /* for larger sizes even fewer are left */
        int64_t latest_ns = clockwork_node(c, node)->deadline_ns - slot->latency_ns[b];
        if (latest_ns > best.latest_ns)
            continue;
        best = (struct clockwork_strategy){node, b, latest_ns};
        best_left = left;
    }
    if (best.start == REQUEST_NONE)
        return best;
    int64_t deadline_ns = clockwork_node(c, best.start)->deadline_ns;
    for (uint32_t b = best.items; b <= model->batch_max && b <= best_left && finish(c, slot, b) <= deadline_ns;
         b = size_after(c, model, b))
        best.items = b;
    return best;
}

/* The best strategy if requests have several items: a batch takes those that fit, in order. A size counts only if its
 * batch would not fit into the next smaller size. */
static struct clockwork_strategy strategy_of_several(const struct clockwork *c, const struct slot *slot) {
    const struct clockwork_model *model = slot->model;
    struct clockwork_strategy best = {.start = REQUEST_NONE, .latest_ns = INT64_MAX};
    uint32_t before = 0, size = 0;
    for (uint32_t b = 1; b <= model->batch_max; before = b, b = size_after(c, model, b)) {
        int64_t finish_ns = finish(c, slot, b);
        uint32_t node = deadline_queue_first(&model->queue);
        while (node != REQUEST_NONE &&
               (clockwork_node(c, node)->deadline_ns < finish_ns || clockwork_node(c, node)->items > b))
            node = deadline_queue_next(c->pool->nodes, node);
        uint32_t items = items_from(c, node, b);
        if (items <= before)
            continue;
        int64_t latest_ns = clockwork_node(c, node)->deadline_ns - slot->latency_ns[b];
        if (latest_ns > best.latest_ns)
            continue;
        best = (struct clockwork_strategy){node, items, latest_ns};
        size = b;
    }
    if (best.start == REQUEST_NONE)
        return best;
    int64_t deadline_ns = clockwork_node(c, best.start)->deadline_ns;
    for (uint32_t b = size; b <= model->batch_max && finish(c, slot, b) <= deadline_ns; b = size_after(c, model, b)) {
        uint32_t items = items_from(c, best.start, b);
        if (items > best.items)
            best.items = items;
    }
    return best;
}

/* The strategy as the authors' program chooses it (try_dequeue() of its scheduler). A request's batch has the
 * largest size for which there are requests from this one on; if that is late, the request has no strategy, though a
 * smaller batch would be in time. The first request that has one goes, and what the batch makes late before it is
 * dropped. */
static struct clockwork_strategy strategy_of_rest(const struct clockwork *c, const struct slot *slot) {
    const struct clockwork_model *model = slot->model;
    uint32_t left = model->queue.items, first = deadline_queue_first(&model->queue);
    for (uint32_t node = first; node != REQUEST_NONE; node = deadline_queue_next(c->pool->nodes, node)) {
        const struct request_node *request = clockwork_node(c, node);
        uint32_t size = left < model->batch_max ? left : model->batch_max;
        while (c->powers && size < model->batch_max && (size & (size - 1)))
            size &= size - 1; /* takes the lowest bit off, until one is left */
        size = size > request->items ? size : request->items;
        int64_t finish_ns = finish(c, slot, size);
        left -= request->items;
        if (finish_ns > request->deadline_ns)
            continue;
        while (clockwork_node(c, first)->deadline_ns < finish_ns || clockwork_node(c, first)->items > size)
            first = deadline_queue_next(c->pool->nodes, first);
        return (struct clockwork_strategy){first, items_from(c, first, size),
                                           clockwork_node(c, first)->deadline_ns - slot->latency_ns[size]};
    }
    return (struct clockwork_strategy){.start = REQUEST_NONE};
}

struct clockwork_strategy clockwork_strategy_find(const struct clockwork *c, uint8_t type, uint32_t m, int64_t now_ns,
                                                  int64_t free_ns) {
    const struct clockwork_model *model = &c->models[m];
    struct slot slot = {model, model->tables[type]->latency_ns, now_ns, free_ns};
    if (c->skip)
        return strategy_of_rest(c, &slot);
    return model->queue.items == model->queue.count ? strategy_of_singles(c, &slot) : strategy_of_several(c, &slot);
}
