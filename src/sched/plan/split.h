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
 * By dynamic programming over the time, cut into SPLIT_SEGMENTS pieces: the best for stages one after the other is a
 * minimum over how their time is divided; for stages beside each other, that have the same time, it is a sum. So the
 * division is exact, up to one piece of time a stage, for trees, forks and joins (series-parallel graphs). Other graphs
 * are cut into levels, one after the other, by how many stages come before; that keeps every path within the SLO, but
 * may take more GPUs than need be.
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
    uint32_t batch_max; /* items a batch; at most the profile's */
    double rate;        /* items per second that come here */
    bool gathers;       /* the time that a batch gathers in counts; else, as in Nexus, only its run does */
    double turns;   /* how many times a batch's latency an item may take: 2 if it may just miss a batch (section 4.1) */
    uint64_t after; /* bits of the stages before it, which have lower numbers; 0: it is a first one */
};

/* What a stage gets. */
struct split_part {
    int64_t budget_ns;
    uint32_t batch; /* within the budget, the one with the least time an item; 0: none fits */
    double gpus;    /* that are busy with it */
};

/* Memory for split_best(), aligned as malloc's. */
size_t split_bytes(uint32_t stages);
/* The best division. False: not even one item at a time is within the SLO; then `parts` is what split_even() sets. */
bool split_best(const struct split_stage *stages, uint32_t count, int64_t slo_ns, void *memory,
                struct split_part *parts);
/* Adds what the batches of `parts` leave of the SLO to all stages alike, as much as the longest path allows. It is for
 * what a batch's latency does not include, such as another model's batch on the accelerator. Each part becomes the time
 * of its batch, but at least least_ns of the stage, plus that share. If the parts are longer than the SLO they all
 * shrink by the same factor. */
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
