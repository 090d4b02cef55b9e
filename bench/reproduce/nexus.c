/* nexus.c - figures of Nexus (Shen et al., SOSP 2019). */
#include <math.h>

#include "core/util/time.h"
#include "lab/planfile/squishy_file.h"
#include "nexus.h"
#include "plans.h"
#include "report.h"
#include "runner.h"

/* ---- plans of a file ---- */

struct planned {
    struct squishy_file input;
    struct squishy plan;
};

static struct planned planned_from(struct context *c, const char *path) {
    struct planned p;
    struct conf_node *document;
    struct sy_error err;
    if (conf_read_file(path, &document, &err) || squishy_file_read(document, false, &p.input, &err)) {
        fprintf(stderr, "reproduce: %s\n", err.text);
        exit(1);
    }
    p.plan = plan_for(p.input.sessions, p.input.count);
    report_text(c, "The plan: `build/release/symphony plan squishy %s`.", path);
    return p;
}

static void planned_free(struct planned *p) {
    plan_give(&p->plan);
    squishy_file_free(&p->input);
}

/* ---- figure 2 ---- */

enum { A, B, C, FIGURE2_SESSIONS };

/* Items per second of one GPU, if a session has many. */
static double saturated_rps(const struct squishy_session *session) {
    uint32_t batch = squishy_batch_full(session);
    return batch * 1e9 / (double)session->profile->latency_ns[batch];
}

static void figure2_rates(struct context *c, const struct planned *p) {
    static const double published[] = {160, 128, 128};
    struct plot *plot = report_plot(c, "high rates", "", "requests/s a GPU");
    struct series *theirs = plot_series(plot, PLOT_BARS, "published");
    struct series *ours = plot_series(plot, PLOT_BARS, "ours");
    bool same = true;
    report_table(c, "high rates | batch published | ours | requests/s a GPU published | ours");
    for (uint32_t s = 0; s < FIGURE2_SESSIONS; s++) {
        const struct squishy_session *session = &p->input.sessions[s];
        double rps = saturated_rps(session);
        report_row(c, "%s | 16 | %u | %.0f | %.0f", p->input.names[s], squishy_batch_full(session), published[s], rps);
        plot_label(plot, s, p->input.names[s]);
        plot_point(theirs, s, published[s]);
        plot_point(ours, s, rps);
        same &= fabs(rps - published[s]) < 0.1;
    }
    report_check(c, same, "at high rates GPUs do 160, 128 and 128 requests/s");
}

static void figure2_shared(struct context *c, const struct planned *p) {
    static const char *const published[] = {"8 in 125 ms", "4 in 125 ms, beside A", "not beside A and B"};
    const struct squishy_place *places = p->plan.places;
    report_table(c, "64, 32 and 32 requests/s | published | ours: GPU | batch | duty cycle, ms");
    for (uint32_t s = 0; s < FIGURE2_SESSIONS; s++)
        report_row(c, "%s | %s | %u | %u | %.2f", p->input.names[s], published[s], places[s].gpu, places[s].batch,
                   (double)p->plan.gpus[places[s].gpu].duty_ns / NS_PER_MS);
    report_check(c,
                 places[A].gpu == places[B].gpu && places[C].gpu != places[A].gpu && places[A].batch == 8 &&
                     places[B].batch == 4 && p->plan.gpus[places[A].gpu].duty_ns == 125 * NS_PER_MS,
                 "A and B share a GPU in batches of 8 and 4 every 125 ms, C has one of its own");
}

static void figure2_run(struct context *c) {
    struct planned p = planned_from(c, "scenarios/plans/nexus-table2.yaml");
    figure2_rates(c, &p);
    figure2_shared(c, &p);
    planned_free(&p);
}

/* ---- figure 4 ---- */

#define SPLITS 3
#define GAMMAS 3

/* Requests per second a GPU. The file's X gets 120,000 requests a second in batches twice as large as the paper's, so
 * all rates are twice the paper's. */
static double split_rps(const struct planned *p, int split, int gamma) {
    int x = 2 * (GAMMAS * split + gamma);
    return p->input.sessions[x].rate / 2 / (p->plan.places[x].saturated + p->plan.places[x + 1].saturated);
}

