/* partition_bound.h - why models cannot be partitioned: limits that no assignment can keep. Pure.
 *
 * A limit that is found is proved. If none is found, models may still be impossible to partition, since a full answer
 * is as hard as bin packing. The search looks at single models and at sums, and uses the pigeonhole principle: of k l +
 * 1 models, k + 1 must share one of l sub-clusters. */
#pragma once

#include "sched/plan/partition.h"

enum partition_limit {
    PARTITION_NO_LIMIT,
    PARTITION_RATE,   /* (5) */
    PARTITION_MEMORY, /* (6) */
};

enum partition_proof {
    PARTITION_MODEL,  /* `model` alone is over the limit */
    PARTITION_SUM,    /* all models together are over the limit of all sub-clusters together. Memory: the `count` models
                         whose dynamic size is at least that of `model` are over the limit of the sub-clusters that they
                         can lie in */
    PARTITION_SHARED, /* of the `count` largest models, `together` must share a sub-cluster */
};

struct partition_bound {
    enum partition_limit limit; /* NO_LIMIT: nothing was found, and nothing else is set */
    enum partition_proof proof;
    double need, have; /* requests/s or MB that models need; that the limit allows */
    uint32_t model, count, together;
};

/* Looks for the plainest proof, in the order of enum partition_proof; of several, for the one whose limit is exceeded
 * by the largest part. `scratch`: double[2 * models + 1]. */
struct partition_bound partition_bound(const struct partition_problem *problem, double *scratch);
