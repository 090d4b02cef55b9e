/* partition_bound.h - why models cannot be partitioned: limits that no assignment can keep. Pure.
 *
 * What is found is a proof; that nothing is found proves nothing, since to know it is as hard as to pack bins. Looked
 * at are single models, sums, and, as in the pigeonhole principle, that of k l + 1 models k + 1 must share one of l
 * sub-clusters. */
#pragma once

#include "plan/partition.h"

enum partition_limit {
    PARTITION_NO_LIMIT,
    PARTITION_RATE,   /* (5) */
    PARTITION_MEMORY, /* (6) */
};

enum partition_proof {
    PARTITION_MODEL,  /* `model` alone is over the limit */
    PARTITION_SUM,    /* all models together are over that of all sub-clusters together. Of memory: the `count` models
                       * whose dynamic size is at least that of `model` are over that of those they may lie in */
    PARTITION_SHARED, /* of the `count` largest models, `together` must share a sub-cluster */
};

struct partition_bound {
    enum partition_limit limit; /* NO_LIMIT: nothing was found, and nothing else is set */
    enum partition_proof proof;
    double need, have; /* requests/s or MB */
    uint32_t model, count, together;
};

/* Looks for the plainest proof, as they come above, and of those for the limit that is exceeded by the largest part.
 * `scratch`: double[2 * models + 1]. */
struct partition_bound partition_bound(const struct partition_problem *problem, double *scratch);
