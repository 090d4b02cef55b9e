/* symphony_load.c - Symphony, figures 5 and 10: goodput above the peak, and idle accelerators below it. */
#include <math.h>

#include "symphony.h"

static const char ten_yaml[] = "cluster: {accelerators: 24, type: gtx1080ti}\n"
                               "models:\n"
                               "  - {name: ResNet50, alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 100, copies: 10}\n"
                               "run: {seconds: 10, warmup_seconds: 3, seed: 1}\n";

#define CONSOLIDATE 1 /* in compared[] */

static const double loads[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6, 1.8, 2};
#define LOADS 15
#define HALF  4 /* in loads[] */

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
    static const char *const said[] = {"10: Symphony's goodput is flat above its peak", NULL, NULL,
                                       "10: Clockwork's falls above its peak", "10: Nexus's is flat above its peak"};
    for (int p = CONSOLIDATE; p < COMPARED; p++) {
        double most = 0, end = at[p][LOADS - 1]->all.good_rps;
        for (int i = 0; i < LOADS; i += step)
            most = fmax(most, at[p][i]->all.good_rps);
        const char *sentence = said[p == CONSOLIDATE ? 0 : p];
        if (sentence)
            report_sentence(c, sentence, p == 3 ? end < 0.9 * most : end > 0.9 * most,
                            "at twice the peak %.0f %% of its most", 100 * end / most);
    }
    int half = step == 1 ? HALF : 0;
    report_sentence(c, "10: Clockwork and Nexus are fully busy before their peak",
                    at[3][half]->all.busy > 0.98 && at[4][half]->all.busy > 0.98,
                    "at half the peak %.1f and %.1f %% busy", 100 * at[3][half]->all.busy, 100 * at[4][half]->all.busy);
    report_sentence(c, "10: Symphony is fully busy near its peak only", furthest <= 0.05,
                    "`consolidate`: within %.3f of the load's share", furthest);
    for (int p = 0; p <= CONSOLIDATE; p++)
        report_check(c, at[p][LOADS - 1]->all.good_rps >= 0.99 * peak_rps,
                     "`%s` at twice the peak: at least 99 %% of the peak's %.0f requests/s are good (%.1f %%)",
                     compared[p].name, peak_rps, 100 * at[p][LOADS - 1]->all.good_rps / peak_rps);
    report_check(c, furthest <= 0.05,
                 "with `consolidate`, the idle share below the peak is within 0.05 of (p-o)/p (%.3f at most)",
                 furthest);
}

/* ---- figure 5 ---- */

static const char mixed_yaml[] = "cluster: {accelerators: 64}\nmodels: {zoo: gtx1080ti, select: all}\n"
                                 "run: {seconds: 10, warmup_seconds: 3, seed: 1}\n";

#define SHAPES 3
static const struct contender shapes[SHAPES] = {
    {"deferred, consolidate", "policy={name: deferred, consolidate: true}"},
    {"eager", "policy={name: eager}"},
    {"clockwork", "policy={name: clockwork}"},
};

/* How far a share is from the ideal of a cluster whose peak is 1: of bad requests over it, of idle time under it. */
static double ideal_bad(double load) {
    return load > 1 ? (load - 1) / load : 0;
}

static double ideal_idle(double load) {
    return load < 1 ? 1 - load : 0;
}

void figure5_run(struct context *c) {
    const struct outcome *peaks[SHAPES], *at[SHAPES][LOADS];
    int step = figure_quick(c) ? 7 : 1;
    double bad_off = 0, idle_off = 0;
    for (int p = 0; p < SHAPES; p++)
        peaks[p] = goodput_add(c, mixed_yaml, "%s", shapes[p].sets);
    simulate(c);
    for (int p = 0; p < SHAPES; p++)
        for (int i = 0; i < LOADS; i += step)
            at[p][i] = run_add(c, mixed_yaml, "workload.rate_rps=%.0f; %s", loads[i] * peaks[p]->all.goodput_rps,
                               shapes[p].sets);
    simulate(c);
    struct plot *bad = report_plot(c, "Over the peak p", "offered o over p", "bad rate"),
                *idle = report_plot(c, "Under the peak p", "offered o over p", "share of idle time");
    struct series *bad_series = plot_series(bad, PLOT_DASHED, "(o-p)/o"),
                  *idle_series = plot_series(idle, PLOT_DASHED, "(p-o)/p");
    report_table(c, "offered over the policy's own peak | bad, %: ideal | deferred, consolidate | eager | clockwork | "
                    "idle, %: ideal | deferred, consolidate | eager | clockwork");
    for (int i = 0; i < LOADS; i += step) {
        plot_point(bad_series, loads[i], ideal_bad(loads[i]));
        plot_point(idle_series, loads[i], ideal_idle(loads[i]));
        bad_off = fmax(bad_off, at[0][i]->all.bad_rate - ideal_bad(loads[i]));
        idle_off = fmax(idle_off, fabs(1 - at[0][i]->all.busy - ideal_idle(loads[i])));
        report_row(c, "%g | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f", loads[i],
                   100 * ideal_bad(loads[i]), 100 * at[0][i]->all.bad_rate, 100 * at[1][i]->all.bad_rate,
                   100 * at[2][i]->all.bad_rate, 100 * ideal_idle(loads[i]), 100 * (1 - at[0][i]->all.busy),
                   100 * (1 - at[1][i]->all.busy), 100 * (1 - at[2][i]->all.busy));
    }
    for (int p = 0; p < SHAPES; p++) {
        bad_series = plot_series(bad, PLOT_LINES, shapes[p].name);
        idle_series = plot_series(idle, PLOT_LINES, shapes[p].name);
        for (int i = 0; i < LOADS; i += step) {
            plot_point(bad_series, loads[i], at[p][i]->all.bad_rate);
            plot_point(idle_series, loads[i], 1 - at[p][i]->all.busy);
        }
    }
    const struct outcome *const half[SHAPES] = {at[0][step == 1 ? HALF : 0], at[1][step == 1 ? HALF : 0],
                                                at[2][step == 1 ? HALF : 0]};
    report_table(c, "at half the peak | deferred, consolidate | eager | clockwork");
    report_row(c, "of 64 accelerators never used | %u | %u | %u", 64 - half[0]->accelerators_used,
               64 - half[1]->accelerators_used, 64 - half[2]->accelerators_used);
    report_check(c, half[0]->accelerators_used <= 0.8 * 64,
                 "with `consolidate` at least a fifth of the accelerators is never used at half the peak");
    report_text(c, "Peaks: %.0f, %.0f and %.0f requests/s.", peaks[0]->all.goodput_rps, peaks[1]->all.goodput_rps,
                peaks[2]->all.goodput_rps);
    report_check(c, bad_off <= 0.03, "`deferred` with `consolidate`: no bad rate is more than 0.03 over the ideal (%.3f)",
                 bad_off);
    report_check(c, idle_off <= 0.1, "and its idle share is within 0.1 of the ideal (%.3f at most)", idle_off);
}