static void figure4_run(struct context *c) {
    static const char *const names[SPLITS] = {"40 + 60 ms", "50 + 50 ms", "60 + 40 ms"};
    static const char *const labels[SPLITS][GAMMAS] = {{"40+60 gamma 0.1", "40+60 gamma 1", "40+60 gamma 10"},
                                                       {"50+50 gamma 0.1", "50+50 gamma 1", "50+50 gamma 10"},
                                                       {"60+40 gamma 0.1", "60+40 gamma 1", "60+40 gamma 10"}};
    static const double published[SPLITS][GAMMAS] = {{192.3, 142.9, 40.0}, {235.3, 153.8, 34.5}, {272.7, 150.0, 27.3}};
    struct planned p = planned_from(c, "scenarios/plans/nexus-figure4.yaml");
    struct plot *plot = report_plot(c, "X + Y within 100 ms, by split and gamma", "", "requests/s a GPU");
    struct series *theirs = plot_series(plot, PLOT_BARS, "published"), *ours = plot_series(plot, PLOT_BARS, "ours");
    double off = 0;
    report_table(c, "requests/s a GPU | gamma 0.1 published | ours | gamma 1 published | ours | gamma 10 published | "
                    "ours");
    for (int split = 0; split < SPLITS; split++) {
        double rps[GAMMAS];
        for (int g = 0; g < GAMMAS; g++) {
            rps[g] = split_rps(&p, split, g);
            off = fmax(off, fabs(rps[g] - published[split][g]));
            plot_label(plot, GAMMAS * split + g, labels[split][g]);
            plot_point(theirs, GAMMAS * split + g, published[split][g]);
            plot_point(ours, GAMMAS * split + g, rps[g]);
        }
        report_row(c, "%s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f", names[split], published[split][0], rps[0],
                   published[split][1], rps[1], published[split][2], rps[2]);
    }
    report_check(c, off < 0.06, "all nine as published, to the last digit");
    planned_free(&p);
}

/* ---- figures 5 and 9 ---- */

#define FIGURE5_YAML "scenarios/nexus/figure5.yaml"
#define ALPHAS       5

static const struct {
    double alpha_ms, beta_ms;
} alphas[ALPHAS] = {{1.0, 25}, {1.2, 20}, {1.4, 15}, {1.6, 10}, {1.8, 5}};

static const struct drop_line {
    const char *arrivals, *drop;
} drop_lines[] = {{"uniform", "lazy"}, {"uniform", "early"}, {"poisson", "lazy"}, {"poisson", "early"}};

#define DROP_LINES           (sizeof(drop_lines) / sizeof(drop_lines[0]))
#define DROP_SETS            "models.0.alpha_ms=%.1f; models.0.beta_ms=%.0f; workload.arrivals=%s; policy.drop=%s"
#define DROP_VALUES(line, a) alphas[a].alpha_ms, alphas[a].beta_ms, drop_lines[line].arrivals, drop_lines[line].drop

static double batch_mean(const struct outcome *o) {
    return o->models[0].batches ? (double)o->models[0].batch_items / (double)o->models[0].batches : 0;
}

static struct series *drop_series(struct plot *plot, size_t line) {
    char name[64];
    snprintf(name, sizeof(name), "%s, %s", drop_lines[line].arrivals, drop_lines[line].drop);
    return plot_series(plot, PLOT_LINES, name);
}

static void figure5_row(struct context *c, struct plot *plot, size_t line, const struct outcome *const found[ALPHAS]) {
    struct series *series = drop_series(plot, line);
    char cells[ALPHAS][32];
    for (int a = 0; a < ALPHAS; a++) {
        snprintf(cells[a], sizeof(cells[a]), "%.1f %% (%.1f)", 100 * found[a]->worst_bad_rate, batch_mean(found[a]));
        plot_point(series, alphas[a].alpha_ms, 100 * found[a]->worst_bad_rate);
    }
    report_row(c, "%s | %s | %s | %s | %s | %s | %s", drop_lines[line].arrivals, drop_lines[line].drop, cells[0],
               cells[1], cells[2], cells[3], cells[4]);
}

