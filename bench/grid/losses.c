/* losses.c - what every policy loses at one rate of each cell: the goodput of the best policy other than the default,
 * as a file of results has it.
 *
 * All policies get the same arrivals, and no rate is searched for. So a change of a rule shows after a tenth of the
 * runs that goodput takes, and with less chance in it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/util/fmath.h"
#include "grid.h"

#define BAD_LEAST  3e-4 /* less is counted as this: a few requests */
#define BAD_MOST   0.3  /* more is counted as this: useless is useless */
#define BAD_WANTED 0.01 /* what goodput allows */

struct losses {
    double rps;   /* 0: the file has no rate that counts for this cell */
    double worst; /* of a model: bad over offered */
    double all;   /* of all requests */
};

static uint32_t pieces(const struct grid *grid) {
    return grid->cell_count * grid->policy_count;
}

/* Takes the rate of a line of the file, if the policy is not the default and the cell is wanted. */
static void rate_take(const struct grid *grid, const struct grid_result *line, struct losses *results) {
    if (strcmp(line->policy, grid->policies[0].text) == 0 || line->rps < grid->set->rps_least)
        return;
    for (uint32_t piece = 0; piece < pieces(grid); piece++)
        if (grid->cells[piece / grid->policy_count] == line->cell && line->rps > results[piece].rps)
            results[piece].rps = line->rps;
}

static int begin(struct grid *grid, void *results) {
    char line[GRID_LINE_MOST];
    struct grid_result result;
    FILE *file = grid->rates ? fopen(grid->rates, "r") : NULL;
    if (!file) {
        fprintf(stderr, "grid: losses: --rates %s: %s\n", grid->rates ? grid->rates : "FILE.csv",
                grid->rates ? strerror(errno) : "which rates? A run of goodput with --append writes such a file");
        return -EINVAL;
    }
    uint32_t known = 0;
    bool same = fgets(line, sizeof(line), file) && grid_head_is_of(grid, line);
    while (same && fgets(line, sizeof(line), file))
        if (grid_result_read(line, &result))
            rate_take(grid, &result, results);
    fclose(file);
    for (uint32_t piece = 0; piece < pieces(grid); piece += grid->policy_count)
        known += ((struct losses *)results)[piece].rps > 0;
    if (!same || known == 0) {
        fprintf(stderr, "grid: losses: --rates %s: %s\n", grid->rates,
                same ? "no rate of one of these cells" : "not results of this set of clusters");
        return -EINVAL;
    }
    return 0;
}

static void work(const struct grid *grid, uint32_t piece, void *result) {
    struct losses *losses = result;
    for (uint64_t run = 0; run < grid->runs && losses->rps > 0; run++) {
        struct cell_cluster cluster;
        struct sim_rate_step step = {0, losses->rps};
        struct sim_result of;
        grid_cell(grid, piece / grid->policy_count, &cluster);
        grid_policy_set(grid, piece % grid->policy_count, &cluster);
        cluster.config.steps = &step;
        cluster.config.step_count = 1;
        cluster.config.seconds = cell_seconds(grid->requests, grid->seconds, losses->rps);
        cluster.config.seed = grid->seed + run;
        cell_run(&cluster, &of);
        losses->worst += of.worst_bad_rate / grid->runs;
        losses->all += (1 - (double)of.good / (double)of.offered) / grid->runs;
        cell_free(&cluster);
    }
}

static void show(const struct grid *grid, uint32_t piece, void *results) {
    uint32_t policy = piece % grid->policy_count;
    const struct losses *cell = (struct losses *)results + piece - policy;
    if (policy + 1 < grid->policy_count || cell->rps <= 0)
        return;
    struct cell_cluster cluster;
    grid_cell(grid, piece / grid->policy_count, &cluster);
    printf("%4u %-62s %8.0f/s", grid->cells[piece / grid->policy_count], cluster.name, cell->rps);
    for (uint32_t p = 0; p < grid->policy_count; p++)
        printf(" %6.2f", 100 * cell[p].worst);
    printf("\n");
    cell_free(&cluster);
}

static double log_of(double bad) {
    return fmath_log(bad < BAD_LEAST ? BAD_LEAST : bad > BAD_MOST ? BAD_MOST : bad);
}

/* A cell's rate, and what each policy loses there. */
static json_t *cell_json(const struct grid *grid, uint32_t index, const struct losses *of) {
    json_t *worst = json_object(), *all = json_object();
    for (uint32_t p = 0; p < grid->policy_count; p++) {
        json_object_set_new(worst, grid->policies[p].text, json_real(of[p].worst));
        json_object_set_new(all, grid->policies[p].text, json_real(of[p].all));
    }
    return json_pack("{s:i, s:f, s:o, s:o}", "cell", (int)grid->cells[index], "offered_rps", of->rps, "worst_bad_rate",
                     worst, "bad_rate", all);
}

/* The columns of `show` are the policies in this order. */
static bool summary(const struct grid *grid, void *results, json_t *json) {
    json_t *array = json_array();
    printf("\nBad requests of the worst model at the goodput of the best policy other than %s:\n%-64s %10s %10s %10s\n",
           grid->policies[0].text, "policy", "over 1 % in", "over 2 % in", "of default's");
    for (uint32_t p = 0; p < grid->policy_count; p++) {
        uint32_t cells = 0, over = 0, far_over = 0;
        double logs = 0;
        for (uint32_t c = 0; c < grid->cell_count; c++) {
            const struct losses *cell = (struct losses *)results + (size_t)c * grid->policy_count;
            if (cell->rps <= 0)
                continue;
            cells++;
            over += cell[p].worst > BAD_WANTED;
            far_over += cell[p].worst > 2 * BAD_WANTED;
            logs += log_of(cell[p].worst) - log_of(cell[0].worst);
        }
        double ratio = fmath_exp(logs / cells);
        printf("%-64s %4u of %3u %11u %12.3f\n", grid->policies[p].text, over, cells, far_over, ratio);
        json_array_append_new(array, json_pack("{s:s, s:i, s:i, s:i, s:f}", "policy", grid->policies[p].text, "cells",
                                               (int)cells, "over_1_percent", (int)over, "over_2_percent", (int)far_over,
                                               "of_default", ratio));
    }
    json_object_set_new(json, "losses", array);
    json_t *cells = json_array();
    for (uint32_t c = 0; c < grid->cell_count; c++) {
        const struct losses *of = (struct losses *)results + (size_t)c * grid->policy_count;
        if (of->rps > 0)
            json_array_append_new(cells, cell_json(grid, c, of));
    }
    json_object_set_new(json, "cells", cells);
    return true;
}

const struct grid_mode grid_losses = {
    .name = "losses",
    .pieces = pieces,
    .result_bytes = sizeof(struct losses),
    .begin = begin,
    .work = work,
    .show = show,
    .summary = summary,
};
