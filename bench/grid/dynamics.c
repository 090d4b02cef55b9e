/* dynamics.c - compares the default with an eager policy, cell by cell: below the peak, and when the rate changes
 * suddenly. */
#include <stdio.h>
#include <stdlib.h>

#include "grid.h"
#include "lab/sim/goodput.h"

#define WAIT_MOST_NS (200 * NS_PER_US) /* longer than under the eager policy */
#define BUSY_MOST    1.01              /* times as under the eager policy */
#define PEAK         0.95

static const double loads[] = {0.1, 0.3, 0.5, 0.7};
static const double froms[] = {0.1, 0.3, 0.5};

#define LOADS (sizeof(loads) / sizeof(loads[0]))
#define FROMS (sizeof(froms) / sizeof(froms[0]))

static uint32_t pieces(const struct grid *grid) {
    return grid->cell_count;
}

/* The default's goodput in a cell that has been made. */
static double peak_of(const struct grid *grid, struct cell_cluster *cluster) {
    grid_policy_set(grid, 0, cluster);
    return cell_goodput(cluster, 0, 1, grid->within);
}

/* ---- below the peak ---- */

struct below {
    int64_t wait_ns[LOADS][2]; /* the median request's queueing; deferred, eager */
    double busy[LOADS][2];
    double bad[LOADS][2]; /* of the worst model */
};

static int64_t median_wait_ns(const struct cell_cluster *cluster, const struct sim_result *result) {
    struct sim_times *all = calloc(1, sizeof(*all));
    if (!all)
        return 0;
    for (uint32_t m = 0; m < cluster->config.model_count; m++)
        sim_times_merge(all, &result->models[m].queueing);
    int64_t median_ns = sim_times_quantile_ns(all, 0.5);
    free(all);
    return median_ns;
}

static void below_work(const struct grid *grid, uint32_t piece, void *result) {
    struct below *below = result;
    struct cell_cluster cluster;
    grid_cell(grid, piece, &cluster);
    double peak_rps = peak_of(grid, &cluster);
    for (size_t i = 0; i < LOADS; i++)
        for (uint32_t k = 0; k < 2; k++) {
            struct sim_rate_step step = {0, loads[i] * peak_rps};
            struct sim_result run;
            cluster.config.steps = &step;
            cluster.config.step_count = 1;
            grid_policy_set(grid, k ? grid_policy_find(grid, "eager") : 0, &cluster);
            cell_run(&cluster, &run);
            below->wait_ns[i][k] = median_wait_ns(&cluster, &run);
            below->busy[i][k] = run.busy;
            below->bad[i][k] = run.worst_bad_rate;
        }
    cell_free(&cluster);
}

static bool below_waits(const struct below *below, size_t load) {
    return below->wait_ns[load][0] > below->wait_ns[load][1] + WAIT_MOST_NS;
}

/* Whether a policy that does not wait loses more than a model may lose. */
static bool below_needs_company(const struct below *below, size_t load) {
    return below->bad[load][1] > GOODPUT_BAD_MOST;
}

static bool below_good(const struct below *below, size_t load) {
    return (!below_waits(below, load) || below_needs_company(below, load)) &&
           below->busy[load][0] <= BUSY_MOST * below->busy[load][1];
}

static void below_show(const struct grid *grid, uint32_t piece, void *results) {
    const struct below *below = (struct below *)results + piece;
    struct cell_cluster cluster;
    if (piece == 0)
        printf("%4s %-62s at %.0f, %.0f, %.0f, %.0f %% of the peak: median queueing in ms, deferred/eager; busy, "
               "relative\n",
               "cell", "", 100 * loads[0], 100 * loads[1], 100 * loads[2], 100 * loads[3]);
    grid_cell(grid, piece, &cluster);
    printf("%4u %-62s", grid->cells[piece], cluster.name);
    for (size_t i = 0; i < LOADS; i++)
        printf("  %5.2f/%5.2f %4.2f%s", (double)below->wait_ns[i][0] / NS_PER_MS,
               (double)below->wait_ns[i][1] / NS_PER_MS, below->busy[i][0] / below->busy[i][1],
               !below_good(below, i)   ? "!"
               : below_waits(below, i) ? "*"
                                       : "");
    printf("\n");
    cell_free(&cluster);
}

static bool below_summary(const struct grid *grid, void *results, json_t *json) {
    uint32_t bad = 0, needed = 0;
    json_t *cells = json_array();
    for (uint32_t c = 0; c < grid->cell_count; c++) {
        const struct below *below = (struct below *)results + c;
        for (size_t i = 0; i < LOADS; i++) {
            bad += !below_good(below, i);
            needed += below_good(below, i) && below_waits(below, i);
            json_array_append_new(cells,
                                  json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "cell", (int)grid->cells[c],
                                            "load", loads[i], "queue_ms", (double)below->wait_ns[i][0] / NS_PER_MS,
                                            "queue_eager_ms", (double)below->wait_ns[i][1] / NS_PER_MS, "busy",
                                            below->busy[i][0], "busy_eager", below->busy[i][1], "worst_bad_rate",
                                            below->bad[i][0], "worst_bad_rate_eager", below->bad[i][1]));
        }
    }
    printf(
        "\nIn %u of %zu settings (!) deferred queues the median request over 0.2 ms longer than eager, or takes over "
        "1 %% more accelerator time; in %u more (*) it queues longer where eager has a model with over 1 %% bad.\n",
        bad, grid->cell_count * LOADS, needed);
    json_object_set_new(json, "settings", cells);
    json_object_set_new(json, "settings_bad", json_integer(bad));
    json_object_set_new(json, "settings_needed", json_integer(needed));
    return bad == 0;
}

