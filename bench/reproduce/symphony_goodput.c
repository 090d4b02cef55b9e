/* symphony_goodput.c - Symphony, figures 6, 7, 11 (right) and 13: goodput of the systems in many settings. */
#include <math.h>
#include <stdio.h>

#include "symphony.h"

const struct contender contenders[CONTENDERS] = {
    {"deferred", "policy={name: deferred}"},
    {"symphony", "policy={name: symphony}"},
    {"clockwork", "policy={name: clockwork}"},
    {"nexus", "policy={name: nexus}"},
};

const struct contender compared[COMPARED] = {
    {"deferred", "policy={name: deferred}"}, {"deferred, consolidate", "policy={name: deferred, consolidate: true}"},
    {"symphony", "policy={name: symphony}"}, {"clockwork", "policy={name: clockwork}"},
    {"nexus", "policy={name: nexus}"},
};

static double rps(const struct outcome *outcome) {
    return outcome->all.goodput_rps;
}

/* ---- figure 6 ---- */

static const char zoo_yaml[] = "cluster: {accelerators: 64}\nmodels: {zoo: gtx1080ti, select: all}\n";
static const char zoo_a100_yaml[] = "cluster: {accelerators: 64}\nmodels: {zoo: a100, select: all}\n"
                                    "run: {seconds: 10, warmup_seconds: 3, seed: 1}\n";

#define SYSTEMS 6

static const struct contender systems[SYSTEMS] = {
    {"deferred", "policy={name: deferred}"},
    {"symphony", "policy={name: symphony}"},
    {"clockwork", "policy={name: clockwork}"},
    {"nexus, 1 frontend", "policy={name: nexus}"},
    {"nexus, 8 frontends", "policy={name: nexus, frontends: 8}"},
    {"clockwork, 0 ms ahead", "policy={name: clockwork, ahead_ms: 0}"},
};

static const struct zoo_cell {
    const char *name, *yaml, *select, *published;
    double least; /* of what is published, by its last digit */
} zoo_cells[] = {
    {"1080Ti all", zoo_yaml, "all", "2 to 2.4", 2},  {"1080Ti gt2", zoo_yaml, "gt2", "3.5", 3.45},
    {"1080Ti lt2", zoo_yaml, "lt2", "1.23", 1.225},  {"A100 all", zoo_a100_yaml, "all", "2 to 2.4", 2},
    {"A100 gt2", zoo_a100_yaml, "gt2", "5.7", 5.65}, {"A100 lt2", zoo_a100_yaml, "lt2", "1.10", 1.095},
};
#define ZOO_CELLS 6

void figure6_run(struct context *c) {
    const struct outcome *found[ZOO_CELLS][SYSTEMS];
    int cells = figure_quick(c) ? 3 : ZOO_CELLS; /* quick: the 1080Ti only */
    for (int i = 0; i < cells; i++)
        for (int s = 0; s < SYSTEMS; s++)
            found[i][s] =
                goodput_add(c, zoo_cells[i].yaml, "models.select=%s; %s", zoo_cells[i].select, systems[s].sets);
    simulate(c);
    report_table(c, "goodput, requests/s | deferred | symphony | clockwork | 0 ms ahead | nexus, 1 frontend | "
                    "nexus, 8 frontends | published: Symphony over the baselines | ours: deferred over clockwork | "
                    "over it with 0 ms | over nexus, 1 frontend");
    struct plot *plot = report_plot(c, "64 accelerators, equal rates", "", "goodput, requests/s");
    plot_logarithmic(plot, false, true);
    for (int s = 0; s < SYSTEMS; s++) {
        struct series *series = plot_series(plot, PLOT_BARS, systems[s].name);
        for (int i = 0; i < cells; i++)
            plot_point(series, i, rps(found[i][s]));
    }
    for (int i = 0; i < cells; i++) {
        const struct outcome *const *f = found[i];
        plot_label(plot, i, zoo_cells[i].name);
        report_row(c, "%s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %s | %.2f | %.2f | %.2f", zoo_cells[i].name,
                   rps(f[0]), rps(f[1]), rps(f[2]), rps(f[5]), rps(f[3]), rps(f[4]), zoo_cells[i].published,
                   rps(f[0]) / rps(f[2]), rps(f[0]) / rps(f[5]), rps(f[0]) / rps(f[3]));
    }
    struct range losses = RANGE_NONE;
    for (int i = 0; i < cells; i++) {
        const struct outcome *const *f = found[i];
        double clockwork = rps(f[0]) / fmax(rps(f[2]), rps(f[5])), nexus = rps(f[0]) / rps(f[3]);
        char sentence[96];
        snprintf(sentence, sizeof(sentence), "6: %s, Symphony has %s times the goodput of the baselines",
                 zoo_cells[i].name, zoo_cells[i].published);
        double near = clockwork < nexus ? clockwork : nexus;
        report_sentence(c, sentence, near >= zoo_cells[i].least, "%.2f of `clockwork`, %.2f of `nexus`", clockwork,
                        nexus);
        range_take(&losses, 1 - rps(f[4]) / rps(f[3]));
    }
    report_sentence(c, "6: eight frontends of Nexus lose \"11% to 45%\" of one's goodput",
                    losses.least >= 0.105 && losses.most <= 0.455, "%.0f to %.0f %%", 100 * losses.least,
                    100 * losses.most);
    report_check(c, rps(found[0][0]) >= 7550, "`deferred`, 1080Ti, all models: at least 7550 requests/s (%.0f)",
                 rps(found[0][0]));
}