static void figure5_run(struct context *c) {
    const struct outcome *found[DROP_LINES][ALPHAS];
    for (size_t line = 0; line < DROP_LINES; line++)
        for (int a = 0; a < ALPHAS; a++)
            found[line][a] = run_add(c, FIGURE5_YAML, DROP_SETS, DROP_VALUES(line, a));
    simulate(c);
    struct plot *plot = report_plot(c, "450 requests/s, 90 % of the optimum", "alpha, ms an item", "bad rate, %");
    report_table(c, "bad rate (mean batch): arrivals | drop | alpha 1.0 | 1.2 | 1.4 | 1.6 | 1.8");
    for (size_t line = 0; line < DROP_LINES; line++)
        figure5_row(c, plot, line, found[line]);
    report_check(c, found[0][0]->worst_bad_rate < 0.01 && found[2][0]->worst_bad_rate > 0.2,
                 "lazy dropping at alpha 1.0 loses more than 20 %% of Poisson arrivals, under 1 %% of uniform ones "
                 "(%.1f, %.1f %%)",
                 100 * found[2][0]->worst_bad_rate, 100 * found[0][0]->worst_bad_rate);
    report_check(c, found[3][0]->worst_bad_rate < 0.03, "early dropping loses under 3 %% there (%.1f %%)",
                 100 * found[3][0]->worst_bad_rate);
}

static void figure9_run(struct context *c) {
    enum { LAZY = 2, EARLY = 3 };
    const struct outcome *lazy[ALPHAS], *early[ALPHAS];
    for (int a = 0; a < ALPHAS; a++) {
        lazy[a] = goodput_add(c, FIGURE5_YAML, DROP_SETS, DROP_VALUES(LAZY, a));
        early[a] = goodput_add(c, FIGURE5_YAML, DROP_SETS, DROP_VALUES(EARLY, a));
    }
    simulate(c);
    struct plot *plot =
        report_plot(c, "SLO 100 ms, optimum 500 requests/s", "alpha, ms an item", "goodput, requests/s");
    struct series *lines[] = {drop_series(plot, LAZY), drop_series(plot, EARLY)};
    double best = 0;
    report_table(c, "alpha, ms | lazy drop, requests/s | early drop | early over lazy, published | ours");
    for (int a = 0; a < ALPHAS; a++) {
        double rps[] = {lazy[a]->all.goodput_rps, early[a]->all.goodput_rps};
        double ratio = rps[0] > 0 ? rps[1] / rps[0] : 0;
        report_row(c, "%.1f | %.0f | %.0f | up to 1.25 | %.2f", alphas[a].alpha_ms, rps[0], rps[1], ratio);
        best = fmax(best, ratio);
        plot_point(lines[0], alphas[a].alpha_ms, rps[0]);
        plot_point(lines[1], alphas[a].alpha_ms, rps[1]);
    }
    report_sentence(c, "9: early drop has up to 25 % more throughput than lazy drop", best > 1.225 && best < 1.275,
                    "%.0f %%", 100 * (best - 1));
    report_check(c, best > 1.15 && best < 1.35, "early drop is ahead by 15 to 35 %% at best, published 25 %% (%.0f %%)",
                 100 * (best - 1));
}

/* ---- figure 16 ---- */

/* SLOs of a and b that mix tight and loose ones, instead of in ascending order. */
#define INTERLEAVED                                                                                                    \
    "models.1.slo_ms=130; models.2.slo_ms=60; models.3.slo_ms=140; models.4.slo_ms=70; models.5.slo_ms=150; "          \
    "models.6.slo_ms=80; models.7.slo_ms=160; models.8.slo_ms=90; models.9.slo_ms=170; models.10.slo_ms=100; "         \
    "models.11.slo_ms=180; models.12.slo_ms=110; models.13.slo_ms=190; models.14.slo_ms=120; "