const struct grid_mode grid_below = {
    .name = "below",
    .pieces = pieces,
    .result_bytes = sizeof(struct below),
    .work = below_work,
    .show = below_show,
    .summary = below_summary,
};

/* ---- flash crowds ---- */

struct flash {
    double bad[2 * FROMS][2]; /* in the 2 s after a step to, then from, 0.95 of the peak; deferred, eager */
};

static double step_bad(struct cell_cluster *cluster, double from_rps, double to_rps) {
    struct sim_rate_step steps[] = {{0, from_rps}, {5, to_rps}};
    struct sim_result run;
    cluster->config.steps = steps;
    cluster->config.step_count = 2;
    cluster->config.warmup_s = 5;
    cluster->config.seconds = 2;
    cell_run(cluster, &run);
    return run.offered ? (double)(run.offered - run.good) / (double)run.offered : 0;
}

static void flash_work(const struct grid *grid, uint32_t piece, void *result) {
    struct flash *flash = result;
    struct cell_cluster cluster;
    grid_cell(grid, piece, &cluster);
    double peak_rps = peak_of(grid, &cluster);
    for (size_t i = 0; i < 2 * FROMS; i++)
        for (uint32_t k = 0; k < 2; k++) {
            double low_rps = froms[i % FROMS] * peak_rps, high_rps = PEAK * peak_rps;
            grid_policy_set(grid, k ? grid_policy_find(grid, "eager") : 0, &cluster);
            flash->bad[i][k] =
                i < FROMS ? step_bad(&cluster, low_rps, high_rps) : step_bad(&cluster, high_rps, low_rps);
        }
    cell_free(&cluster);
}

static void flash_show(const struct grid *grid, uint32_t piece, void *results) {
    const struct flash *flash = (struct flash *)results + piece;
    struct cell_cluster cluster;
    if (piece == 0)
        printf("%4s %-62s bad %% in 2 s after steps from 10, 30, 50 to 95 %% of the peak, and back: deferred/eager\n",
               "cell", "");
    grid_cell(grid, piece, &cluster);
    printf("%4u %-62s", grid->cells[piece], cluster.name);
    for (size_t i = 0; i < 2 * FROMS; i++)
        printf("  %5.2f/%5.2f", 100 * flash->bad[i][0], 100 * flash->bad[i][1]);
    printf("\n");
    cell_free(&cluster);
}

static bool flash_summary(const struct grid *grid, void *results, json_t *json) {
    double sum[2] = {0, 0}, most[2] = {0, 0}, excess = 0;
    json_t *steps = json_array();
    uint32_t worst = 0;
    for (uint32_t c = 0; c < grid->cell_count; c++) {
        const struct flash *flash = (struct flash *)results + c;
        for (size_t i = 0; i < 2 * FROMS; i++) {
            double low = froms[i % FROMS];
            for (uint32_t k = 0; k < 2; k++) {
                sum[k] += flash->bad[i][k];
                most[k] = flash->bad[i][k] > most[k] ? flash->bad[i][k] : most[k];
            }
            if (flash->bad[i][0] - flash->bad[i][1] > excess) {
                excess = flash->bad[i][0] - flash->bad[i][1];
                worst = c;
            }
            json_array_append_new(steps, json_pack("{s:i, s:f, s:f, s:f, s:f}", "cell", (int)grid->cells[c], "from",
                                                   i < FROMS ? low : PEAK, "to", i < FROMS ? PEAK : low, "bad_rate",
                                                   flash->bad[i][0], "bad_rate_eager", flash->bad[i][1]));
        }
    }
    double count = grid->cell_count * 2.0 * FROMS;
    printf("\nBad in the 2 s after a step: deferred %.3f %% in the mean, %.2f %% at most; eager %.3f %% and %.2f %%.\n"
           "deferred is worse than eager by %.2f %% at most, in cell %u\n",
           100 * sum[0] / count, 100 * most[0], 100 * sum[1] / count, 100 * most[1], 100 * excess, grid->cells[worst]);
    json_object_set_new(json, "steps", steps);
    return true;
}

const struct grid_mode grid_flash = {
    .name = "flash",
    .pieces = pieces,
    .result_bytes = sizeof(struct flash),
    .work = flash_work,
    .show = flash_show,
    .summary = flash_summary,
};
