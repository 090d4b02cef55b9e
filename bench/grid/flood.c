/* flood.c - isolation: twenty models at half load; one of them rises to many times its rate. */
#include <stdio.h>

#include "grid.h"

#define FLOODING 7
#define BAD_MOST 0.02 /* of the others under the default */

static const double factors[] = {1, 25, 40, 100};

#define FACTORS (sizeof(factors) / sizeof(factors[0]))

struct flood {
    double others_bad, good_rps; /* from 4 s after it began */
};

static uint32_t pieces(const struct grid *grid) {
    return grid->policy_count * FACTORS;
}

static void work(const struct grid *grid, uint32_t piece, void *result) {
    struct flood *flood = result;
    struct cell_cluster cluster;
    struct sim_rate_step step = {0, 12500};
    struct sim_result run;
    cell_make_flood(&cluster);
    cluster.models[FLOODING].surge_at_s = 6;
    cluster.models[FLOODING].surge_factor = factors[piece % FACTORS];
    cluster.config.steps = &step;
    cluster.config.step_count = 1;
    cluster.config.warmup_s = 10;
    cluster.config.seconds = grid->seconds;
    cluster.config.seed = grid->seed;
    grid_policy_set(grid, (uint32_t)(piece / FACTORS), &cluster);
    cell_run(&cluster, &run);
    const struct sim_model_result *flooding = &run.models[FLOODING];
    double offered = (double)(run.offered - flooding->offered), good = (double)(run.good - flooding->good);
    *flood = (struct flood){1 - good / offered, (double)run.good / grid->seconds};
    cell_free(&cluster);
}

static void show(const struct grid *grid, uint32_t piece, void *results) {
    if (piece == 0)
        printf("Twenty models at half load; one rises to so many times its rate. Bad rate of the other 19, and all "
               "that is good,\nin requests a second, once 4 s have passed:\n%-64s %16s %16s %16s %16s\n",
               "policy", "1", "25", "40", "100");
    if ((piece + 1) % FACTORS)
        return;
    printf("%-64s", grid->policies[piece / FACTORS].text);
    for (size_t f = 0; f < FACTORS; f++) {
        const struct flood *flood = (struct flood *)results + piece + 1 - FACTORS + f;
        printf(" %8.4f %7.0f", flood->others_bad, flood->good_rps);
    }
    printf("\n");
}

static bool summary(const struct grid *grid, void *results, json_t *json) {
    json_t *floods = json_array();
    bool good = true;
    for (uint32_t p = 0; p < pieces(grid); p++) {
        const struct flood *flood = (struct flood *)results + p;
        good &= p >= FACTORS || flood->others_bad <= BAD_MOST;
        json_array_append_new(floods, json_pack("{s:s, s:f, s:f, s:f}", "policy", grid->policies[p / FACTORS].text,
                                                "factor", factors[p % FACTORS], "others_bad_rate", flood->others_bad,
                                                "good_rps", flood->good_rps));
    }
    json_object_set_new(json, "floods", floods);
    return good;
}

const struct grid_mode grid_flood = {
    .name = "flood",
    .pieces = pieces,
    .result_bytes = sizeof(struct flood),
    .work = work,
    .show = show,
    .summary = summary,
};