static const struct mix {
    const char *name, *label, *base, *sets;
} mixes[] = {
    {"a: Inception, SLOs of 50 to 200 ms, ascending", "a", "scenarios/nexus/figure16a.yaml", ""},
    {"a: interleaved, 50, 130, 60, ...", "a interleaved", "scenarios/nexus/figure16a.yaml", INTERLEAVED},
    {"b: ResNet, SLOs of 50 to 200 ms, ascending", "b", "scenarios/nexus/figure16b.yaml", ""},
    {"b: interleaved", "b interleaved", "scenarios/nexus/figure16b.yaml", INTERLEAVED},
    {"c: Inception, rates by Zipf 0.9", "c", "scenarios/nexus/figure16c.yaml", ""},
    {"d: ResNet, rates by Zipf 0.9", "d", "scenarios/nexus/figure16d.yaml", ""},
    {"e: 8 architectures, SLOs of 50 and 100 ms", "e", "scenarios/nexus/figure16e.yaml", ""},
};

#define MIXES (sizeof(mixes) / sizeof(mixes[0]))

/* The results of a mix: for uniform and Poisson arrivals, under the two plans. */
struct mix_found {
    const struct outcome *squishy[2], *oblivious[2];
};

static double gain(const struct mix_found *f, int arrivals) {
    double oblivious = f->oblivious[arrivals]->all.goodput_rps;
    return oblivious > 0 ? f->squishy[arrivals]->all.goodput_rps / oblivious : 0;
}

static void figure16_rows(struct context *c, const struct mix_found found[MIXES]) {
    struct plot *plot = report_plot(c, "16 sessions on 8 GPUs", "", "squishy over oblivious");
    struct series *uniform = plot_series(plot, PLOT_BARS, "uniform arrivals");
    struct series *poisson = plot_series(plot, PLOT_BARS, "Poisson arrivals");
    report_table(c, "goodput, requests/s | squishy | oblivious | ratio published | ours | Poisson: squishy | oblivious "
                    "| ratio");
    for (size_t m = 0; m < MIXES; m++) {
        const struct mix_found *f = &found[m];
        report_row(c, "%s | %.0f | %.0f | 1.11 to 1.64 | %.2f | %.0f | %.0f | %.2f", mixes[m].name,
                   f->squishy[0]->all.goodput_rps, f->oblivious[0]->all.goodput_rps, gain(f, 0),
                   f->squishy[1]->all.goodput_rps, f->oblivious[1]->all.goodput_rps, gain(f, 1));
        plot_label(plot, (double)m, mixes[m].label);
        plot_point(uniform, (double)m, gain(f, 0));
        plot_point(poisson, (double)m, gain(f, 1));
    }
}

static void figure16_run(struct context *c) {
    static const char *const arrivals[] = {"uniform", "poisson"};
    struct mix_found found[MIXES];
    for (size_t m = 0; m < MIXES; m++)
        for (int a = 0; a < 2; a++) {
            const char *sets = "%sworkload.arrivals=%s; policy.plan=%s";
            found[m].squishy[a] = goodput_add(c, mixes[m].base, sets, mixes[m].sets, arrivals[a], "squishy");
            found[m].oblivious[a] = goodput_add(c, mixes[m].base, sets, mixes[m].sets, arrivals[a], "oblivious");
        }
    simulate(c);
    figure16_rows(c, found);
    struct range gains = RANGE_NONE;
    for (size_t m = 0; m < MIXES; m++)
        range_take(&gains, gain(&found[m], 0));
    report_sentence(c, "16: squishy packing is ahead in all five, by 11 to 64 %", gains.least >= 1.11,
                    "%+.0f to %+.0f %%", 100 * (gains.least - 1), 100 * (gains.most - 1));
    report_sentence(c, "16: most of all where rates differ (c, d)",
                    fmax(gain(&found[4], 0), gain(&found[5], 0)) >= gains.most, "c %+.0f, d %+.0f, e %+.0f %%",
                    100 * (gain(&found[4], 0) - 1), 100 * (gain(&found[5], 0) - 1), 100 * (gain(&found[6], 0) - 1));
    report_check(c, gain(&found[4], 0) > 1.1 && gain(&found[5], 0) > 1.1 && gain(&found[6], 0) > 1.1,
                 "squishy packing is ahead by more than 10 %% where rates or models differ (c, d, e: %.2f, %.2f, %.2f)",
                 gain(&found[4], 0), gain(&found[5], 0), gain(&found[6], 0));
}

