/* kairos_matching.c - Kairos' own distribution: queries are matched to instances at the least sum of instance time,
 * each instance's time weighed by its worth (HPDC '23, section 5.1, equations 2 to 8).
 *
 * All instances take part, busy ones with the time that they still need. A query that is matched to a busy one waits,
 * and the next round matches again. In three points the paper is read as its authors' program does it:
 * - The penalty of a pair that misses the SLO is added without a weight: a missed SLO on a weak instance is not cheaper
 *   than one on a strong one, and the weakest is the first to serve queries that are late anyway.
 * - A query whose deadline has passed gets no penalty, so that it does not wait for ever (where late queries are
 *   served).
 * - Only the `window` oldest queries an instance are looked at. */
#include "sched/plan/matching.h"
#include "sched/policy/kairos.h"

#define COST_MOST 60000000000000 /* matching.h: under 2^62 / 257^2 */

static int64_t pair_cost(const struct kairos *k, int64_t now_ns, uint32_t node,
                         const struct kairos_instance *instance) {
    const struct kairos_model *model = &k->models[kairos_model_of(k, node)];
    if (!model->runs_on[instance->type])
        return MATCHING_FORBIDDEN;
    const struct request_node *request = kairos_node(k, node);
    int64_t remaining_ns = instance->busy && instance->free_ns > now_ns ? instance->free_ns - now_ns : 0;
    int64_t usage_ns = remaining_ns + kairos_predicted_ns(k, node, instance->type);
    double slo_ns = (double)(request->deadline_ns - request->arrival_ns);
    double cost = model->coefficient[instance->type] * (double)usage_ns;
    bool misses =
        (double)(now_ns + usage_ns - request->arrival_ns) > k->options.value[KAIROS_GUARD] * slo_ns; /* eq. 5 */
    if (misses && now_ns < request->deadline_ns)
        cost += k->options.value[KAIROS_PENALTY] * slo_ns; /* eq. 8 */
    return cost < COST_MOST ? (int64_t)cost : COST_MOST;
}

/* Whether a matched pair runs. A pair that misses the SLO runs, too, unless late queries are refused: then its query
 * waits for a better instance. */
static bool pair_runs(const struct kairos *k, int64_t now_ns, uint32_t node, const struct kairos_instance *instance) {
    return kairos_idle(instance) &&
           (!k->late_refused || now_ns + kairos_span_ns(k, node, instance->type) <= kairos_node(k, node)->deadline_ns);
}

void kairos_round_matching(struct kairos *k, int64_t now_ns, struct central_output *out) {
    if (!k->idle_count || !k->queue.count)
        return;
    uint32_t rows = 0, columns = 0;
    for (uint32_t node = k->queue.first; node != REQUEST_NONE && rows < k->rows_max; node = kairos_next(k, node))
        k->rows[rows++] = node;
    for (uint32_t i = 0; i < k->instance_count; i++)
        if (k->instances[i].up)
            k->columns[columns++] = i;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++)
            k->cost[(size_t)r * columns + c] = pair_cost(k, now_ns, k->rows[r], &k->instances[k->columns[c]]);
    matching_solve(k->cost, rows, columns, k->matching, k->column_of);
    for (uint32_t r = 0; r < rows; r++) {
        if (k->column_of[r] == MATCHING_NONE)
            continue;
        uint32_t instance = k->columns[k->column_of[r]];
        if (pair_runs(k, now_ns, k->rows[r], &k->instances[instance]) &&
            !kairos_run(k, now_ns, &k->queue, k->rows[r], instance, out))
            return;
    }
}
