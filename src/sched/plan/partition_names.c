/* partition_names.c - numbers for the sub-clusters of a partition, by matching these with the present ones. */
#include "sched/plan/partition_names.h"

#include "sched/plan/matching.h"

#define SCALE 1e9 /* whole number that the largest weight becomes */

static bool none(const struct partition_problem *p) {
    return p->subclusters > PARTITION_NAMES_MAX;
}

size_t partition_names_bytes(const struct partition_problem *p) {
    size_t pairs = (size_t)p->subclusters * p->subclusters;
    return none(p) ? 1
                   : pairs * (sizeof(int64_t) + sizeof(double)) + matching_bytes(p->subclusters, p->subclusters) +
                         p->subclusters * sizeof(uint32_t);
}

void partition_names_choose(const struct partition_problem *p, void *memory, uint32_t *subcluster) {
    uint32_t n = p->subclusters;
    size_t pairs = (size_t)n * n;
    if (none(p))
        return;
    double *stay = memory, most = 0; /* by sub-cluster and number: move costs of the models that would stay */
    int64_t *cost = (int64_t *)(stay + pairs);
    char *scratch = (char *)(cost + pairs);
    uint32_t *name = (uint32_t *)(scratch + matching_bytes(n, n));
    for (size_t i = 0; i < pairs; i++)
        stay[i] = 0;
    for (uint32_t i = 0; i < p->models; i++)
        if (p->model[i].current != PARTITION_NONE) {
            double *at = &stay[(size_t)subcluster[i] * n + p->model[i].current];
            *at += p->model[i].move_cost;
            most = *at > most ? *at : most;
        }
    if (most <= 0)
        return;
    for (size_t i = 0; i < pairs; i++)
        cost[i] = (int64_t)((1 - stay[i] / most) * SCALE);
    matching_solve(cost, n, n, scratch, name);
    for (uint32_t i = 0; i < p->models; i++)
        subcluster[i] = name[subcluster[i]];
}
