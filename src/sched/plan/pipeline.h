/* pipeline.h - a query of several models: stages that follow each other, how many items each stage hands on, and the
 * times that stages took. Pure; any thread, but one at a time where a struct is changed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/rng.h"
#include "sched/plan/split.h"

#define PIPELINE_STAGES_MAX SPLIT_STAGES_MAX
#define PIPELINE_ITEMS_MAX  1024 /* items of a stage in one query; more items of a fan-out are left out */

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

/* Draws the items of a stage whose stages before it have `items`; at most PIPELINE_ITEMS_MAX. */
uint32_t fan_out_draw(const struct fan_out *fan_out, uint32_t items, struct rng *rng);

struct pipeline_stage {
    uint32_t model; /* the user's number of the model */
    uint64_t after; /* stages before this one, a bit each; they have lower numbers; 0: it begins with the query */
    struct fan_out fan_out;
    int64_t part_ns;     /* part of the SLO that the stage has */
    uint32_t batch_most; /* most items of a batch, so that its run fits into the part; 0: any */
    int64_t least_ns;    /* time that the stage takes for one item alone */
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
/* Items of all stages together that a query has in the mean. */
double pipeline_requests(const struct pipeline *pipeline);

/* Mean times of the stages, and the time that must be kept for the stages behind each stage. */
struct pipeline_times {
    double mean_ns[PIPELINE_STAGES_MAX];   /* mean time of each stage */
    uint32_t seen[PIPELINE_STAGES_MAX];    /* times in each mean, up to a limit */
    int64_t rest_ns[PIPELINE_STAGES_MAX];  /* time to keep for the stages behind each stage, on the longest path */
    int64_t least_ns[PIPELINE_STAGES_MAX]; /* least time of the stages behind each stage, with one item each */
};

void pipeline_times_init(struct pipeline_times *times, const struct pipeline *pipeline);
/* A stage of a query has taken took_ns, from its beginning to the end of its last item. */
void pipeline_times_add(struct pipeline_times *times, const struct pipeline *pipeline, uint32_t stage, int64_t took_ns);
