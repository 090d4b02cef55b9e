/* rank_match.c - who gets the accelerators that are free: batches, then best effort. */
#include "core/util/assert.h"
#include "sched/core/rank_core_state.h"

void rank_grant(struct rank_core *core, int64_t now_ns, uint32_t model, uint32_t type, uint32_t a, bool best_effort,
                struct rank_output *out) {
    struct lane *lane = &core->lanes[type];
    uint32_t level = rank_supply_level(core, type);
    bool freed = lane->freed > 0;
    /* when the grant was due: of an accelerator that was free before, the candidate's start decides */
    int64_t start_ns = best_effort ? now_ns : rank_candidate(core, model, type)->start_ns[level];
    bit_tree_remove(&lane->free, a);
    lane->freed -= freed;
    struct accelerator *accelerator = &core->accelerator[a];
    CHECK(!accelerator->granted && accelerator->batches < BATCHES_MOST);
    core->free--;
    core->busy += accelerator->batches == 0;
    accelerator->granted = true;
    accelerator->granted_to = model;
    if (core->memory) {
        accelerator->epoch = (uint16_t)core->memory->accelerator[a].epoch;
        rank_memory_hold(core, a, model);
    }
    accelerator->ended_early = false;
    accelerator->due_ns = freed ? core->due_ns : now_ns;
    CHECK(!core->model[model].granted);
    core->model[model].granted = true;
    core->model[model].granted_best_effort = best_effort;
    rank_model_changed(core, model);
    out->grants[out->grant_count++] = (struct grant_message){
        .kind = GRANT_ACCELERATOR,
        .variant = {model},
        .accelerator = a,
        .type = type,
        .supply = level,
        .best_effort = best_effort,
        .free_ns = accelerator->batches ? accelerator->free_ns : INT64_MIN,
        .granted_ns = now_ns,
        .due_ns = freed && core->due_ns > start_ns ? core->due_ns : start_ns,
    };
}

/* The lowest-numbered free accelerator of a type that can run `model`; RANK_NOBODY: there is none. */
static uint32_t free_find(const struct rank_core *core, uint32_t model, uint32_t type) {
    const struct bit_tree *free = &core->lanes[type].free;
    if (bit_tree_empty(free))
        return RANK_NOBODY;
    uint32_t a = bit_tree_first(free);
    return !core->memory || rank_memory_has(core->memory, model, a) ? a : rank_memory_free_find(core, model, type);
}

/* The type on which the batch runs fastest, among those on which `model` may start: the one with the latest start. */
static uint32_t lane_fastest(struct rank_core *core, uint32_t model, uint32_t type, int64_t now_ns) {
    for (uint32_t t = 0; t < core->types; t++) {
        const struct candidate *c = rank_candidate(core, model, t);
        if (c->start_ns[rank_supply_level(core, t)] <= now_ns && c->invalid_after_ns >= now_ns - core->grace_ns &&
            c->invalid_after_ns > rank_candidate(core, model, type)->invalid_after_ns &&
            free_find(core, model, t) != RANK_NOBODY)
            type = t;
    }
    return type;
}

/* The model whose batch goes first, and on which type; RANK_NOBODY: none may start. */
static uint32_t candidate_first(struct rank_core *core, int64_t now_ns, uint32_t *type) {
    uint32_t best = RANK_NOBODY;
    int64_t best_ns = TIME_NEVER;
    for (uint32_t t = 0; t < core->types; t++) {
        if (bit_tree_empty(&core->lanes[t].free))
            continue;
        uint32_t model = rank_stage_best(core, t, rank_stage_now(core, t), now_ns);
        if (model != RANK_NOBODY && rank_candidate(core, model, t)->order_ns < best_ns) {
            best = model;
            *type = t;
            best_ns = rank_candidate(core, model, t)->order_ns;
        }
    }
    return best;
}

/* Starts the batches that may start, by their order. Where accelerators have different models, one for which no free
 * accelerator has its model steps aside, until one that has it becomes free. While some are aside, an accelerator that
 * has become free first takes the first batch that it can run. */
static void candidates_match(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    while (core->free && out->grant_count < RANK_GRANTS_MAX) {
        uint32_t a = core->memory ? rank_memory_freed(core) : RANK_NOBODY, type = 0;
        if (a != RANK_NOBODY) {
            uint32_t first = rank_memory_first(core, now_ns, a);
            if (first != RANK_NOBODY)
                rank_grant(core, now_ns, first, core->accelerator[a].type, a, false, out);
            continue;
        }
        uint32_t best = candidate_first(core, now_ns, &type);
        if (best == RANK_NOBODY)
            return;
        type = lane_fastest(core, best, type, now_ns);
        a = free_find(core, best, type);
        if (a != RANK_NOBODY) {
            rank_grant(core, now_ns, best, type, a, false, out);
            continue;
        }
        uint32_t level = rank_supply_level(core, type);
        heap_remove(&core->lanes[type].stages[level].open, best);
        rank_memory_aside(core, now_ns, best, type, level);
    }
}

void rank_match(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    candidates_match(core, now_ns, out);
    if (core->free)
        rank_best_effort_match(core, now_ns, out);
    for (uint32_t t = 0; t < core->types; t++)
        core->lanes[t].freed = 0;
}

int64_t rank_start_next(struct rank_core *core) {
    int64_t next_ns = TIME_NEVER;
    for (uint32_t t = 0; t < core->types; t++) {
        if (bit_tree_empty(&core->lanes[t].free))
            continue;
        const struct stage *stage = rank_stage_now(core, t);
        if (!heap_empty(&stage->waiting) && heap_top(&stage->waiting).key < next_ns)
            next_ns = heap_top(&stage->waiting).key;
    }
    return next_ns;
}
