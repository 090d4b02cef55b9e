/* partition_bound.c - limits that no assignment can keep. */
#include "sched/plan/partition_bound.h"

#include <stdlib.h>

#define ROUNDING 1e-9 /* share of a limit that is rounding: sums are made in different orders */

static void bound_keep(struct partition_bound *best, const struct partition_bound *b) {
    bool first = best->limit == PARTITION_NO_LIMIT || b->proof < best->proof;
    if (b->need > b->have * (1 + ROUNDING) &&
        (first || (b->proof == best->proof && b->need * best->have > best->need * b->have)))
        *best = *b;
}

static int larger_first(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : -(x > y);
}

/* Of the k l + 1 largest models, k + 1 share one of l sub-clusters. Together they are at least as large as the k + 1
 * smallest of the k l + 1. `beside`: size to be added to theirs. */
static void shared_look(struct partition_bound *best, double *sizes, uint32_t models, struct partition_bound b,
                        uint32_t subclusters, double beside) {
    double *sums = sizes + models; /* [n] sum of the n largest sizes */
    b.proof = PARTITION_SHARED;
    qsort(sizes, models, sizeof(*sizes), larger_first);
    sums[0] = 0;
    for (uint32_t i = 0; i < models; i++)
        sums[i + 1] = sums[i] + sizes[i];
    for (uint32_t k = 1; (uint64_t)k * subclusters + 1 <= models; k++) {
        b.count = k * subclusters + 1;
        b.together = k + 1;
        b.need = beside + sums[b.count] - sums[b.count - b.together];
        bound_keep(best, &b);
    }
}

static void rate_look(const struct partition_problem *p, struct partition_bound *best, double *sizes) {
    struct partition_bound b = {.limit = PARTITION_RATE, .proof = PARTITION_MODEL, .have = p->max_rate};
    double sum = 0;
    for (b.model = 0; b.model < p->models; b.model++) {
        sizes[b.model] = b.need = p->model[b.model].rate;
        sum += b.need;
        bound_keep(best, &b);
    }
    b.model = 0;
    shared_look(best, sizes, p->models, b, p->subclusters, 0);
    b.proof = PARTITION_SUM;
    b.need = sum;
    b.have = p->max_rate * p->subclusters;
    bound_keep(best, &b);
}

struct dynamic {
    double size;
    uint32_t model;
};

static int larger_dynamic_first(const void *a, const void *b) {
    const struct dynamic *x = a, *y = b;
    return x->size < y->size ? 1 : -(x->size > y->size);
}

/* Models whose dynamic size is at least d lie in sub-clusters of which each has max - d for static sizes. */
static void memory_sum_look(const struct partition_problem *p, struct partition_bound *best, struct dynamic *order) {
    struct partition_bound b = {.limit = PARTITION_MEMORY, .proof = PARTITION_SUM};
    double sum = 0;
    for (uint32_t i = 0; i < p->models; i++)
        order[i] = (struct dynamic){p->model[i].dynamic_mb, i};
    qsort(order, p->models, sizeof(*order), larger_dynamic_first);
    for (uint32_t i = 0; i < p->models; i++) {
        sum += p->model[order[i].model].static_mb;
        b.model = order[i].model;
        b.count = i + 1;
        uint32_t most = b.count < p->subclusters ? b.count : p->subclusters; /* sub-clusters that can have the models */
        b.need = sum + most * order[i].size;
        b.have = most * p->max_memory_mb;
        bound_keep(best, &b);
    }
}

static void memory_look(const struct partition_problem *p, struct partition_bound *best, double *scratch) {
    struct partition_bound b = {.limit = PARTITION_MEMORY, .proof = PARTITION_MODEL, .have = p->max_memory_mb};
    double least = p->models > 0 ? p->model[0].dynamic_mb : 0;
    for (b.model = 0; b.model < p->models; b.model++) {
        const struct partition_model *m = &p->model[b.model];
        b.need = m->static_mb + m->dynamic_mb;
        least = m->dynamic_mb < least ? m->dynamic_mb : least;
        bound_keep(best, &b);
    }
    memory_sum_look(p, best, (struct dynamic *)scratch);
    for (uint32_t i = 0; i < p->models; i++)
        scratch[i] = p->model[i].static_mb;
    b.model = 0;
    shared_look(best, scratch, p->models, b, p->subclusters, least);
}

struct partition_bound partition_bound(const struct partition_problem *problem, double *scratch) {
    struct partition_bound best = {.limit = PARTITION_NO_LIMIT};
    rate_look(problem, &best, scratch);
    memory_look(problem, &best, scratch);
    return best;
}
