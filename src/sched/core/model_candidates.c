/* model_candidates.c - the next batch of each type of accelerators, and the candidate that tells of it.
 *
 * An arrival at the end of the queue only lengthens a batch, which costs no more than looking two latencies up.
 * Everything else composes the batches anew. */
#include <string.h>

#include "sched/core/model_core_state.h"

/* Whether no request can join those that wait: each level has as many as it may, and none of them awaits its inputs. */
static bool queue_is_full(const struct model_core *core) {
    bool full = core->levels && !core->promised_count;
    for (uint32_t i = 0; i < PRIORITIES_MAX && full; i++)
        full = core->levels->of[i].waiting >= core->levels->of[i].most;
    return full;
}

/* Derives the candidate of a type from its batch; what `candidate` tells of best effort stays. */
static void candidate_derive(struct model_core *core, uint32_t type, int64_t now_ns, struct candidate *candidate) {
    const struct model_view *m = &core->view;
    const struct type_batch *batch = &core->batches[type];
    if (batch->start != REQUEST_NONE) {
        const struct request_node *head = model_node(core, batch->start);
        struct batch_view view = {
            .deadline_ns = head->deadline_ns,
            .head_arrival_ns = head->arrival_ns,
            .due_ns = head->deadline_ns - model_span_ns(m, type, batch->items + 1),
            .invalid_after_ns = head->deadline_ns - model_span_ns(m, type, batch->items),
            .changed_ns = batch->changed_ns,
            .items = batch->items,
            .items_most = model_items_most(m, type),
            .full = batch->full || queue_is_full(core),
        };
        struct batch_times times = core->policy->batch_times(m, core->own, type, &view);
        memcpy(candidate->start_ns, times.start_ns, sizeof(candidate->start_ns));
        int64_t latest_ns = head->arrival_ns + m->wait_ns;
        for (uint32_t level = 0; m->wait_ns && level < SUPPLY_LEVELS; level++)
            if (candidate->start_ns[level] > latest_ns)
                candidate->start_ns[level] = latest_ns;
        if (head->arrival_ns <= core->hurried_ns)
            memset(candidate->start_ns, 0, sizeof(candidate->start_ns));
        candidate->order_ns = times.order_ns;
        candidate->invalid_after_ns = core->policy->deadline_blind ? TIME_NEVER : view.invalid_after_ns;
    }
    if (memcmp(&core->candidates[type], candidate, sizeof(*candidate)) == 0)
        return;
    /* a batch that may start is ready since its start came, or since the arrival that completed it */
    int64_t start_ns = candidate->start_ns[SUPPLY_SCARCE];
    if (start_ns > now_ns)
        core->ready_ns[type] = start_ns;
    else if (core->ready_ns[type] > now_ns)
        core->ready_ns[type] = now_ns;
    core->candidates[type] = *candidate;
    core->changed = true;
}

/* Sets what a candidate tells of best effort. */
static void best_effort_derive(const struct model_core *core, uint32_t type, int64_t now_ns,
                               struct candidate *candidate) {
    if (!core->view.used[type] || !core->any_best_effort)
        return;
    const struct request_node *first = model_node(core, deadline_queue_first(&core->best_effort));
    if (!model_in_time(core, type, now_ns, first->items, first->deadline_ns))
        return;
    int64_t run_ns = model_run_ns(core, type, first->items);
    candidate->best_effort_run_ns = run_ns > 1 ? run_ns : 1;
}

void model_refresh(struct model_core *core, int64_t now_ns, struct model_output *out) {
    const struct model_view *m = &core->view;
    core->stale = core->grown = false;
    model_prune(core, now_ns, out);
    for (uint32_t t = 0; t < m->types; t++) {
        if (!m->profiles[t])
            continue;
        struct type_batch batch = {.start = REQUEST_NONE};
        if (core->queue.count && m->used[t])
            batch = model_batch_compose(core, t, now_ns, model_items_most(m, t));
        if (batch.start == core->batches[t].start && batch.items == core->batches[t].items)
            batch.changed_ns = core->batches[t].changed_ns;
        core->batches[t] = batch;
        struct candidate candidate = candidate_none();
        best_effort_derive(core, t, now_ns, &candidate);
        candidate_derive(core, t, now_ns, &candidate);
    }
}