/* ---- figure 7 ---- */

static const char variants_yaml[] = "cluster: {accelerators: 32, type: gtx1080ti}\n"
                                    "models:\n"
                                    "  - {name: ResNet50, alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 25, copies: 20}\n"
                                    "run: {seconds: 5, warmup_seconds: 2, seed: 1}\n";

static const struct variant {
    const char *name, *sets;
} variants[] = {
    {"equal, Poisson", "workload={popularity: equal, arrivals: poisson}"},
    {"Zipf 0.9, Poisson", "workload={popularity: {zipf: 0.9}, arrivals: poisson}"},
    {"equal, gamma 0.05", "workload={popularity: equal, arrivals: {gamma: 0.05}}"},
    {"Zipf 0.9, gamma 0.05", "workload={popularity: {zipf: 0.9}, arrivals: {gamma: 0.05}}"},
};
#define VARIANTS 4

/* The contenders, and Clockwork at its best setting where messages take no time. */
#define SEVENTH (CONTENDERS + 1)

static struct contender seventh(int p) {
    return p < CONTENDERS ? contenders[p]
                          : (struct contender){"clockwork, 0 ms ahead", "policy={name: clockwork, ahead_ms: 0}"};
}

void figure7_run(struct context *c) {
    static const int slos_ms[] = {15, 20, 30, 50, 100}, slos_quick_ms[] = {20, 50};
    const int *slo_ms = figure_quick(c) ? slos_quick_ms : slos_ms;
    int slos = figure_quick(c) ? 2 : 5;
    const struct outcome *found[VARIANTS][SEVENTH][5];
    for (int v = 0; v < VARIANTS; v++)
        for (int p = 0; p < SEVENTH; p++)
            for (int i = 0; i < slos; i++)
                found[v][p][i] = goodput_add(c, variants_yaml, "models.0.slo_ms=%d; %s; %s", slo_ms[i],
                                             variants[v].sets, seventh(p).sets);
    simulate(c);
    report_table(c, "goodput, requests/s | SLO, ms | deferred | symphony | clockwork | 0 ms ahead | nexus");
    for (int v = 0; v < VARIANTS; v++) {
        struct plot *plot = report_plot(c, variants[v].name, "SLO, ms", "goodput, requests/s");
        for (int p = 0; p < SEVENTH; p++) {
            struct series *series = plot_series(plot, PLOT_LINES, seventh(p).name);
            for (int i = 0; i < slos; i++)
                plot_point(series, slo_ms[i], rps(found[v][p][i]));
        }
        for (int i = 0; i < slos; i++)
            report_row(c, "%s | %d | %.0f | %.0f | %.0f | %.0f | %.0f", variants[v].name, slo_ms[i],
                       rps(found[v][0][i]), rps(found[v][1][i]), rps(found[v][2][i]), rps(found[v][4][i]),
                       rps(found[v][3][i]));
    }
    bool ahead = true;
    for (int v = 0; v < VARIANTS; v++)
        for (int i = 0; i < slos; i++)
            ahead &= rps(found[v][0][i]) >= 0.98 * rps(found[v][2][i]) &&
                     rps(found[v][0][i]) >= 0.98 * rps(found[v][4][i]) && rps(found[v][0][i]) >= rps(found[v][3][i]);
    struct range tight = RANGE_NONE, bursty = RANGE_NONE;
    for (int v = 0; v < VARIANTS; v++) {
        double clockwork = fmax(rps(found[v][2][0]), rps(found[v][4][0])), nexus = rps(found[v][3][0]);
        range_take(&tight, rps(found[v][0][0]) / (clockwork > nexus ? clockwork : nexus));
    }
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < slos; i++)
            range_take(&bursty, rps(found[v + 2][3][i]) / rps(found[v][3][i]));
    report_sentence(c, "7: \"significant benefits in the tight-SLO cases across all four setups\"", tight.least > 1.1,
                    "at %d ms %.2f to %.2f times the better of `clockwork` (either setting) and `nexus`", slo_ms[0],
                    tight.least, tight.most);
    report_sentence(c, "7: \"Nexus does not work well with bursty workloads\"", bursty.most < 0.9,
                    "it keeps %.2f to %.2f of its goodput under Poisson arrivals", bursty.least, bursty.most);
    report_check(c, ahead,
                 "`deferred` is nowhere behind `nexus`, and nowhere more than 2 %% behind `clockwork`, with either "
                 "setting");
}

/* ---- figure 11, right ---- */

