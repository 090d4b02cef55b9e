/* rank_best_effort.c - which accelerators run best effort, and for how long.
 *
 * Best effort gets accelerators that are idle and not needed. A batch cannot be interrupted, so accelerators are kept
 * for the batches that come next: one standard deviation of the number that these keep busy. That is the root of its
 * mean, the demand, where batches come by chance. At most half are kept, and so many while requests are lost. An
 * accelerator that runs best effort counts as free for all other decisions, so that best effort does not change them.
 * Models take turns by how long their best effort has run. */
#include "sched/core/rank_core_state.h"

/* Whether best effort may take one of a type's accelerators, so that `left` remain free. While the policy goes by
 * another way than its first, requests are lost, and batches may wait until the last moment: those that do not find an
 * accelerator then are lost, too. */
static bool spare(const struct rank_core *core, uint32_t type, uint32_t left) {
    uint32_t up = core->up_of_type[type];
    return left >= up / 2 || (core->way == 0 && (double)left * left >= core->needed * up / core->up);
}

/* A silent model's SLO counts until an item comes during the run with a probability of POLICY_LOSS only. Its rate falls
 * for 24 minutes until it is 0, and best effort must not make way all that time for requests that do not come. */
double rank_best_effort_run_most(const struct model_rates *rates, double most_ns) {
    double left_ns = rates->slo_ns - rates->alpha_ns - rates->beta_ns;
    if (left_ns * rates->rate < POLICY_LOSS * NS_PER_S)
        left_ns = POLICY_LOSS * NS_PER_S / rates->rate;
    return left_ns < most_ns ? left_ns : most_ns;
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
            /* what comes meanwhile has to wait, and run, on the only accelerator of a type */
            int64_t most_ns = core->best_effort_run_ns / (core->up_of_type[t] > 1 ? 1 : 2);
            if (most_ns < least_ns)
                most_ns = least_ns;
            /* How long the type can do with one free accelerator less; 0: it is kept. If fewer accelerators would be
             * left than models wait for company, that is until the first of these models may start. */
            const struct stage *stage = rank_stage_now(core, t);
            uint32_t left = lane->free.count - 1;
            int64_t idle_ns = !spare(core, t, left)         ? 0
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
            lane->best_effort_runs++;
            rank_list_update(core, LIST_BEST_EFFORT);
        }
    }
}
