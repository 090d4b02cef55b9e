/* rank_best_effort.c - which accelerators run best effort, and for how long.
 *
 * Best effort gets accelerators that are idle and not needed. A batch cannot be interrupted, so some accelerators are
 * kept from best effort for the batches that come next: so many that best effort delays one batch in ten, or one in a
 * thousand while requests are lost. Models that wait for company must find an accelerator when their time comes. An
 * accelerator that runs best effort counts as free for all other decisions, so that best effort does not change them.
 * Models take turns by how long their best effort has run. */
#include "sched/core/arrival_rates.h"
#include "sched/core/rank_core_state.h"

/* A batch of best effort takes at most this part of what the tightest SLO leaves beside one run. */
#define BEST_EFFORT_PART 0.5
/* A silent model's SLO counts until an item comes during the longest run with a probability of POLICY_LOSS only. Its
 * rate falls for 24 minutes until it is 0, and best effort must not make way all that time for requests that do not
 * come. */
#define SILENT_RATE (POLICY_LOSS / (BEST_EFFORT_RUN_NS / (double)NS_PER_S))
/* Accelerators kept from best effort: KEPT_STEP more after each batch that best effort delayed, and after each other
 * batch fewer by so much that in the end KEPT_SHARE of the batches are delayed. At most as many are kept as make supply
 * ample. What was learned fades as the rates do. */
#define KEPT_STEP  0.5
#define KEPT_SHARE 0.1

/* How many accelerators of a type are kept from best effort. */
static uint32_t kept(const struct rank_core *core, uint32_t type) {
    double most = supply_share(SUPPLY_AMPLE, 1) * core->up_of_type[type];
    return (uint32_t)(core->kept < most ? core->kept : most);
}

/* A batch that waited counts as delayed by best effort if best effort ran somewhere until now. */
void rank_kept_learn(struct rank_core *core, int64_t now_ns, bool waited) {
    /* While the policy goes by another way than its first, requests are lost, and batches may wait until the last
     * moment: those which are delayed are lost, too. */
    double share = core->way ? POLICY_LOSS : KEPT_SHARE;
    waited = waited && (core->best_effort_runs || core->best_effort_ended_ns == now_ns);
    core->kept += KEPT_STEP * ((double)waited - share);
    double most = supply_share(SUPPLY_AMPLE, 1) * core->up;
    core->kept = core->kept < 0 ? 0 : core->kept > most ? most : core->kept;
}

void rank_kept_fade(struct rank_core *core) {
    core->kept *= RATE_TICK_FADE;
}

double rank_best_effort_run_most(const struct model_rates *rates, double most_ns) {
    double left_ns = BEST_EFFORT_PART * (rates->slo_ns - rates->alpha_ns - rates->beta_ns);
    return rates->rate > SILENT_RATE && left_ns < most_ns ? left_ns : most_ns;
}

void rank_best_effort_count(struct rank_core *core, uint32_t type, int32_t change) {
    core->lanes[type].best_effort_runs += (uint32_t)change;
    core->best_effort_runs += (uint32_t)change;
}

/* The first idle accelerator of a type that has the model, or RANK_NOBODY; one that is offered ahead of time is not
 * idle.
 */
static uint32_t idle_find(const struct rank_core *core, uint32_t type, uint32_t model) {
    const struct bit_tree *free = &core->lanes[type].free;
    for (uint32_t a = bit_tree_first(free), left = free->count; left; a++) {
        if (!bit_tree_has(free, a))
            continue;
        if (core->accelerator[a].batches == 0 && (!core->memory || rank_memory_has(core->memory, model, a)))
            return a;
        left--;
    }
    return RANK_NOBODY;
}

void rank_best_effort_match(struct rank_core *core, int64_t now_ns, struct rank_output *out) {
    rank_list_update(core, LIST_BEST_EFFORT);
    for (uint32_t t = 0; t < core->types; t++) {
        struct lane *lane = &core->lanes[t];
        while (!heap_empty(&lane->best_effort) && !bit_tree_empty(&lane->free) && out->grant_count < RANK_GRANTS_MAX) {
            struct heap_entry top = heap_top(&lane->best_effort);
            int64_t least_ns = rank_candidate(core, top.item, t)->best_effort_run_ns;
            int64_t most_ns = core->best_effort_run_ns > least_ns ? core->best_effort_run_ns : least_ns;
            /* How long the type can do with one free accelerator less; 0: the accelerator is kept. If fewer
             * accelerators would be left than models wait for company, that is until the first of these models may
             * start. */
            const struct stage *stage = rank_stage_now(core, t);
            uint32_t left = lane->free.count - 1;
            int64_t idle_ns = left < kept(core, t)          ? 0
                              : stage->waiting.count > left ? heap_top(&stage->waiting).key - now_ns
                                                            : TIME_NEVER;
            uint32_t a = idle_find(core, t, top.item);
            if (a == RANK_NOBODY && core->memory && rank_memory_free_find(core, top.item, t) == RANK_NOBODY) {
                heap_remove(&lane->best_effort, top.item);
                rank_memory_aside(core, now_ns, top.item, t, LIST_BEST_EFFORT);
                continue;
            }
            if (a == RANK_NOBODY || idle_ns < least_ns)
                break;
            core->best_effort_turn_ns = top.key;
            rank_grant(core, now_ns, top.item, t, a, true, out);
            out->grants[out->grant_count - 1].run_ns = idle_ns < most_ns ? idle_ns : most_ns;
            rank_best_effort_count(core, t, 1);
            rank_list_update(core, LIST_BEST_EFFORT);
        }
    }
}