const struct figure nexus_figures[] = {
    {"nexus-fig2", "Figure 2 and table 2: who shares a GPU",
     "A, B and C with SLOs of 200, 250 and 250 ms. At high rates each has GPUs of its own. At 64, 32 and 32 "
     "requests/s A leaves room for 4 of B in its duty cycle of 125 ms, but not for 4 of C.",
     NULL, figure2_run},
    {"nexus-fig4", "Figures 3 and 4: throughput a GPU for three splits of 100 ms",
     "X, then Y gamma times, within 100 ms split in three ways. No split is the best for every gamma.",
     "By squishy packing, not by hand.", figure4_run},
    {"nexus-fig5", "Figure 5: lazy dropping at 90 % of the optimal throughput",
     "One GPU, SLO 100 ms; alpha varies, and beta so that the best batch under half the SLO gives 500 requests/s. "
     "Lazy dropping does poorly under Poisson arrivals where alpha is small. No numbers.",
     "Once behind, lazy dropping does not recover: its bad rate depends on the time simulated, 100 s.", figure5_run},
    {"nexus-fig9", "Figure 9: throughput of lazy and early drop", "The highest rate of figure 5's simulation.",
     "How long it simulated is not published.", figure9_run},
    {"nexus-fig10", "Figure 10: games, with fewer and fewer techniques",
     "20 games on 16 GPUs, SLO 50 ms, rates by Zipf 0.9: seven requests a frame, to LeNet and ResNet-50 specialized "
     "to the game. Each row leaves out one more technique.",
     "The GPU and LeNet's profile are not published (ours: scenarios/nexus/figure10.yaml).", nexus10_run},
    {"nexus-fig11", "Figures 11 and 12: traffic, with fewer and fewer techniques",
     "20 cameras on 16 GPUs, SLO 400 ms: SSD on each frame, then GoogleNet for cars and VGG-Face for faces.",
     "SSD's profile and the cars and faces of a frame are not published: here figure 17's SSD, 2 cars and 0.5 faces, "
     "in the rush hour 8 and 3.",
     nexus11_run},
    {"nexus-fig13", "Figure 13: a changing load",
     "1000 s on 100 K80: the load rises at 326 s, varies, and falls at 644 s; epochs of 30 s.",
     "Rates are only drawn; ours are in scenarios/nexus/figure13.yaml. An accelerator starts within 2 s, and advice is "
     "followed every 5 s.",
     nexus13_run},
    {"nexus-sec74", "Section 7.4: GPUs over the fewest",
     "All applications at once, uniform arrivals: 11.7 GPUs, under 1 % bad, where 9.8 would do with best batches back "
     "to back: 84 %.",
     "100 drawn sets of rates and SLOs for the 1080Ti zoo. Plans alone.", nexus74_run},
    {"nexus-fig15", "Figure 15: variants of a model that share their first layers",
     "Variants of ResNet50 that differ in the last layer, on one GPU: throughput up to 110 % higher with prefix "
     "batching, and memory that hardly grows with one layer of their own (1 FC).",
     "The SLO and the last layer's time are not published: here two SLOs, and 0.03 ms and 0.005 ms an item.",
     nexus15_run},
    {"nexus-fig16", "Figure 16: squishy packing against a batch-oblivious plan",
     "16 sessions on 8 GPUs in five mixes, uniform arrivals. Squishy packing is ahead in all.",
     "The oblivious plan's order of sessions is not published; in that of SLOs (a, b) a tight one has no slow "
     "neighbour. A squishy plan leaves no slack for Poisson arrivals.",
     figure16_run},
    {"nexus-fig17", "Figure 17: complex query analysis",
     "SSD, then Inception gamma times, on 8 GPUs, SLOs of 300 to 500 ms: the query analyzer against even parts of the "
     "SLO.",
     "By `symphony plan split`, not a run. SSD's profile is ours.", nexus17_run},
    {.id = NULL},
};
