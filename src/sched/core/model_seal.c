/* model_seal.c - seals the batch for an accelerator that is granted: its requests leave the queues. */
#include "core/util/assert.h"
#include "sched/core/model_core_state.h"

/* Moves a batch's requests from their queue into the output. `linked`: the requests are linked by `next` already.
 * `ready_ns`: time since which the batch has waited for no company. */
static void batch_take(struct model_core *core, int64_t now_ns, uint32_t type, struct deadline_queue *queue,
                       bool linked, const struct type_batch *batch, int64_t ready_ns, struct model_output *out) {
    struct request_node *nodes = core->pool->nodes;
    uint32_t node = batch->start, last = REQUEST_NONE, items = 0, count = 0;
    while (items < batch->items) {
        uint32_t next = linked ? nodes[node].next : deadline_queue_next(nodes, node);
        deadline_queue_prefetch(core->pool, node);
        if (node == deadline_queue_first(queue))
            deadline_queue_pop(queue, nodes);
        else
            model_remove(core, queue, node);
        if (last == REQUEST_NONE)
            out->batch = node;
        else
            nodes[last].next = node;
        items += nodes[node].items;
        count++;
        if (queue != &core->best_effort) {
            model_outcome(core, 0);
            model_level_count(core, nodes[node].priority, -1);
        }
        last = node;
        node = next;
    }
    nodes[last].next = REQUEST_NONE;
    out->batch_requests = count;
    out->batch_items = items;
    out->batch_finish_ns = model_end_ns(core, type, now_ns, items);
    out->batch_run_ns = model_run_ns(core, type, items);
    out->batch_ready_ns = ready_ns;
}

void model_accelerator_granted(struct model_core *core, int64_t now_ns, const struct grant_message *grant,
                               struct model_output *out) {
    uint32_t type = grant->type;
    CHECK(type < core->view.types && core->view.profiles[type] && grant->supply < SUPPLY_LEVELS);
    core->free_ns = grant->free_ns;
    model_there_set(core, now_ns, INT64_MIN); /* the accelerator has the model */
    if (core->promised_count && grant->free_ns > now_ns)
        model_promises_join(core, now_ns, grant->free_ns, out);
    model_refresh(core, now_ns, out);
    struct type_batch batch = core->batches[type];
    if (batch.start != REQUEST_NONE && core->candidates[type].start_ns[grant->supply] <= now_ns) {
        bool plain = model_is_plain(core);
        uint32_t most = model_items_most(&core->view, type);
        if (model_sizes_given(core))
            most = core->policy->batch_preferred(&core->view, core->own, batch.items,
                                                 model_node(core, batch.start)->arrival_ns, now_ns);
        if (!plain || most < batch.items) /* once more: a batch of another type has overwritten the links */
            batch = model_batch_compose(core, type, now_ns, most);
        int64_t ready_ns = core->ready_ns[type] < now_ns ? core->ready_ns[type] : now_ns;
        batch_take(core, now_ns, type, &core->queue, !plain, &batch, ready_ns, out);
        for (uint32_t t = 0; t < core->view.types; t++)
            core->ready_ns[t] = TIME_NEVER;
    } else if (grant->best_effort) {
        batch = model_best_effort_compose(core, type, now_ns, grant->run_ns);
        if (batch.start != REQUEST_NONE)
            batch_take(core, now_ns, type, &core->best_effort, false, &batch, INT64_MIN, out);
        core->any_best_effort = core->best_effort.count > 0;
    }
    bool waited = core->free_ns > now_ns;
    core->free_ns = INT64_MIN;
    if (out->batch != REQUEST_NONE || waited)
        model_refresh(core, now_ns, out);
    core->changed = true; /* the answer always brings the candidates */
}
