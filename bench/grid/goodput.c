/* goodput.c - the goodput of every policy in every cell, and how far the default is from the best. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "lab/report/gnuplot.h"

#define WORST_SHOWN 12

static uint32_t pieces(const struct grid *grid) {
    return grid->cell_count * grid->policy_count;
}

/* ---- the file of results ----
 *
 * Its first line says how the results were found; a run goes on with the file only if that is the same. Then a line for
 * each cell and policy follows, in the order in which they were done. */

/* What the line says of the clusters, up to the first semicolon. */
static int clusters_print(const struct grid *grid, char *head) {
    return snprintf(head, GRID_LINE_MOST, "# %s, drawn from %llu;", grid->set->name, (unsigned long long)grid->draw);
}

bool grid_head_is_of(const struct grid *grid, const char *line) {
    char head[GRID_LINE_MOST];
    int length = clusters_print(grid, head);
    return strncmp(head, line, (size_t)length) == 0;
}

static void head_print(const struct grid *grid, char *head) {
    int length = clusters_print(grid, head);
    snprintf(head + length, (size_t)(GRID_LINE_MOST - length),
             " requests %g, runs %u, seconds %g, within %g, seed %llu\n", grid->requests, grid->runs, grid->seconds,
             grid->within, (unsigned long long)grid->seed);
}

/* Any thread: a short write to a file opened for appending stays whole. */
static void result_append(const struct grid *grid, uint32_t piece, const char *name, double rps) {
    FILE *to = fopen(grid->append, "a");
    if (!to || fprintf(to, "%u,\"%s\",\"%s\",%.2f\n", grid->cells[piece / grid->policy_count], name,
                       grid->policies[piece % grid->policy_count].text, rps) < 0)
        fprintf(stderr, "grid: %s: %s\n", grid->append, strerror(errno));
    if (to)
        fclose(to);
}

bool grid_result_read(const char *line, struct grid_result *result) {
    return sscanf(line, "%u,\"%*[^\"]\",\"%511[^\"]\",%lf", &result->cell, result->policy, &result->rps) == 3;
}

/* Takes a line of the file into `rps`, if this run asks for it. */
static void result_take(const struct grid *grid, const char *line, double *rps) {
    struct grid_result result;
    if (!grid_result_read(line, &result))
        return;
    for (uint32_t c = 0; c < grid->cell_count; c++)
        for (uint32_t p = 0; grid->cells[c] == result.cell && p < grid->policy_count; p++)
            if (strcmp(grid->policies[p].text, result.policy) == 0)
                rps[(size_t)c * grid->policy_count + p] = result.rps;
}

static int begin(struct grid *grid, void *results) {
    double *rps = results;
    char head[GRID_LINE_MOST], line[GRID_LINE_MOST];
    struct sy_error err;
    for (uint32_t p = 0; p < pieces(grid); p++)
        rps[p] = -1;
    if (grid->plot && gnuplot_check(grid->plot, &err) < 0) {
        fprintf(stderr, "grid: %s\n", err.text);
        return -EINVAL;
    }
    if (!grid->append)
        return 0;
    FILE *file = fopen(grid->append, "a+");
    if (!file) {
        fprintf(stderr, "grid: %s: %s\n", grid->append, strerror(errno));
        return -EIO;
    }
    head_print(grid, head);
    rewind(file);
    int rc = 0;
    if (!fgets(line, sizeof(line), file))
        fputs(head, file);
    else if (strcmp(line, head) != 0)
        rc = -EINVAL;
    while (!rc && fgets(line, sizeof(line), file))
        result_take(grid, line, rps);
    fclose(file);
    if (rc)
        fprintf(stderr, "grid: %s has results that were found otherwise: it begins with\n%snot\n%s", grid->append, line,
                head);
    return rc;
}

/* ---- a cell ---- */

static void work(const struct grid *grid, uint32_t piece, void *result) {
    struct cell_cluster cluster;
    if (*(double *)result >= 0)
        return; /* known */
    grid_cell(grid, piece / grid->policy_count, &cluster);
    grid_policy_set(grid, piece % grid->policy_count, &cluster);
    *(double *)result = cell_goodput(&cluster, grid->requests, grid->runs, grid->within);
    if (grid->append)
        result_append(grid, piece, cluster.name, *(double *)result);
    cell_free(&cluster);
}

