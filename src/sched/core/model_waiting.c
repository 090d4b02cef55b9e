/* model_waiting.c - which requests wait, and which are refused.
 *
 * Arrivals that the policy admits wait in `queue`, best effort in `best_effort`. A request leaves by a batch
 * (model_seal.c), by its cancellation, or by a refusal: when no type of accelerators can finish it in time, when the
 * window drop removes it, or when the policy does not admit it. */
#include "core/util/assert.h"
#include "sched/core/model_core_state.h"

/* Weight of one request in the shares of dropped and late ones. The first requests weigh more (BAD_WEIGHT_FIRST), as if
 * 200 good ones had come before them. */
#define BAD_WEIGHT (1.0 / 2000)

/* ---- refusing ---- */

void model_outcome(struct model_core *core, double dropped) {
    double weight = core->bad_weight;
    core->view.dropped_rate += (dropped - core->view.dropped_rate) * weight;
    core->late_rate -= core->late_rate * weight;
    if (weight > BAD_WEIGHT)
        core->bad_weight = weight / (1 + weight);
}

/* What is known of a request that is refused for its deadline. */
static struct refusal_figures figures_of(const struct model_core *core, const struct request_node *request) {
    const struct model_view *m = &core->view;
    const struct cluster_parameters *p = &m->parameters;
    uint32_t items = request->items >= 1 && request->items <= core->batch_max ? request->items : core->batch_max;
    int64_t measured_ns = TIME_NEVER;
    for (uint32_t t = 0; t < m->types; t++)
        if (m->used[t] && core->rolling[t] && rolling_profiled_ns(core->rolling[t], items) < measured_ns)
            measured_ns = rolling_profiled_ns(core->rolling[t], items);
    return (struct refusal_figures){
        .run_us = time_us_between(0, model_span_least(core, items)),
        .measured_us =
            measured_ns == TIME_NEVER ? 0 : time_us_between(0, measured_ns + m->ctrl_ns + m->data_ns * items),
        .needed = (float)p->needed,
        .serving = (uint16_t)(p->serving < UINT16_MAX ? p->serving : UINT16_MAX),
        .later = (uint16_t)(m->target_items < UINT16_MAX ? m->target_items : UINT16_MAX),
    };
}

/* Notes why a request is refused, unless that is known already. */
static void cause_note(const struct model_core *core, uint32_t node, enum refusal_cause cause) {
    struct request_node *request = model_node(core, node);
    if (request->cause == CAUSE_NONE)
        request->cause = cause & 15;
}

/* Gives back a request that is in no queue. The request is not counted. */
static void refuse_uncounted(struct model_core *core, struct model_output *out, uint32_t node, enum refusal reason) {
    struct request_node *request = model_node(core, node);
    reason = reason == REFUSAL_DEADLINE && core->stranded ? REFUSAL_STRANDED : reason;
    request->refusal = reason & 15;
    if (reason == REFUSAL_DEADLINE) {
        if (core->there_ns != INT64_MIN && request->cause != CAUSE_SHORT)
            request->cause = CAUSE_COLD;
        cause_note(core, node, CAUSE_WAITED);
        request->figures = figures_of(core, request);
    } else {
        request->cause = CAUSE_NONE;
    }
    request->next = REQUEST_NONE;
    if (out->refused == REQUEST_NONE)
        out->refused = node;
    else
        model_node(core, core->refused_last)->next = node;
    core->refused_last = node;
}

static void refuse(struct model_core *core, struct model_output *out, uint32_t node, enum refusal reason) {
    const struct request_node *request = model_node(core, node);
    refuse_uncounted(core, out, node, reason);
    reason = request->refusal;
    if (request->priority == PRIORITY_BEST_EFFORT)
        return;
    model_level_count(core, request->priority, -1);
    if (request->cause == CAUSE_COLD)
        return;
    core->hopeless |= reason == REFUSAL_DEADLINE;
    if (reason != REFUSAL_CANCELLED)
        model_outcome(core, 1);
}

static void best_effort_add(struct model_core *core, uint32_t node, struct model_output *out) {
    if (core->best_effort.count >= BEST_EFFORT_MAX) {
        refuse(core, out, node, REFUSAL_BEST_EFFORT_FULL);
        return;
    }
    deadline_queue_insert(&core->best_effort, core->pool->nodes, node);
    core->any_best_effort = true;
    core->stale |= deadline_queue_first(&core->best_effort) == node;
}

/* Whether a request becomes best effort when it is too late, by the configuration. */
static bool becomes_best_effort(const struct model_core *core, const struct request_node *request) {
    return request->priority < PRIORITIES_MAX && core->delays >> request->priority & 1;
}

