/* model_batches.c - which requests a batch may hold: so few that the batch ends by the deadline of each.
 *
 * A queue is plain if its requests have one item each and one priority. Then a batch is a run of the queue, and a few
 * looks at the latency table find it. In any other queue a batch begins with the first request and takes what fits
 * beside it, in the order of the queue: first fit. A request that does not fit is passed over and keeps its place, in
 * front of all that come later. Every batch on the fastest type takes the request at the front, so one that has k
 * requests before it is in one of the next k + 1 of these batches, unless its deadline comes first. */
#include "sched/core/model_core_state.h"

/* Requests that the search for a batch's first request, or for what fits beside it, passes over at most: a bound on the
 * work. On Kairos's queries 4 lose a tenth more requests; 8, 64 and 256 lose as many as 16. */
#define PASSED_MOST 16

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

static uint32_t plain_start(const struct model_core *core, uint32_t type, int64_t now_ns) {
    const struct deadline_queue *queue = &core->queue;
    const struct request_node *nodes = core->pool->nodes;
    uint32_t node = deadline_queue_first(queue);
    uint32_t items = model_items_wanted(core, &nodes[node]);
    if (model_in_time(core, type, now_ns, items, nodes[node].deadline_ns))
        return node;
    uint8_t priority = nodes[node].priority;
    node = deadline_queue_find(queue, nodes, priority, model_end_ns(core, type, now_ns, items));
    if (node == REQUEST_NONE)
        node = deadline_queue_find(queue, nodes, priority, model_end_ns(core, type, now_ns, 1));
    return node;
}

static uint32_t several_start(const struct model_core *core, uint32_t type, int64_t now_ns) {
    const struct deadline_queue *queue = &core->queue;
    const struct request_node *nodes = core->pool->nodes;
    uint32_t node = deadline_queue_first(queue), able = REQUEST_NONE;
    bool window = !model_is_mixed(core);
    if (!model_in_time(core, type, now_ns, 1, nodes[node].deadline_ns))
        node = deadline_queue_find(queue, nodes, nodes[node].priority, model_end_ns(core, type, now_ns, 1));
    for (uint32_t looks = 0; node != REQUEST_NONE && looks < PASSED_MOST; looks++) {
        const struct request_node *request = &nodes[node];
        if (model_in_time(core, type, now_ns, request->items, request->deadline_ns)) {
            if (!window || model_in_time(core, type, now_ns, model_items_wanted(core, request), request->deadline_ns))
                return node;
            able = able == REQUEST_NONE ? node : able;
        }
        node = deadline_queue_next(nodes, node);
    }
    return able;
}

/* The batch of a plain queue. */
static struct type_batch plain_compose(const struct model_core *core, uint32_t type, int64_t now_ns, uint32_t most) {
    const struct deadline_queue *queue = &core->queue;
    const struct request_node *nodes = core->pool->nodes;
    uint32_t start = plain_start(core, type, now_ns), items = queue->items;
    if (start == REQUEST_NONE)
        return (struct type_batch){.start = REQUEST_NONE};
    bool whole = start == deadline_queue_first(queue);
    if (whole && items <= most && model_in_time(core, type, now_ns, items, nodes[start].deadline_ns))
        return (struct type_batch){start, items, false, false, now_ns};
    most = items_fitting(core, type, now_ns, nodes[start].deadline_ns, 1, most);
    if (whole)
        return (struct type_batch){start, most < items ? most : items, most < items, false, now_ns};
    items = 0;
    uint32_t node = start;
    for (; node != REQUEST_NONE && items < most; node = deadline_queue_next(nodes, node))
        items++;
    return (struct type_batch){start, items, node != REQUEST_NONE, false, now_ns};
}

/* Adds a request to the batch, whose requests are linked by `next` in the order of their deadlines. */
static void batch_link(struct request_node *nodes, struct type_batch *batch, uint32_t node) {
    uint32_t *link = &batch->start;
    while (*link != REQUEST_NONE && nodes[*link].deadline_ns <= nodes[node].deadline_ns)
        link = &nodes[*link].next;
    nodes[node].next = *link;
    *link = node;
    batch->items += nodes[node].items;
}

/* The batch of a queue that is not plain. */
static struct type_batch several_compose(const struct model_core *core, uint32_t type, int64_t now_ns, uint32_t most) {
    const struct deadline_queue *queue = &core->queue;
    struct request_node *nodes = core->pool->nodes;
    struct type_batch batch = {.start = REQUEST_NONE, .changed_ns = now_ns};
    uint32_t start = several_start(core, type, now_ns), passed = 0;
    if (start == REQUEST_NONE)
        return batch;
    batch_link(nodes, &batch, start);
    for (uint32_t node = deadline_queue_first(queue); node != REQUEST_NONE && batch.items < most;) {
        const struct request_node *request = &nodes[node];
        uint32_t items = batch.items + request->items, next = deadline_queue_next(nodes, node);
        if (node != start && items <= most && model_in_time(core, type, now_ns, items, request->deadline_ns) &&
            model_in_time(core, type, now_ns, items, nodes[batch.start].deadline_ns)) {
            batch_link(nodes, &batch, node);
        } else if (node != start) {
            batch.full |= model_in_time(core, type, now_ns, request->items, request->deadline_ns);
            if (passed++ == PASSED_MOST)
                break;
            if (!model_in_time(core, type, now_ns, batch.items + 1, request->deadline_ns)) /* nor are those before: */
                next = deadline_queue_find(queue, nodes, request->priority,
                                           model_end_ns(core, type, now_ns, batch.items + 1));
        }
        node = next;
    }
    return batch;
}

struct type_batch model_batch_compose(const struct model_core *core, uint32_t type, int64_t now_ns, uint32_t most) {
    return model_is_plain(core) ? plain_compose(core, type, now_ns, most) : several_compose(core, type, now_ns, most);
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
