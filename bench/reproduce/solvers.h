/* solvers.h - three ways to partition models onto sub-clusters (Symphony, arXiv 2308.07470, appendix A.2), each with so
 * much processor time. */
#pragma once

#include <stdbool.h>

#include "sched/plan/partition.h"

/* How good a partition is. */
struct partition_score {
    bool found; /* there is one, and it keeps the limits; else nothing else is set */
    double objective;
    double rate, memory; /* imbalance: (max - min) / mean over the sub-clusters */
};

struct partition_score partition_score(const struct partition_problem *problem, const uint32_t *subcluster);

/* Ours, after `early_s` and in the end. */
void annealing_solve(const struct partition_problem *problem, double early_s, double limit_s,
                     struct partition_score *early, struct partition_score *late);
/* Draws partitions and keeps the best that keeps the limits. */
struct partition_score random_solve(const struct partition_problem *problem, double limit_s, uint64_t seed);
/* The program `cbc`. It must be there. */
struct partition_score cbc_solve(const struct partition_problem *problem, double limit_s);
/* Whether it is on the path. */
bool cbc_found(void);
