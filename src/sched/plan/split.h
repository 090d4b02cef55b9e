/* split.h - the SLO of a query of several models, divided among its stages so that it takes the fewest GPUs (Nexus,
 * SOSP 2019, section 6.2).
 *
 *     minimize  sum of R_v * l_v(b_v) / b_v      such that on every path from the first stages to the last ones
 *                                                the sum of turns_v * l_v(b_v) <= SLO
 *
 * For stages that gather, the time of a stage is instead what deferred batches take at a measured rate: the first item
 * of a batch waits until the others have come.
 *
 *     turns_v * l_v(b_v) + (b_v - 1) / R_v
 *
 * The division is found by dynamic programming over the time, which is cut into SPLIT_SEGMENTS pieces. The best for
 * stages one after the other is a minimum over the divisions of their time. The best for stages beside each other,
 * which have the same time, is a sum. So the division is exact, up to one piece of time a stage, for trees, forks and
 * joins (series-parallel graphs). Other graphs are cut into levels, one after the other, by how many stages come
 * before. Then every path is within the SLO, but the stages may take more GPUs than necessary.
 *
 * Pure; memory is the caller's. Any thread, one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/profile.h"

#define SPLIT_STAGES_MAX 64
#define SPLIT_SEGMENTS   400

/* A stage: one model, run for each item that the stages before it hand on. */
struct split_stage {
    const struct profile *profile;
    uint32_t batch_max; /* most items of a batch, within the profile */
    double rate;        /* items per second that come to the stage */
    bool gathers;       /* the time in which a batch gathers counts, too; else, as in Nexus, only its run */
    double turns;       /* latencies of a batch that an item may take: 2 if it may just miss a batch (section 4.1) */
    uint64_t after;     /* stages before this one, a bit each; they have lower numbers; 0: it is a first stage */
};

/* What a stage gets. */
struct split_part {
    int64_t budget_ns; /* part of the SLO */
    uint32_t batch;    /* items of the batch with the least time an item within the budget; 0: none fits */
    double gpus;       /* GPUs that the stage keeps busy */
};

/* Bytes of memory for split_best(). The memory is aligned as malloc's. */
size_t split_bytes(uint32_t stages);
/* The best division. False: not even one item at a time is within the SLO; then `parts` is what split_even() sets. */
bool split_best(const struct split_stage *stages, uint32_t count, int64_t slo_ns, void *memory,
                struct split_part *parts);
/* Gives the time of the SLO that the batches of `parts` do not need to all stages in equal shares, as much as the
 * longest path allows. A share is for delays that a batch's latency does not include, such as another model's batch on
 * the accelerator. Each part becomes the time of its batch, but at least least_ns of the stage, plus the share. If the
 * parts are longer than the SLO, they all shrink by the same factor. */
void split_share(const struct split_stage *stages, uint32_t count, int64_t slo_ns, const int64_t *least_ns,
                 struct split_part *parts);
/* The time that the longest path takes, if each stage v takes time_ns[v]. */
int64_t split_longest_path(const struct split_stage *stages, uint32_t count, const int64_t *time_ns);
/* The largest batch whose run alone fits into a stage's part, at least 1. */
uint32_t split_batch_most(const struct split_stage *stage, int64_t part_ns);
/* Each path's SLO in equal parts: a stage has the SLO divided by the number of stages on the longest path through
 * it. */
void split_even(const struct split_stage *stages, uint32_t count, int64_t slo_ns, struct split_part *parts);
/* GPUs of all parts; INFINITY: some stage has no batch that fits its part. */
double split_gpus(const struct split_part *parts, uint32_t count);