static const char many_yaml[] = "cluster: {accelerators: 64, type: gtx1080ti}\n"
                                "models:\n"
                                "  - {name: ResNet50, alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 100, copies: 20}\n"
                                "run: {seconds: 3, warmup_seconds: 1, seed: 1}\n";

void figure11_run(struct context *c) {
    static const int sizes[] = {32, 64, 128, 256, 512};
    int count = figure_quick(c) ? 2 : 5;
    const struct outcome *found[5][2];
    for (int i = 0; i < count; i++)
        for (int p = 0; p < 2; p++)
            found[i][p] = goodput_add(c, many_yaml, "cluster.accelerators=%d; %s", sizes[i], contenders[p].sets);
    simulate(c);
    struct plot *plot = report_plot(c, "20 models, SLO 100 ms", "accelerators", "goodput, requests/s");
    struct series *series[2] = {plot_series(plot, PLOT_LINES, "deferred"), plot_series(plot, PLOT_LINES, "symphony")};
    report_table(
        c, "accelerators | published | deferred, requests/s | an accelerator | symphony, requests/s | an accelerator");
    struct range gpus = RANGE_NONE;
    for (int i = 0; i < count; i++) {
        double each[2];
        for (int p = 0; p < 2; p++) {
            each[p] = rps(found[i][p]) / sizes[i];
            plot_point(series[p], sizes[i], rps(found[i][p]));
        }
        range_take(&gpus, each[0]);
        report_row(c, "%d | in proportion | %.0f | %.0f | %.0f | %.0f", sizes[i], rps(found[i][0]), each[0],
                   rps(found[i][1]), each[1]);
    }
    report_sentence(c, "11: \"goodput increases linearly with the number of emulated GPUs\"",
                    gpus.least >= 0.9 * gpus.most, "%.0f to %.0f requests/s each", gpus.least, gpus.most);
    report_check(c, gpus.least >= 0.9 * gpus.most,
                 "goodput of an accelerator differs by less than 10 %% (%.0f to %.0f)", gpus.least, gpus.most);
}

/* ---- figure 13 ---- */

void figure13_run(struct context *c) {
    static const int slos_ms[] = {20, 25, 50, 100};
    static const int latencies_us[] = {0, 20, 40, 80, 1000, 2000, 4000, 8000};
    enum { SLOS = 4, LATENCIES = 8, RDMA = 4 };
    const struct outcome *found[SLOS][LATENCIES];
    int step = figure_quick(c) ? 2 : 1;
    for (int s = 0; s < SLOS; s++)
        for (int i = 0; i < LATENCIES; i += step)
            found[s][i] =
                goodput_add(c, variants_yaml, "models.0.slo_ms=%d; network.ctrl_us=%d", slos_ms[s], latencies_us[i]);
    simulate(c);
    struct plot *plots[2] = {
        report_plot(c, "In the range of RDMA", "latency of the network, us", "goodput, requests/s"),
        report_plot(c, "In the range of TCP", "latency of the network, us", "goodput, requests/s")};
    for (int s = 0; s < SLOS; s++) {
        char name[32];
        snprintf(name, sizeof(name), "SLO %d ms", slos_ms[s]);
        struct series *series[2] = {plot_series(plots[0], PLOT_LINES, name), plot_series(plots[1], PLOT_LINES, name)};
        for (int i = 0; i < LATENCIES; i += step)
            plot_point(series[i >= RDMA], latencies_us[i], rps(found[s][i]));
    }
    report_table(c, "goodput, requests/s, at a latency of | SLO 20 ms | 25 ms | 50 ms | 100 ms");
    for (int i = 0; i < LATENCIES; i += step)
        report_row(c, "%d us | %.0f | %.0f | %.0f | %.0f", latencies_us[i], rps(found[0][i]), rps(found[1][i]),
                   rps(found[2][i]), rps(found[3][i]));
    double tight = rps(found[0][6]) / rps(found[0][0]), loose = rps(found[3][6]) / rps(found[3][0]);
    double near = rps(found[0][2]) / rps(found[0][0]);
    double rdma = 1;
    for (int s = 0; s < SLOS; s++)
        for (int i = 0; i < RDMA; i += step)
            rdma = rps(found[s][i]) / rps(found[s][0]) < rdma ? rps(found[s][i]) / rps(found[s][0]) : rdma;
    report_sentence(c, "13: latency in the range of RDMA \"only marginally reduces goodput\"", rdma > 0.95,
                    "by %.1f %% at most", 100 * (1 - rdma));
    report_sentence(c, "13: the tighter the SLO, the more it costs", tight < loose,
                    "4 ms: %.0f %% at 20 ms, %.0f %% at 100 ms", 100 * (1 - tight), 100 * (1 - loose));
    report_check(c, near > 0.95, "40 us cost under 5 %% at any SLO (20 ms: %.1f %%)", 100 * (1 - near));
    report_check(c, tight < loose, "4 ms cost more at tight SLOs (20 ms: %.0f %%, 100 ms: %.0f %%)", 100 * (1 - tight),
                 100 * (1 - loose));
}