/* A request that is in no queue becomes best effort. */
static void best_effort_become(struct model_core *core, struct model_output *out, uint32_t node) {
    struct request_node *request = model_node(core, node);
    core->classes = true;
    request->priority = PRIORITY_BEST_EFFORT;
    request->deadline_ns += BEST_EFFORT_WAIT_NS;
    best_effort_add(core, node, out);
}

/* A request cannot finish by its deadline, or was given up: it is refused, or is best effort from now on. */
static void deadline_missed(struct model_core *core, struct model_output *out, uint32_t node) {
    const struct request_node *request = model_node(core, node);
    core->lost++;
    core->lost_cold += core->there_ns != INT64_MIN || request->arrival_ns < core->there_since_ns;
    if (!becomes_best_effort(core, request)) {
        refuse(core, out, node, REFUSAL_DEADLINE);
        return;
    }
    model_level_count(core, request->priority, -1);
    model_outcome(core, 1);
    best_effort_become(core, out, node);
}

/* Why a request that was the first of its priority does not stay in the queue. */
static enum refusal_cause cause_of(const struct model_core *core, const struct request_node *head) {
    return model_items_wanted(core, head) > head->items ? CAUSE_CROWDED : CAUSE_WAITED;
}

/* ---- pruning ---- */

uint32_t model_items_alike(const struct model_core *core, const struct request_node *head, uint32_t most) {
    uint32_t items = head->items;
    for (uint32_t node = head->links[0]; node != REQUEST_NONE && items < most;
         node = model_node(core, node)->links[0]) {
        if (model_node(core, node)->priority != head->priority)
            break;
        items += model_node(core, node)->items;
    }
    return items < most ? items : most;
}

uint32_t model_priority_next(const struct model_core *core, uint32_t node) {
    return deadline_queue_find(&core->queue, core->pool->nodes, (uint8_t)(model_node(core, node)->priority + 1),
                               INT64_MIN);
}

void model_remove(struct model_core *core, struct deadline_queue *queue, uint32_t node) {
    const struct request_node *request = model_node(core, node);
    deadline_queue_remove(queue, core->pool->nodes, request->priority, request->deadline_ns, request->handle);
}

/* Does what model_prune() does, for the lower priorities. */
static void lower_prune(struct model_core *core, int64_t now_ns, struct model_output *out) {
    uint32_t node = model_priority_next(core, deadline_queue_first(&core->queue));
    while (node != REQUEST_NONE) {
        const struct request_node *request = model_node(core, node);
        uint32_t next = deadline_queue_next(core->pool->nodes, node);
        if (model_head_stays(core, now_ns, request)) {
            next = model_priority_next(core, node);
        } else {
            cause_note(core, node, cause_of(core, request));
            model_remove(core, &core->queue, node);
            deadline_missed(core, out, node);
        }
        node = next;
    }
}

static void classes_prune(struct model_core *core, int64_t now_ns, struct model_output *out) {
    if (model_is_mixed(core))
        lower_prune(core, now_ns, out);
    /* best effort is refused while no accelerator runs the model: its minute could pass in vain */
    while (
        core->any_best_effort &&
        (core->stranded || model_from_ns(core, now_ns) >
                               model_latest_start(core, model_node(core, deadline_queue_first(&core->best_effort))))) {
        refuse(core, out, deadline_queue_pop(&core->best_effort, core->pool->nodes), REFUSAL_DEADLINE);
        core->any_best_effort = core->best_effort.count > 0;
    }
}

void model_prune(struct model_core *core, int64_t now_ns, struct model_output *out) {
    struct request_node *nodes = core->pool->nodes;
    while (core->queue.count && !model_head_stays(core, now_ns, model_node(core, deadline_queue_first(&core->queue)))) {
        deadline_queue_prefetch(core->pool, deadline_queue_first(&core->queue));
        uint32_t node = deadline_queue_first(&core->queue);
        cause_note(core, node, cause_of(core, model_node(core, node)));
        deadline_queue_pop(&core->queue, nodes);
        deadline_missed(core, out, node);
    }
    if (core->classes)
        classes_prune(core, now_ns, out);
}

/* ---- arrivals and cancellations ---- */

/* Whether a request that is impossible by the tables in force could run by the tables as profiled: then the corrections
 * may be too large. */
static bool possible_as_profiled(const struct model_core *core, int64_t now_ns, const struct request_node *request) {
    const struct model_view *m = &core->view;
    int64_t left_ns = request->deadline_ns - now_ns - m->ctrl_ns - m->data_ns * request->items;
    for (uint32_t t = 0; t < m->types; t++)
        if (m->used[t] && core->rolling[t] && rolling_profiled_ns(core->rolling[t], request->items) <= left_ns)
            return true;
    return false;
}

