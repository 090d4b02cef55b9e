/* balance.h - decides, once an epoch, which models move to which sub-cluster. Pure.
 *
 * Sub-clusters have accelerators for good, and models that may move. The accelerators of a sub-cluster saturate
 * first. So not the rate of requests is balanced, as in the paper's (7), but load by capacity. A model's load is the
 * number of accelerators that its arrivals keep busy at the best batch size: rate * (alpha + beta / b*). The time that
 * batches took is no measure of the load: where there is room batches are small, and a sub-cluster that is full takes
 * no more. The rate of a rank thread is only a limit, as in (5).
 *
 * Where the models take more memory than an accelerator has, their sizes are balanced as well, as in (8): in a
 * sub-cluster that has more of them than others each is loaded, and evicted, more often.
 *
 * Each look searches with sched/plan/partition.h from where models are, with few moves. The objective is the greatest
 * deviation of a sub-cluster's load by capacity from the mean, the root of the mean square of all deviations, and the
 * greatest deviation of sizes. The moves are made if they lower the objective by more than chance explains, as loads
 * are known only from Poisson arrivals of some seconds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/messages.h"

#define BALANCE_SUBCLUSTERS_MAX 64
#define BALANCE_NOWHERE         UINT32_MAX
#define BALANCE_RATE_S          2.0 /* time constant of the rates that models report (core/data/messages.h) */

struct balance_config {
    uint32_t subclusters, types, models;
    uint32_t moves_most; /* most moves of a look */
    double max_rate;     /* most items/s of a sub-cluster; 0: no limit */
    double memory_mb;    /* MB of an accelerator for weights; 0: enough for all */
};

struct balance_model {
    double rate, load; /* items/s of the model; accelerators that it keeps busy */
    double weights_mb; /* MB of its weights */
    /* Items/s that one accelerator of each type runs in the largest batches; 0: the model does not run there. */
    double most[ACCELERATOR_TYPES_MAX];
    uint32_t subcluster; /* sub-cluster that has the model; NOWHERE: a look places the model, which does not count as a
                            move */
};

/* Accelerators in service. */
struct balance_subcluster {
    uint32_t accelerators[ACCELERATOR_TYPES_MAX]; /* by type */
};

struct balance_move {
    uint32_t model, subcluster;
};

struct balance;

/* Bytes of memory for a balance. The memory is aligned as malloc's. */
size_t balance_bytes(const struct balance_config *config);
struct balance *balance_init(void *memory, const struct balance_config *config);
/* Decides for models[config.models] and subclusters[config.subclusters]. A model whose sub-cluster cannot run it moves
 * to a sub-cluster that can, if there is any, and a model that is nowhere is placed where it does the least harm. Fills
 * moves[config.models], and returns how many moves there are. Takes 1 to 5 ms, unless very many models are nowhere. */
uint32_t balance_look(struct balance *balance, const struct balance_model *models,
                      const struct balance_subcluster *subclusters, struct balance_move *moves);

/* A model's rate, or load, after silent_ns without a report: models report only while requests come. */
double balance_decayed(double reported, int64_t silent_ns);

/* Usual moves_most: a move is cheap, but loads are not known for sure. */
static inline uint32_t balance_moves_usual(uint32_t models) {
    return models < 64 ? 8 : models / 8;
}