bool model_lengthen(struct model_core *core, int64_t now_ns, uint32_t node) {
    const struct model_view *m = &core->view;
    if (!model_head_stays(core, now_ns, model_node(core, deadline_queue_first(&core->queue))))
        return false;
    for (uint32_t t = 0; t < m->types; t++)
        if (m->used[t] && (core->batches[t].start == REQUEST_NONE ||
                           model_from_ns(core, now_ns) > core->candidates[t].invalid_after_ns))
            return false;
    for (uint32_t t = 0; t < m->types; t++) {
        struct type_batch *batch = &core->batches[t];
        if (!m->used[t] || (batch->full && model_is_plain(core)))
            continue;
        uint32_t items = batch->items + model_node(core, node)->items;
        if (items <= model_items_most(m, t) &&
            model_in_time(core, t, now_ns, items, model_node(core, batch->start)->deadline_ns))
            *batch = (struct type_batch){batch->start, items, batch->full, true, now_ns};
        else
            batch->full = true;
        batch->grown = true;
        core->grown = true;
    }
    return true;
}

void model_settle(struct model_core *core, int64_t now_ns, struct model_output *out) {
    if (core->stale) {
        model_refresh(core, now_ns, out);
        return;
    }
    core->grown = false;
    for (uint32_t t = 0; t < core->view.types; t++) {
        if (!core->batches[t].grown)
            continue;
        core->batches[t].grown = false;
        struct candidate candidate = candidate_none();
        candidate.best_effort_run_ns = core->candidates[t].best_effort_run_ns;
        candidate_derive(core, t, now_ns, &candidate);
    }
}

/* ---- when time alone changes a candidate ---- */

/* Where several priorities wait, a batch may have left behind the first request of a priority. Returns the earliest
 * time at which the first request of a priority gets too late, but at most wake_ns. */
static int64_t mixed_wake(const struct model_core *core, int64_t wake_ns) {
    if (core->policy->deadline_blind || !model_is_mixed(core))
        return wake_ns;
    for (uint32_t node = core->queue.head[0]; node != REQUEST_NONE; node = model_priority_next(core, node)) {
        int64_t latest_ns = model_latest_start(core, model_node(core, node));
        wake_ns = latest_ns < wake_ns ? latest_ns : wake_ns;
    }
    return wake_ns;
}

int64_t model_wake_ns(const struct model_core *core) {
    int64_t wake_ns = TIME_NEVER;
    for (uint32_t t = 0; t < core->view.types; t++) {
        const struct candidate *c = &core->candidates[t];
        if (c->invalid_after_ns < wake_ns)
            wake_ns = c->invalid_after_ns;
    }
    if (core->classes)
        wake_ns = mixed_wake(core, wake_ns);
    if (core->classes && core->any_best_effort) {
        int64_t latest_ns = model_latest_start(core, model_node(core, deadline_queue_first(&core->best_effort)));
        wake_ns = latest_ns < wake_ns ? latest_ns : wake_ns;
    }
    if (core->there_ns == TIME_NEVER && wake_ns != TIME_NEVER && !core->policy->deadline_blind)
        wake_ns -= core->view.load_ns;
    if (core->policy->deadline_blind && (core->stranded || core->there_ns == TIME_NEVER) && core->queue.count)
        wake_ns = model_node(core, deadline_queue_first(&core->queue))->deadline_ns;
    if (wake_ns != TIME_NEVER)
        wake_ns++;
    int64_t ready_ns = model_promise_next(core);
    return ready_ns < wake_ns ? ready_ns : wake_ns;
}