/* The best of a cell's policies other than the default. */
static uint32_t best_other(const struct grid *grid, const double *rps) {
    uint32_t best = 1;
    for (uint32_t p = 2; p < grid->policy_count; p++)
        if (rps[p] > rps[best])
            best = p;
    return best;
}

/* Whether some policy answers enough requests for a percent to mean something. */
static bool counts(const struct grid *grid, const double *rps) {
    return rps[0] >= grid->set->rps_least || rps[best_other(grid, rps)] >= grid->set->rps_least;
}

static double ratio_of(const struct grid *grid, const double *rps) {
    double best = rps[best_other(grid, rps)];
    return best > 0 ? rps[0] / best : 1;
}

static void cell_line(const struct grid *grid, uint32_t index, const double *rps) {
    struct cell_cluster cluster;
    grid_cell(grid, index, &cluster);
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
    grid_cell(grid, index, &cluster);
    json_t *goodput = json_object();
    for (uint32_t p = 0; p < grid->policy_count; p++)
        json_object_set_new(goodput, grid->policies[p].text, json_real(rps[p]));
    json_t *cell = json_pack("{s:i, s:s, s:f, s:o}", "cell", (int)grid->cells[index], "name", cluster.name, "ratio",
                             ratio_of(grid, rps), "goodput_rps", goodput);
    cell_free(&cluster);
    return cell;
}

/* How a policy stands to the best of each cell. */
struct standing {
    uint32_t ahead; /* in so many cells it is the best */
    double mean, least;
};

static struct standing standing_of(const struct grid *grid, const double *rps, uint32_t policy) {
    struct standing standing = {.least = 1};
    uint32_t count = 0;
    for (uint32_t c = 0; c < grid->cell_count; c++) {
        const double *of = rps + (size_t)c * grid->policy_count;
        if (!counts(grid, of))
            continue;
        count++;
        double best = of[best_other(grid, of)] > of[0] ? of[best_other(grid, of)] : of[0];
        double share = best > 0 ? of[policy] / best : 1;
        standing.ahead += share >= 1;
        standing.mean += share;
        standing.least = share < standing.least ? share : standing.least;
    }
    standing.mean = count ? standing.mean / count : 1;
    return standing;
}

/* Prints in how many cells each policy is the best, and which part of the best it reaches in the mean; then the same of
 * the published setting of a policy beside its best in the mean. */
static void policies_summary(const struct grid *grid, const double *rps) {
    struct standing standing[GRID_POLICIES_MAX];
    printf("\n%-64s %8s %8s %8s\n", "policy", "ahead in", "mean", "least");
    for (uint32_t p = 0; p < grid->policy_count; p++) {
        standing[p] = standing_of(grid, rps, p);
        printf("%-64s %8u %8.3f %8.3f\n", grid->policies[p].text, standing[p].ahead, standing[p].mean,
               standing[p].least);
    }
    bool first = true;
    for (uint32_t p = 1; p < grid->policy_count; p++) {
        uint32_t best = p;
        if (!grid->policies[p].published)
            continue;
        for (uint32_t q = 1; q < grid->policy_count; q++)
            if (grid->policies[q].ops == grid->policies[p].ops && standing[q].mean > standing[best].mean)
                best = q;
        if (first)
            printf("\n%-48s %8s   %-48s %8s\n", "as published", "mean", "best setting", "mean");
        first = false;
        printf("%-48s %8.3f   %-48s %8.3f\n", grid->policies[p].text, standing[p].mean, grid->policies[best].text,
               standing[best].mean);
    }
}

/* Prints mean, least and quantiles of the cells, which are in the order of their ratio. */
static void distribution_print(const struct ranked *ranked, uint32_t count, json_t *json) {
    static const double quantiles[] = {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99};
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += ranked[i].ratio;
    printf("\ndeferred over the best of the others: mean %.4f, least %.4f", sum / count, ranked[0].ratio);
    json_object_set_new(json, "ratio_mean", json_real(sum / count));
    json_object_set_new(json, "ratio_least", json_real(ranked[0].ratio));
    for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
        double ratio = ranked[(uint32_t)(quantiles[q] * (count - 1) + 0.5)].ratio;
        char key[32];
        printf(", %g %%: %.3f", 100 * quantiles[q], ratio);
        snprintf(key, sizeof(key), "ratio_%g", quantiles[q]);
        json_object_set_new(json, key, json_real(ratio));
    }
    printf("\n");
}