void model_request_joins(struct model_core *core, int64_t now_ns, uint32_t node, struct model_output *out) {
    if (core->policy->model_admit && !core->policy->model_admit(&core->view, core->own, model_node(core, node))) {
        uint32_t last = core->queue.tail[0]; /* of the lowest priority that is queued */
        core->stale = true;
        if (last != REQUEST_NONE && model_node(core, last)->priority > model_node(core, node)->priority) {
            model_remove(core, &core->queue, last); /* it makes room for this one */
            deadline_queue_insert(&core->queue, core->pool->nodes, node);
            node = last;
        }
        cause_note(core, node, CAUSE_SHARE);
        deadline_missed(core, out, node);
        return;
    }
    deadline_queue_insert(&core->queue, core->pool->nodes, node);
    core->stale =
        core->stale || core->queue.tail[0] != node || model_is_mixed(core) || !model_lengthen(core, now_ns, node);
}

void model_request_arrived(struct model_core *core, int64_t now_ns, const struct request_message *message,
                           struct model_output *out) {
    struct model_view *m = &core->view;
    uint32_t node = request_pool_get(core->pool);
    CHECK(node != REQUEST_NONE); /* the caller sees to a free node */
    struct request_node *request = model_node(core, node);
    request_node_set(request, message->place.n, message);
    request->priority = message->priority;
    core->classes |= message->priority > 0;
    if (request->priority == PRIORITY_BEST_EFFORT) {
        if (message->items < 1 || message->items > core->batch_max || core->stranded ||
            model_from_ns(core, now_ns) > model_latest_start(core, request))
            refuse(core, out, node, REFUSAL_DEADLINE);
        else
            best_effort_add(core, node, out);
        return;
    }
    if (message->items < 1 || message->items > core->batch_max) {
        cause_note(core, node, CAUSE_SHORT);
        refuse_uncounted(core, out, node, REFUSAL_DEADLINE);
        return;
    }
    bool promised = message->ready_ns > now_ns;
    int64_t from_ns = promised ? message->ready_ns : now_ns;
    if (!core->policy->deadline_blind && from_ns > model_latest_start(core, request)) {
        /* It could not be in time even if an accelerator were free for it now. More accelerators would not help, so it
         * counts in no rate, no SLO and no loss. If it counted, requests that cost their sender nothing could make a
         * model's batches small, and waiting for company expensive for all. */
        if (becomes_best_effort(core, request)) {
            best_effort_become(core, out, node);
            return;
        }
        core->hopeless |= possible_as_profiled(core, from_ns, request);
        cause_note(core, node, CAUSE_SHORT);
        refuse_uncounted(core, out, node, REFUSAL_DEADLINE);
        return;
    }
    uint32_t asked = message->batch_most ? message->batch_most : UINT32_MAX;
    core->asked_tick = asked > core->asked_tick ? asked : core->asked_tick;
    core->cold += core->there_ns != INT64_MIN;
    arrival_rates_count(&m->rates, now_ns, message->items, message->deadline_ns - message->arrival_ns);
    model_level_count(core, request->priority, 1);
    if (core->levels && core->levels->of[request->priority].waiting > core->levels->of[request->priority].most) {
        refuse(core, out, node, REFUSAL_QUEUE_FULL);
        return;
    }
    if (!core->policy->deadline_blind && model_from_ns(core, from_ns) > model_latest_start(core, request)) {
        deadline_missed(core, out, node);
        return;
    }
    if (promised)
        model_promise_add(core, node, message->ready_ns);
    else
        model_request_joins(core, now_ns, node, out);
}

void model_request_cancelled(struct model_core *core, int64_t now_ns, const struct request_message *message,
                             struct model_output *out) {
    struct request_node *nodes = core->pool->nodes;
    bool best_effort = message->priority == PRIORITY_BEST_EFFORT;
    int64_t deadline_ns = message->deadline_ns,
            later_ns = best_effort ? deadline_ns : deadline_ns + BEST_EFFORT_WAIT_NS;
    uint32_t node = deadline_queue_remove(&core->queue, nodes, message->priority, deadline_ns, message->handle);
    if (node == REQUEST_NONE && core->promised_count)
        node = model_promise_take(core, message->handle);
    if (node == REQUEST_NONE && core->any_best_effort) {
        node = deadline_queue_remove(&core->best_effort, nodes, PRIORITY_BEST_EFFORT, later_ns, message->handle);
        core->any_best_effort = core->best_effort.count > 0;
    }
    if (node == REQUEST_NONE)
        return; /* it is in a batch already, or has been refused */
    refuse(core, out, node, REFUSAL_CANCELLED);
    model_refresh(core, now_ns, out);
}
