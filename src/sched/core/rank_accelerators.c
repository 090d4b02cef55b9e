/* rank_accelerators.c - when accelerators are free, and how long before that they are offered.
 *
 * Grants, answers and inputs take some time to an accelerator, which should not wait for them. So an accelerator is
 * offered some time, `ahead`, before the end of its batch:
 *
 *     |<------------- l(b) -------------->|
 *     begin              offer <- ahead ->| free
 *
 * `ahead` is the time that a batch takes on its way, as configured, plus the time that grants were seen to take until
 * they were answered. No allowance is made for batches that end early: a batch sealed too early would block a more
 * urgent one that arrives meanwhile, and an accelerator that is reported free before it was offered is granted then. A
 * batch sealed ahead waits at the accelerator, at most one. Where messages take no time (a simulation without delays)
 * accelerators are offered when they are reported free. */
#include "core/util/assert.h"
#include "sched/core/rank_core_state.h"

/* Expected run time of the last of an accelerator's batches. */
static double run_expected(const struct rank_core *core, const struct accelerator *a) {
    const struct running *last = &a->running[a->batches - 1];
    return (double)last->table_ns * core->model[last->model].pace;
}

/* How long before it is free an accelerator is offered; 0: accelerators are not offered ahead of time. */
static int64_t ahead(const struct rank_core *core) {
    return core->ctrl_ns + (int64_t)((double)core->data_ns * core->batch_mean + core->hop_ns);
}

static void offer(struct rank_core *core, uint32_t a, bool awaited) {
    struct lane *lane = &core->lanes[core->accelerator[a].type];
    bit_tree_add(&lane->free, a);
    lane->freed += awaited;
    core->free++;
    if (core->memory)
        bit_tree_add(&core->memory->freed, a);
}

/* An accelerator's state changed: offers it as soon as it can be granted. */
static void accelerator_review(struct rank_core *core, int64_t now_ns, uint32_t a) {
    struct accelerator *accelerator = &core->accelerator[a];
    if (accelerator->granted || accelerator->down || accelerator->batches == BATCHES_MOST ||
        bit_tree_has(&core->lanes[accelerator->type].free, a)) {
        heap_remove(&core->offers, a);
        return;
    }
    int64_t ahead_ns = accelerator->batches ? ahead(core) : 0;
    if (accelerator->batches == 0 || (ahead_ns > 0 && accelerator->free_ns - ahead_ns <= now_ns)) {
        heap_remove(&core->offers, a);
        offer(core, a, true);
    } else if (ahead_ns > 0) {
        heap_set(&core->offers, a, accelerator->free_ns - ahead_ns);
    }
}

void rank_offers_due(struct rank_core *core, int64_t now_ns) {
    while (!heap_empty(&core->offers) && heap_top(&core->offers).key <= now_ns) {
        struct heap_entry top = heap_top(&core->offers);
        heap_remove(&core->offers, top.item);
        offer(core, top.item, core->awaited);
        if (core->awaited)
            core->due_ns = top.key;
    }
}

/* Batch i has ended, and the other one, if there is one, begins. */
static void batch_over(struct rank_core *core, struct accelerator *a, uint32_t i, int64_t ended_ns, bool unlike) {
    struct running over = a->running[i];
    if (over.table_ns > 0 && ended_ns > a->begin_ns && !unlike) {
        /* A model's first run, or a run that was held up, may take a hundred times as long as the next ones. So a run
         * changes the pace by their difference over the longer of both, which is a sixteenth of the pace at most. The
         * pace of a model that became slow still grows by nearly so much each batch. */
        double *pace = &core->model[over.model].pace;
        double took = (double)(ended_ns - a->begin_ns) / (double)over.table_ns;
        *pace *= 1 + RANK_WEIGHT * (took - *pace) / (took > *pace ? took : *pace);
    }
    if (over.best_effort)
        core->lanes[a->type].best_effort_runs--;
    a->running[0] = a->running[1 - i];
    a->batches--;
    a->begin_ns = a->batches && a->running[0].arrives_ns > ended_ns ? a->running[0].arrives_ns : ended_ns;
    a->free_ns = a->begin_ns + (a->batches ? (int64_t)run_expected(core, a) : 0);
    if (core->memory)
        rank_memory_release(core, (uint32_t)(a - core->accelerator), over.model, over.epoch);
}

