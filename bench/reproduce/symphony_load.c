/* symphony_load.c - Symphony, figure 10: goodput above the peak, and idle accelerators below it. */
#include <math.h>
#include <stdio.h>

#include "symphony.h"

static const char ten_yaml[] = "cluster: {accelerators: 24, type: gtx1080ti}\n"
                               "models:\n"
                               "  - {name: ResNet50, alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 100, copies: 10}\n"
                               "run: {seconds: 10, warmup_seconds: 3, seed: 1}\n";

#define CONSOLIDATE 1 /* in compared[] */

static const double loads[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6, 1.8, 2};
#define LOADS 15

/* Does the runs around the peak; the peak is that of consolidate. */
static double runs_do(struct context *c, const struct outcome *at[COMPARED][LOADS], int step) {
    const struct outcome *peak = goodput_add(c, ten_yaml, "%s", compared[CONSOLIDATE].sets);
    simulate(c);
    for (int p = 0; p < COMPARED; p++)
        for (int i = 0; i < LOADS; i += step)
            at[p][i] =
                run_add(c, ten_yaml, "workload.rate_rps=%.0f; %s", loads[i] * peak->all.goodput_rps, compared[p].sets);
    simulate(c);
    return peak->all.goodput_rps;
}

static void stability_report(struct context *c, const struct outcome *const at[COMPARED][LOADS], double peak_rps,
                             int step) {
    struct plot *plot = report_plot(c, "Stability", "offered, requests/s", "good, requests/s");
    report_table(c, "good, requests/s, when offered | deferred | deferred, consolidate | symphony | clockwork | nexus");
    for (int p = 0; p < COMPARED; p++) {
        struct series *series = plot_series(plot, PLOT_LINES, compared[p].name);
        for (int i = 0; i < LOADS; i += step)
            plot_point(series, loads[i] * peak_rps, at[p][i]->all.good_rps);
    }
    for (int i = 0; i < LOADS; i += step)
        report_row(c, "%.0f | %.0f | %.0f | %.0f | %.0f | %.0f", loads[i] * peak_rps, at[0][i]->all.good_rps,
                   at[1][i]->all.good_rps, at[2][i]->all.good_rps, at[3][i]->all.good_rps, at[4][i]->all.good_rps);
}

/* Returns the greatest difference of consolidate's idle share from the ideal. */
static double idle_report(struct context *c, const struct outcome *const at[COMPARED][LOADS], double peak_rps,
                          int step) {
    double furthest = 0;
    struct plot *plot = report_plot(c, "Utilization", "offered, requests/s", "share of the accelerators' time busy");
    report_table(
        c, "idle, %, when offered | ideal, (p-o)/p | deferred | deferred, consolidate | symphony | clockwork | nexus");
    for (int p = 0; p < COMPARED; p++) {
        struct series *series = plot_series(plot, PLOT_LINES, compared[p].name);
        for (int i = 0; i < LOADS; i += step)
            plot_point(series, loads[i] * peak_rps, at[p][i]->all.busy);
    }
    struct series *ideal = plot_series(plot, PLOT_DASHED, "ideal");
    for (int i = 0; i < LOADS; i += step) {
        double idle = loads[i] < 1 ? 1 - loads[i] : 0, off = fabs(1 - at[CONSOLIDATE][i]->all.busy - idle);
        plot_point(ideal, loads[i] * peak_rps, 1 - idle);
        furthest = loads[i] < 1 && off > furthest ? off : furthest;
        if (loads[i] <= 1)
            report_row(c, "%.0f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f", loads[i] * peak_rps, 100 * idle,
                       100 * (1 - at[0][i]->all.busy), 100 * (1 - at[1][i]->all.busy), 100 * (1 - at[2][i]->all.busy),
                       100 * (1 - at[3][i]->all.busy), 100 * (1 - at[4][i]->all.busy));
    }
    return furthest;
}

void figure10_run(struct context *c) {
    const struct outcome *at[COMPARED][LOADS];
    int step = figure_quick(c) ? 7 : 1;
    double peak_rps = runs_do(c, at, step);
    stability_report(c, at, peak_rps, step);
    double furthest = idle_report(c, at, peak_rps, step);
    for (int p = 0; p <= CONSOLIDATE; p++)
        report_check(c, at[p][LOADS - 1]->all.good_rps >= 0.99 * peak_rps,
                     "`%s` at twice the peak: at least 99 %% of the peak's %.0f requests/s are good (%.1f %%)",
                     compared[p].name, peak_rps, 100 * at[p][LOADS - 1]->all.good_rps / peak_rps);
    report_check(c, furthest <= 0.05,
                 "with `consolidate`, the idle share below the peak is within 0.05 of (p-o)/p (%.3f at most)",
                 furthest);
}
