/* rank_candidates.c - the candidates of all models, in the order in which they may have free accelerators.
 *
 * When a batch may start depends on how many accelerators of a type are free, so every type has a stage for each level
 * of supply. A stage holds the candidates whose time has not come, ordered by that time, and the others, ordered by
 * order_ns. A candidate that comes is only stored; a stage is brought up to date when free accelerators are at its
 * level. */
#include <string.h>

#include "sched/core/rank_core_state.h"

static void stage_set(struct stage *stage, uint32_t model, int64_t from_ns) {
    heap_remove(&stage->open, model);
    if (from_ns == TIME_NEVER)
        heap_remove(&stage->waiting, model);
    else
        heap_set(&stage->waiting, model, from_ns);
}

uint32_t rank_stage_best(struct rank_core *core, uint32_t type, struct stage *stage, int64_t now_ns) {
    while (!heap_empty(&stage->waiting) && heap_top(&stage->waiting).key <= now_ns) {
        uint32_t model = heap_top(&stage->waiting).item;
        heap_remove(&stage->waiting, model);
        heap_set(&stage->open, model, rank_candidate(core, model, type)->order_ns);
    }
    while (!heap_empty(&stage->open)) {
        struct heap_entry top = heap_top(&stage->open);
        if (rank_candidate(core, top.item, type)->invalid_after_ns >= now_ns - core->grace_ns)
            return top.item;
        heap_remove(&stage->open, top.item); /* too late: its model core is about to send another */
    }
    return RANK_NOBODY;
}

void rank_model_changed(struct rank_core *core, uint32_t model) {
    struct model_slot *slot = &core->model[model];
    for (uint32_t list = 0; list < LISTS; list++)
        if (!(slot->dirty & 1u << list))
            core->dirty[list].models[core->dirty[list].count++] = model;
    slot->dirty = (1u << LISTS) - 1;
}

static void best_effort_set(struct rank_core *core, uint32_t model, uint32_t type) {
    const struct candidate *c = rank_candidate(core, model, type);
    struct model_slot *slot = &core->model[model];
    struct lane *lane = &core->lanes[type];
    if (slot->granted || !c->best_effort_run_ns) {
        if (!heap_empty(&lane->best_effort))
            heap_remove(&lane->best_effort, model);
        return;
    }
    if (slot->best_effort_ns < core->best_effort_turn_ns)
        slot->best_effort_ns = core->best_effort_turn_ns;
    heap_set(&lane->best_effort, model, slot->best_effort_ns);
}

void rank_list_put(struct rank_core *core, uint32_t model, uint32_t list) {
    for (uint32_t t = 0; t < core->types; t++) {
        if (list == LIST_BEST_EFFORT)
            best_effort_set(core, model, t);
        else
            stage_set(&core->lanes[t].stages[list], model,
                      core->model[model].granted ? TIME_NEVER : rank_candidate(core, model, t)->start_ns[list]);
    }
}

void rank_list_bring(struct rank_core *core, uint32_t list) {
    struct dirty_list *dirty = &core->dirty[list];
    for (uint32_t i = 0; i < dirty->count; i++) {
        uint32_t model = dirty->models[i];
        core->model[model].dirty = (uint8_t)(core->model[model].dirty & ~(1u << list));
        rank_list_put(core, model, list);
    }
    dirty->count = 0;
}

/* Whether the model could use an accelerator, now or later, for other than best effort. */
static bool wants(const struct rank_core *core, uint32_t model) {
    for (uint32_t t = 0; t < core->types; t++)
        if (candidate_any(&core->candidates[model * core->types + t]))
            return true;
    return false;
}

void rank_candidates_clear(struct rank_core *core, uint32_t model) {
    for (uint32_t t = 0; t < core->types; t++)
        *rank_candidate(core, model, t) = candidate_none();
}

void rank_candidates_forget(struct rank_core *core, uint32_t model) {
    core->wanting -= wants(core, model);
    rank_candidates_clear(core, model);
    rank_model_changed(core, model);
    if (core->memory)
        rank_memory_wants(core, model);
}

void rank_candidates_store(struct rank_core *core, uint32_t model, const struct candidate *candidates) {
    core->wanting -= wants(core, model);
    memcpy(rank_candidate(core, model, 0), candidates, core->types * sizeof(struct candidate));
    core->wanting += wants(core, model);
    rank_model_changed(core, model);
    if (core->memory)
        rank_memory_wants(core, model);
}

void rank_candidates_hold(struct rank_core *core, uint32_t model, int64_t now_ns) {
    core->wanting -= wants(core, model);
    for (uint32_t t = 0; t < core->types; t++) {
        struct candidate *c = rank_candidate(core, model, t);
        for (uint32_t level = 0; level < SUPPLY_LEVELS; level++)
            if (c->start_ns[level] <= now_ns)
                c->start_ns[level] = now_ns + 1;
    }
    core->wanting += wants(core, model);
}