void rank_accelerator_ended(struct rank_core *core, int64_t now_ns, const struct rank_event *event) {
    struct accelerator *accelerator = &core->accelerator[event->accelerator];
    uint32_t i = 0;
    while (i < accelerator->batches && accelerator->running[i].model != event->variant.n)
        i++;
    if (i < accelerator->batches) {
        batch_over(core, accelerator, i, event->ended.at_ns, event->ended.unlike);
        core->busy -= accelerator->batches == 0 && !accelerator->granted;
    } else if (accelerator->granted) {
        accelerator->ended_early = true; /* a short batch: its end came before the model's answer */
        accelerator->ended_ns = event->ended.at_ns;
        accelerator->ended_unlike = event->ended.unlike;
    }
    accelerator_review(core, now_ns, event->accelerator);
}

void rank_accelerator_down(struct rank_core *core, uint32_t a) {
    struct accelerator *accelerator = &core->accelerator[a];
    if (accelerator->down)
        return;
    accelerator->down = true;
    if (core->memory)
        rank_memory_down(core, a);
    core->up--;
    core->up_of_type[accelerator->type]--;
    core->parameters_due_ns = INT64_MIN; /* the models should know */
    core->free -= bit_tree_has(&core->lanes[accelerator->type].free, a);
    bit_tree_remove(&core->lanes[accelerator->type].free, a);
    heap_remove(&core->offers, a);
}

void rank_accelerator_up(struct rank_core *core, int64_t now_ns, uint32_t a, uint8_t type) {
    struct accelerator *accelerator = &core->accelerator[a];
    if (!accelerator->down)
        return;
    if (core->typed_late && accelerator->batches == 0 && !accelerator->granted) { /* else it is the one that left */
        CHECK_LT(type, core->types);
        accelerator->type = type;
    }
    accelerator->down = false;
    if (core->memory)
        rank_memory_up(core, a);
    core->up++;
    core->up_of_type[accelerator->type]++;
    core->parameters_due_ns = INT64_MIN;
    accelerator_review(core, now_ns, a);
}

void rank_batch_announced(struct rank_core *core, int64_t now_ns, uint32_t m, const struct rank_answer *answer) {
    struct model_slot *model = &core->model[m];
    struct accelerator *a = &core->accelerator[answer->accelerator];
    if (model->granted_best_effort)
        model->best_effort_ns += answer->run_ns;
    if (answer->sealed_ns >= a->due_ns)
        core->hop_ns += ((double)(answer->sealed_ns - a->due_ns) - core->hop_ns) * RANK_WEIGHT;
    core->batch_mean += ((double)answer->items - core->batch_mean) * RANK_WEIGHT;
    int64_t begin_ns = answer->end_ns - answer->run_ns;
    a->running[a->batches++] = (struct running){
        .model = m,
        .best_effort = model->granted_best_effort,
        .epoch = a->epoch,
        .table_ns = answer->run_ns,
        .arrives_ns = begin_ns > a->free_ns ? begin_ns : INT64_MIN,
    };
    if (a->batches == 1)
        a->begin_ns = begin_ns;
    a->free_ns = begin_ns + (int64_t)run_expected(core, a);
    if (core->memory)
        rank_memory_runs(core, now_ns, answer->accelerator, m, answer->items, a->free_ns - begin_ns);
    if (!model->granted_best_effort)
        core->granted_ns[a->type] += a->free_ns - begin_ns;
    if (a->ended_early) {
        batch_over(core, a, a->batches - 1U, a->ended_ns, a->ended_unlike);
        core->busy -= a->batches == 0;
    }
    accelerator_review(core, now_ns, answer->accelerator);
}

/* An accelerator that still runs a batch is not offered ahead of time again: the model had no batch in time for that.
 */
void rank_accelerator_given_back(struct rank_core *core, int64_t now_ns, uint32_t a) {
    struct accelerator *accelerator = &core->accelerator[a];
    core->busy -= accelerator->batches == 0;
    if (accelerator->batches && !accelerator->down)
        heap_set(&core->offers, a, accelerator->free_ns > now_ns ? accelerator->free_ns : now_ns + 1);
    else
        accelerator_review(core, now_ns, a);
}
