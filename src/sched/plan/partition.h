/* partition.h - which models share a sub-cluster (Symphony, arXiv 2308.07470, sections 4.7 and A.1). Pure.
 *
 * Models i are assigned to sub-clusters j, each to one (9, 10), such that
 *
 *     minimize     Delta_R + w Delta_S                                                          (4)
 *     subject to   sum of rates of j                        <= max_rate      for all j          (5)
 *                  sum of static sizes of j + its largest dynamic size <= max_memory            (6)
 *                  Delta_R = max_j |loads of j / their mean - 1|                                (7)
 *                  Delta_S = max_j |static sizes of j / their mean - 1|                         (8)
 *                  sum of move_cost of models that are moved <= max_move_cost                   (11)
 *
 * The paper's Delta are absolute; here they are parts of the means, so that w has no unit. Its (11) counts loading and
 * unloading apart: a model's move_cost is both together. A model that is nowhere yet must be loaded anyway, and costs
 * nothing here.
 *
 * The paper balances rates. Here a model's load may be something else than its rate, sub-clusters may have unequal
 * capacities (loads and sizes are then by capacity), and models may be barred from some. A model too large for any
 * sub-cluster fixes Delta_R, so (4) may have more terms: how far all sub-clusters are from the mean, and what moves
 * cost.
 *
 * The search begins where models are, or greedily, and goes on by simulated annealing until it is told to stop: it is
 * good after milliseconds and better after more. The same seed takes the same way. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/rng.h"

#define PARTITION_NONE UINT32_MAX

struct partition_model {
    double rate;       /* requests a second */
    double load;       /* load that is balanced; in the paper: the rate */
    double static_mb;  /* MB of weights on each accelerator of the model's sub-cluster */
    double dynamic_mb; /* MB while the model runs; one model of a sub-cluster runs at a time */
    double move_cost;
    uint32_t current; /* sub-cluster that has the model; NONE: none has it */
    uint64_t barred;  /* sub-clusters that must not have the model: a bit for each of the first 64 */
};

struct partition_problem {
    uint32_t subclusters, models;
    const struct partition_model *model; /* [models] outlives the search */
    double max_rate, max_memory_mb;      /* limits of a sub-cluster */
    double memory_weight;                /* w: weight of Delta_S in the objective */
    double max_move_cost;                /* limit of the cost of all moves together */
    const double *capacity;              /* [subclusters] outlives the search; some are over 0; NULL: all are equal */
    double spread_weight; /* weight in the objective: root of the mean square deviation of loads by capacity */
    double moves_weight;  /* weight in the objective: cost of the moves */
};

struct partition_answer {
    const uint32_t *subcluster;                             /* [models] best assignment so far */
    double objective, delta_rate, delta_memory, moved_cost; /* (4), (7) of loads, (8), left side of (11) */
    uint32_t moved;                                         /* models that are not in their `current` sub-cluster */
    uint32_t barred;                                        /* models that are in a barred sub-cluster */
    /* excess over the limits, in all sub-clusters together: requests/s, MB, cost */
    double over_rate, over_memory_mb, over_moves;
};

struct partition;

/* Bytes of memory for a search. The memory is aligned as malloc's. */
size_t partition_bytes(const struct partition_problem *problem);
/* Begins a search. The problem has at least one sub-cluster, `current` is NONE or one of them, and no number is
 * negative or NaN. */
struct partition *partition_begin(void *memory, const struct partition_problem *problem, uint64_t seed);
/* Searches on for `steps` steps, of some 50 ns each. False: the search is over and finds nothing better. */
bool partition_search(struct partition *partition, uint32_t steps);
/* Sets what the answer says of moves (`moved`, `moved_cost`, `over_moves`), for an assignment of subcluster[models]. */
void partition_moves(const struct partition_problem *problem, const uint32_t *subcluster,
                     struct partition_answer *answer);
/* The best answer so far. Its `subcluster` stays valid until the search goes on. */
struct partition_answer partition_best(const struct partition *partition);
