/* goodput.c - the goodput of every policy in every cell, and how far the default is from the best. */
#include <stdio.h>
#include <stdlib.h>

#include "grid.h"
#include "sim/goodput.h"

#define ENOUGH       0.98 /* of the best policy */
#define WORST_SHOWN  12
#define SECONDS_MOST 200

static uint32_t pieces(const struct grid *grid) {
    return grid->cell_count * grid->policy_count;
}

/* A few seconds of a few hundred bursty requests a second would say little. */
static double seconds_of(const struct grid *grid, const struct sim_config *config) {
    double seconds = grid->requests / goodput_guess(config);
    return seconds < grid->seconds ? grid->seconds : seconds < SECONDS_MOST ? seconds : SECONDS_MOST;
}

static void work(const struct grid *grid, uint32_t piece, void *result) {
    struct cell_cluster cluster;
    grid_cell(grid, piece / grid->policy_count, &cluster);
    cluster.config.seconds = seconds_of(grid, &cluster.config);
    grid_policy_set(grid, piece % grid->policy_count, &cluster);
    *(double *)result = cell_goodput(&cluster, grid->within);
    cell_free(&cluster);
}

/* The best of a cell's policies but the default. */
static uint32_t best_other(const struct grid *grid, const double *rps) {
    uint32_t best = 1;
    for (uint32_t p = 2; p < grid->policy_count; p++)
        if (rps[p] > rps[best])
            best = p;
    return best;
}

static double ratio_of(const struct grid *grid, const double *rps) {
    double best = rps[best_other(grid, rps)];
    return best > 0 ? rps[0] / best : 1;
}

static void cell_line(const struct grid *grid, uint32_t index, const double *rps) {
    struct cell_cluster cluster;
    cell_make(&cluster, grid->cells[index]);
    uint32_t best = best_other(grid, rps);
    printf("%4u %-62s %8.0f %8.0f %6.3f  %s\n", grid->cells[index], cluster.name, rps[0], rps[best],
           ratio_of(grid, rps), grid->policies[best].text);
    cell_free(&cluster);
}

static void show(const struct grid *grid, uint32_t piece, void *results) {
    if (piece == 0)
        printf("%4s %-62s %8s %8s %6s  %s\n", "cell", "", "deferred", "best", "ratio", "best of the others");
    if ((piece + 1) % grid->policy_count == 0)
        cell_line(grid, piece / grid->policy_count, (double *)results + piece + 1 - grid->policy_count);
}

struct ranked {
    double ratio;
    uint32_t index;
};

static int by_ratio(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    return x->ratio < y->ratio ? -1 : x->ratio > y->ratio ? 1 : (int)x->index - (int)y->index;
}

static json_t *cell_json(const struct grid *grid, uint32_t index, const double *rps) {
    struct cell_cluster cluster;
    cell_make(&cluster, grid->cells[index]);
    json_t *goodput = json_object();
    for (uint32_t p = 0; p < grid->policy_count; p++)
        json_object_set_new(goodput, grid->policies[p].text, json_real(rps[p]));
    json_t *cell = json_pack("{s:i, s:s, s:f, s:o}", "cell", (int)grid->cells[index], "name", cluster.name, "ratio",
                             ratio_of(grid, rps), "goodput_rps", goodput);
    cell_free(&cluster);
    return cell;
}

/* In how many cells each policy is the best, and what part of the best it reaches in the mean. */
static void policies_summary(const struct grid *grid, const double *rps) {
    printf("\n%-64s %8s %8s %8s\n", "policy", "ahead in", "mean", "least");
    for (uint32_t p = 0; p < grid->policy_count; p++) {
        uint32_t ahead = 0;
        double sum = 0, least = 1;
        for (uint32_t c = 0; c < grid->cell_count; c++) {
            const double *of = rps + (size_t)c * grid->policy_count;
            double best = of[best_other(grid, of)] > of[0] ? of[best_other(grid, of)] : of[0];
            double share = best > 0 ? of[p] / best : 1;
            ahead += share >= 1;
            sum += share;
            least = share < least ? share : least;
        }
        printf("%-64s %8u %8.3f %8.3f\n", grid->policies[p].text, ahead, sum / grid->cell_count, least);
    }
}

static bool summary(const struct grid *grid, void *results, json_t *json) {
    const double *rps = results;
    struct ranked *ranked = calloc(grid->cell_count, sizeof(*ranked));
    json_t *cells = json_array();
    uint32_t under = 0;
    if (!ranked)
        return false;
    for (uint32_t c = 0; c < grid->cell_count; c++) {
        const double *of = rps + (size_t)c * grid->policy_count;
        ranked[c] = (struct ranked){ratio_of(grid, of), c};
        under += ranked[c].ratio < ENOUGH;
        json_array_append_new(cells, cell_json(grid, c, of));
    }
    qsort(ranked, grid->cell_count, sizeof(*ranked), by_ratio);
    policies_summary(grid, rps);
    printf("\nThe cells where deferred does worst:\n");
    for (uint32_t i = 0; i < WORST_SHOWN && i < grid->cell_count; i++)
        cell_line(grid, ranked[i].index, rps + (size_t)ranked[i].index * grid->policy_count);
    printf("\ndeferred is under %.2f of the best of the others in %u of %u cells\n", ENOUGH, under, grid->cell_count);
    json_object_set_new(json, "cells", cells);
    json_object_set_new(json, "cells_under", json_integer(under));
    free(ranked);
    return under == 0;
}

const struct grid_mode grid_goodput = {
    .name = "goodput",
    .help = "the goodput of every policy in every cell",
    .pieces = pieces,
    .result_bytes = sizeof(double),
    .work = work,
    .show = show,
    .summary = summary,
};