/* ---- the plot ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Writes a data block $dNUMBER: deferred divided by another policy, or by the best of them, against the share of the
 * cells. */
static uint32_t curve_put(FILE *to, const struct grid *grid, const double *rps, uint32_t policy, double *scratch) {
    uint32_t count = 0;
    for (uint32_t c = 0; c < grid->cell_count; c++) {
        const double *of = rps + (size_t)c * grid->policy_count;
        if (!counts(grid, of))
            continue;
        double other = policy ? of[policy] : of[best_other(grid, of)];
        scratch[count++] = other > 0 ? of[0] / other : 1;
    }
    qsort(scratch, count, sizeof(*scratch), by_value);
    fprintf(to, "$d%u << EOD\n", policy);
    for (uint32_t i = 0; i < count; i++)
        fprintf(to, "%g %g\n", scratch[i], (i + 1.0) / count);
    fputs("EOD\n", to);
    return count;
}

static void plot(const struct grid *grid, const double *rps) {
    struct sy_error err;
    double *scratch = calloc(grid->cell_count, sizeof(*scratch));
    FILE *to = scratch ? gnuplot_open(grid->plot, 900, 560, &err) : NULL;
    if (!to) {
        fprintf(stderr, "grid: no plot: %s\n", scratch ? err.text : "out of memory");
        free(scratch);
        return;
    }
    uint32_t count = 0;
    for (uint32_t p = 0; p < grid->policy_count; p++)
        count = curve_put(to, grid, rps, p, scratch);
    fprintf(to,
            "set title noenhanced 'deferred over other policies, %u cells'\nset xlabel 'goodput over theirs'\n"
            "set ylabel 'share of the cells'\nset yrange [0:1]\nset logscale x\n"
            "set xtics (0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.5, 2, 3, 5)\nset xrange [0.9:3]\nset key bottom right\n"
            "plot $d0 with steps linewidth 3 linecolor 'black' title 'the best of them'",
            count);
    for (uint32_t p = 1; p < grid->policy_count; p++) {
        fprintf(to, ", $d%u with steps linewidth 2 title ", p);
        gnuplot_quote(to, grid->policies[p].text);
    }
    fputc('\n', to);
    if (gnuplot_close(to, grid->plot, &err) < 0)
        fprintf(stderr, "grid: %s\n", err.text);
    free(scratch);
}

/* ---- all ---- */

static bool summary(const struct grid *grid, void *results, json_t *json) {
    const double *rps = results;
    struct ranked *ranked = calloc(grid->cell_count, sizeof(*ranked));
    json_t *cells = json_array();
    uint32_t under = 0, count = 0;
    if (!ranked)
        return false;
    for (uint32_t c = 0; c < grid->cell_count; c++) {
        const double *of = rps + (size_t)c * grid->policy_count;
        if (counts(grid, of)) {
            ranked[count] = (struct ranked){ratio_of(grid, of), c};
            under += ranked[count++].ratio < grid->set->enough;
        }
        json_array_append_new(cells, cell_json(grid, c, of));
    }
    qsort(ranked, count, sizeof(*ranked), by_ratio);
    policies_summary(grid, rps);
    printf("\nThe cells where deferred does worst:\n");
    for (uint32_t i = 0; i < WORST_SHOWN && i < count; i++)
        cell_line(grid, ranked[i].index, rps + (size_t)ranked[i].index * grid->policy_count);
    if (count < grid->cell_count)
        printf("\n%u cells, in which no policy answers %.0f requests/s, are not counted\n", grid->cell_count - count,
               grid->set->rps_least);
    if (count)
        distribution_print(ranked, count, json);
    printf("deferred is under %.2f of the best of the others in %u of %u cells\n", grid->set->enough, under, count);
    if (grid->plot)
        plot(grid, rps);
    json_object_set_new(json, "cells", cells);
    json_object_set_new(json, "cells_counted", json_integer(count));
    json_object_set_new(json, "cells_under", json_integer(under));
    free(ranked);
    return under == 0;
}

const struct grid_mode grid_goodput = {
    .name = "goodput",
    .pieces = pieces,
    .result_bytes = sizeof(double),
    .begin = begin,
    .work = work,
    .show = show,
    .summary = summary,
};
