/* pipeline.h - a query of several models: stages that follow each other, how many items each hands on, and what is
 * known of the time that they take. Pure; any thread, one at a time for what changes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/rng.h"
#include "sched/plan/split.h"

#define PIPELINE_STAGES_MAX SPLIT_STAGES_MAX
#define PIPELINE_ITEMS_MAX  1024 /* of a stage in one query; what the fan-outs draw beyond is left out */

/* How many items a stage has for each item of the stages before it. */
enum fan_out_kind {
    FAN_OUT_POISSON, /* mean a */
    FAN_OUT_FIXED,   /* a */
    FAN_OUT_CHANCE,  /* 1 with probability a, else 0 */
    FAN_OUT_UNIFORM, /* whole numbers from a to b */
    FAN_OUT_QUERY,   /* a for the query, whatever came before */
};

struct fan_out {
    enum fan_out_kind kind;
    double a, b;
};

/* A fan-out's mean, an item (FAN_OUT_QUERY: a query). */
double fan_out_mean(const struct fan_out *fan_out);
/* Items of a stage that `items` come to, at most PIPELINE_ITEMS_MAX. */
uint32_t fan_out_draw(const struct fan_out *fan_out, uint32_t items, struct rng *rng);

struct pipeline_stage {
    uint32_t model; /* the user's number of it */
    uint64_t after; /* bits of the stages before it, which have lower numbers; 0: it begins with the query */
    struct fan_out fan_out;
    int64_t part_ns;     /* of the SLO */
    uint32_t batch_most; /* items a batch, so that its run fits into the part; 0: any */
    int64_t least_ns;    /* that it takes for one item alone */
};

enum pipeline_deadlines {
    PIPELINE_FLOATING, /* a stage may take what the query has left, less what comes after it */
    PIPELINE_FIXED,    /* a stage has its part from when it begins (Nexus) */
};

struct pipeline {
    int64_t slo_ns;
    enum pipeline_deadlines deadlines;
    uint32_t stage_count;
    struct pipeline_stage stages[PIPELINE_STAGES_MAX];
};

/* Items of each stage that a query has in the mean. */
void pipeline_items(const struct pipeline *pipeline, double *items);
/* The same of all stages together. */
double pipeline_requests(const struct pipeline *pipeline);

/* What the stages have taken in the mean, and what that leaves for those before them. */
struct pipeline_times {
    double mean_ns[PIPELINE_STAGES_MAX];
    uint32_t seen[PIPELINE_STAGES_MAX];
    int64_t rest_ns[PIPELINE_STAGES_MAX];  /* to be kept for what comes after each stage, on the longest path */
    int64_t least_ns[PIPELINE_STAGES_MAX]; /* what that takes at the least, for one item of each stage */
};

void pipeline_times_init(struct pipeline_times *times, const struct pipeline *pipeline);
/* A stage of a query has taken that long, from its beginning to the end of its last item. */
void pipeline_times_add(struct pipeline_times *times, const struct pipeline *pipeline, uint32_t stage, int64_t took_ns);
