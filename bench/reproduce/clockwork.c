/* clockwork.c - figures of Clockwork (OSDI 2020), from its scenarios in scenarios/. */
#include <string.h>

#include "clockwork.h"
#include "core/util/time.h"
#include "report.h"
#include "runner.h"

#define POINTS_MAX 12

/* Points of a sweep; --quick takes those that are marked. */
struct point {
    double value;
    bool quick;
};

static uint32_t points_take(const struct context *c, const struct point *from, uint32_t count, double *to) {
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!figure_quick(c) || from[i].quick)
            to[taken++] = from[i].value;
    return taken;
}

/* Totals of the models whose names begin alike. */
struct group {
    uint64_t offered, good, cold, batch_items, loads; /* loads onto an accelerator; the others requests */
};

static struct group group_of(const struct outcome *outcome, const char *prefix) {
    struct group group = {0};
    for (uint32_t m = 0; m < outcome->model_count; m++) {
        const struct model_outcome *model = &outcome->models[m];
        if (strncmp(model->name, prefix, strlen(prefix)) != 0)
            continue;
        group.offered += model->offered;
        group.good += model->good;
        group.cold += model->cold;
        group.batch_items += model->batch_items;
        group.loads += model->loads;
    }
    return group;
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

/* A share of requests in percent; 100 only if it is all of them. */
static double percent(uint64_t part, uint64_t whole) {
    double value = 100 * share(part, whole);
    return part < whole && value > 99.99 ? 99.99 : value;
}

static double latest_ms(const struct outcome *outcome) {
    return (double)outcome->latency.max_ns / NS_PER_MS;
}

/* ---- figure 5: goodput as the SLO gets tighter ---- */

static const char figure5_yaml[] = "scenarios/clockwork-fig5.yaml";
static const struct point figure5_slos[] = {{10, true},  {25, false},  {50, false}, {75, false},
                                            {100, true}, {250, false}, {500, true}};

static void figure5_plot(struct context *c, const double *slos, uint32_t count, const struct outcome *const *loaded,
                         const struct outcome *const *even) {
    struct plot *goodput = report_plot(c, "goodput", "SLO, ms", "requests/s in time");
    plot_logarithmic(goodput, true, false);
    plot_point(plot_series(goodput, PLOT_POINTS, "published, at 500 ms"), 500, 800);
    struct series *most = plot_series(goodput, PLOT_LINES, "1500 requests/s offered");
    struct series *same = plot_series(goodput, PLOT_LINES, "800 requests/s offered");
    struct plot *times = report_plot(c, "latency, 1500 requests/s offered", "latency, ms", "share of the answers");
    plot_logarithmic(times, true, false);
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        plot_point(most, slos[i], loaded[i]->all.good_rps);
        plot_point(same, slos[i], even[i]->all.good_rps);
        snprintf(name, sizeof(name), "SLO %g ms", slos[i]);
        struct series *curve = plot_series(times, PLOT_CURVE, name);
        for (int q = 1; q <= 100; q++)
            plot_point(curve, (double)sim_times_quantile_ns(&loaded[i]->latency, q / 100.0) / NS_PER_MS, q / 100.0);
    }
}

static void figure5_run(struct context *c) {
    double slos[POINTS_MAX];
    const struct outcome *loaded[POINTS_MAX], *even[POINTS_MAX];
    uint32_t count = points_take(c, figure5_slos, sizeof(figure5_slos) / sizeof(figure5_slos[0]), slos);
    for (uint32_t i = 0; i < count; i++) {
        loaded[i] = run_add(c, figure5_yaml, "models.slo_ms=%g", slos[i]);
        even[i] = run_add(c, figure5_yaml, "models.slo_ms=%g; workload.rate_rps=800", slos[i]);
    }
    simulate(c);
    report_table(
        c, "SLO, ms | published goodput, requests/s | ours, 1500 offered | 99 % answered within, ms | latest, ms | "
           "batch | ours, 800 offered");
    bool in_time = true;
    for (uint32_t i = 0; i < count; i++) {
        const struct outcome *o = loaded[i];
        report_row(c, "%g | %s | %.0f | %.1f | %.1f | %.1f | %.0f", slos[i],
                   slos[i] == 500  ? "about 800"
                   : slos[i] < 100 ? "serves on; the others have collapsed"
                                   : "-",
                   o->all.good_rps, o->all.latency_p99_ms, latest_ms(o), o->all.batch_mean, even[i]->all.good_rps);
        in_time &= o->late == 0 && latest_ms(o) <= slos[i];
    }
    double widest = loaded[count - 1]->all.good_rps, same = even[count - 1]->all.good_rps;
    double tightest = loaded[0]->all.good_rps;
    report_sentence_kept(c, "5: about 800 requests/s with an SLO of 500 ms", widest >= 720 && same >= 720,
                         "%.0f; %.0f of 800 that come evenly", widest, same);
    report_sentence_kept(c, "5: it serves on below 100 ms, down to 10", tightest >= 300, "%.0f requests/s at %g ms",
                         tightest, slos[0]);
    report_sentence_kept(c, "5: its tail latency stays within the SLO", in_time, "%s",
                         in_time ? "no answer is late" : "some are late");
    figure5_plot(c, slos, count, loaded, even);
}

/* ---- figure 6: thousands of models on one accelerator ---- */

static const char figure6_yaml[] = "scenarios/clockwork-fig6.yaml";
#define FIGURE6_LOAD_MS 8.33
static const struct point figure6_copies[] = {{1, true},     {60, false},   {200, true},  {300, false},
                                              {400, false},  {800, false},  {1200, true}, {1800, false},
                                              {2400, false}, {3000, false}, {3600, true}};

struct figure6 {
    double copies[POINTS_MAX];
    const struct outcome *outcomes[POINTS_MAX];
    struct group major[POINTS_MAX], minor[POINTS_MAX];
    uint32_t count;
};

static const struct model_outcome *minor_of(const struct outcome *o) {
    return &o->models[o->model_count - 1];
}

/* The share of the time in which the accelerator loads. A load under way at either end counts entirely or not at all.
 */
static double loading(const struct outcome *o) {
    double busy = (double)o->loads * FIGURE6_LOAD_MS / 1000 / o->seconds;
    return busy < 1 ? busy : 1;
}

/* At least so many cold requests were served: so many if all other requests were. */
static uint64_t served_cold(const struct group *group) {
    uint64_t warm = group->offered - group->cold;
    return group->good > warm ? group->good - warm : 0;
}

static void figure6_rows(struct context *c, const struct figure6 *f) {
    report_table(
        c, "copies (the paper's minute) | major, requests/s | minor, requests/s | major's cold starts | loading | "
           "running | minor's latency, median and 99 %, ms | latest answer, ms");
    for (uint32_t i = 0; i < f->count; i++) {
        const struct outcome *o = f->outcomes[i];
        report_row(c, "%g (%.3g) | %.0f | %.0f of %.0f | %.0f %% | %.0f %% | %.0f %% | %.0f, %.0f | %.1f", f->copies[i],
                   f->copies[i] > 1 ? f->copies[i] / 60 : 0, (double)f->major[i].good / o->seconds,
                   (double)f->minor[i].good / o->seconds, (double)f->minor[i].offered / o->seconds,
                   percent(f->major[i].cold, f->major[i].offered), 100 * loading(o), 100 * o->all.busy,
                   minor_of(o)->latency_p50_ms, minor_of(o)->latency_p99_ms, latest_ms(o));
    }
}

static void figure6_checks(struct context *c, const struct figure6 *f) {
    uint32_t end = f->count - 1;
    uint64_t minor_cold = 0;
    double latest = 0, loading_full = 1;
    for (uint32_t i = 0; i < f->count; i++) {
        minor_cold += f->minor[i].cold;
        if (latest_ms(f->outcomes[i]) > latest)
            latest = latest_ms(f->outcomes[i]);
        if (f->copies[i] >= 300 && loading(f->outcomes[i]) < loading_full)
            loading_full = loading(f->outcomes[i]);
    }
    report_sentence_kept(c, "6: the first model of the major workload saturates the GPU",
                         f->outcomes[0]->all.busy >= 0.99, "%.0f %% busy", 100 * f->outcomes[0]->all.busy);
    report_sentence_kept(c, "6: beyond 201 models loading reaches its limit", loading_full >= 0.95,
                         "from 300 copies on at least %.0f %% of the link", 100 * loading_full);
    report_sentence_kept(c, "6: in the end 70 % of the major requests are cold starts",
                         share(served_cold(&f->major[end]), f->major[end].good) >= 0.63, "at least %.0f %%",
                         percent(served_cold(&f->major[end]), f->major[end].good));
    report_sentence_kept(c, "6: the minor workload is served whole again",
                         share(f->minor[end].good, f->minor[end].offered) >= 0.99, "%.2f %%",
                         percent(f->minor[end].good, f->minor[end].offered));
    report_sentence_kept(c, "6: it meets no cold start", minor_cold == 0, "%llu", (unsigned long long)minor_cold);
    report_sentence_kept(c, "6: nothing takes over 100 ms", latest <= 100, "%.1f ms at most", latest);
}

static void figure6_plot(struct context *c, const struct figure6 *f) {
    struct plot *goodput = report_plot(c, "(a) goodput", "copies active", "requests/s");
    struct series *major = plot_series(goodput, PLOT_LINES, "major");
    struct series *minor = plot_series(goodput, PLOT_LINES, "minor");
    struct plot *latency = report_plot(c, "(b) latency", "copies active", "ms");
    struct series *latest = plot_series(latency, PLOT_LINES, "latest of all");
    struct series *p99 = plot_series(latency, PLOT_LINES, "minor, 99 %");
    struct series *p50 = plot_series(latency, PLOT_LINES, "minor, median");
    struct series *mean = plot_series(latency, PLOT_DASHED, "minor, mean, published");
    plot_point(mean, 1200, 20);
    plot_point(mean, 3600, 20);
    struct plot *cold = report_plot(c, "(c) cold starts", "copies active", "% of the major requests");
    struct series *starts = plot_series(cold, PLOT_LINES, "of what comes");
    struct series *served = plot_series(cold, PLOT_LINES, "of what is served, at least");
    plot_point(plot_series(cold, PLOT_POINTS, "published, at the end"), 3600, 70);
    struct plot *use = report_plot(c, "(d), (e) utilization", "copies active", "% of the time");
    struct series *loads = plot_series(use, PLOT_LINES, "loading (PCIe)");
    struct series *runs = plot_series(use, PLOT_LINES, "running (GPU)");
    for (uint32_t i = 0; i < f->count; i++) {
        const struct outcome *o = f->outcomes[i];
        double x = f->copies[i];
        plot_point(major, x, (double)f->major[i].good / o->seconds);
        plot_point(minor, x, (double)f->minor[i].good / o->seconds);
        plot_point(latest, x, latest_ms(o));
        plot_point(p99, x, minor_of(o)->latency_p99_ms);
        plot_point(p50, x, minor_of(o)->latency_p50_ms);
        plot_point(starts, x, percent(f->major[i].cold, f->major[i].offered));
        plot_point(served, x, percent(served_cold(&f->major[i]), f->major[i].good));
        plot_point(loads, x, 100 * loading(o));
        plot_point(runs, x, 100 * o->all.busy);
    }
}

static void figure6_run(struct context *c) {
    struct figure6 f;
    f.count = points_take(c, figure6_copies, sizeof(figure6_copies) / sizeof(figure6_copies[0]), f.copies);
    for (uint32_t i = 0; i < f.count; i++)
        f.outcomes[i] = run_add(c, figure6_yaml, "models.0.copies=%g", f.copies[i]);
    simulate(c);
    for (uint32_t i = 0; i < f.count; i++) {
        f.major[i] = group_of(f.outcomes[i], "resnet50");
        f.minor[i] = group_of(f.outcomes[i], "minor");
    }
    figure6_rows(c, &f);
    report_table(c, "| published | ours");
    report_row(c, "memory is full | at 201 copies | at 201, by the memory given");
    const struct group *major = &f.major[f.count - 1];
    report_row(c,
               "cold starts of the major workload in the end | 70 %% | of what comes %.0f %%, of what is served at "
               "least %.0f %%",
               percent(major->cold, major->offered), percent(served_cold(major), major->good));
    report_row(c, "loads in the end, for 100 served | - | %.0f", percent(major->loads, major->good));
    report_row(c, "minor workload's latency in the end | 20 ms on average | %.0f ms, median",
               minor_of(f.outcomes[f.count - 1])->latency_p50_ms);
    figure6_checks(c, &f);
    figure6_plot(c, &f);
}

/* ---- figure 7: how low SLOs can be ---- */

static const char figure7_yaml[] = "scenarios/clockwork-fig7.yaml";
static const struct point slos_by_half[] = {{2.9, true}, {4.4, false}, {6.5, false}, {9.8, true}, {14.7, false},
                                            {22, true},  {33, false},  {50, false},  {74, true}};
#define SLOS_BY_HALF (sizeof(slos_by_half) / sizeof(slos_by_half[0]))

static const struct figure7_load {
    double rate_rps, published_ms; /* from this SLO on the paper serves all requests */
} figure7_loads[] = {{600, 10}, {1200, 22}, {2400, 74}};
static const int figure7_models[] = {12, 48};

/* Reports the shares in time of one load, for all SLOs. */
static void figure7_row(struct context *c, const double *slos, uint32_t count, const struct outcome *const *outcomes,
                        int models, const struct figure7_load *load, struct series *series) {
    char row[512];
    int length = snprintf(row, sizeof(row), "%d, %g | from %g ms", models, load->rate_rps, load->published_ms);
    double least = 1;
    for (uint32_t i = 0; i < count; i++) {
        double in_time = share(outcomes[i]->good, outcomes[i]->offered);
        length += snprintf(row + length, sizeof(row) - (size_t)length, " | %.2f",
                           percent(outcomes[i]->good, outcomes[i]->offered));
        plot_point(series, slos[i], in_time);
        if (slos[i] >= 0.98 * load->published_ms && in_time < least)
            least = in_time;
    }
    report_row(c, "%s", row);
    char sentence[96];
    snprintf(sentence, sizeof(sentence), "7: %d models, %g requests/s: all is in time from %g ms on", models,
             load->rate_rps, load->published_ms);
    report_sentence_kept(c, sentence, least >= 0.999, "%.2f %% at least", 100 * least);
}

static void figure7_run(struct context *c) {
    double slos[POINTS_MAX];
    const struct outcome *outcomes[2][3][POINTS_MAX];
    uint32_t count = points_take(c, slos_by_half, SLOS_BY_HALF, slos);
    for (int m = 0; m < 2; m++)
        for (int l = 0; l < 3; l++)
            for (uint32_t i = 0; i < count; i++)
                outcomes[m][l][i] = run_add(c, figure7_yaml, "models.copies=%d; workload.rate_rps=%g; models.slo_ms=%g",
                                            figure7_models[m], figure7_loads[l].rate_rps, slos[i]);
    simulate(c);
    char head[512];
    int length =
        snprintf(head, sizeof(head), "models, requests/s | published: all in time | ours, %%, at %g ms", slos[0]);
    for (uint32_t i = 1; i < count; i++)
        length += snprintf(head + length, sizeof(head) - (size_t)length, " | %g", slos[i]);
    report_table(c, head);
    for (int m = 0; m < 2; m++) {
        char title[32];
        snprintf(title, sizeof(title), "%d models", figure7_models[m]);
        struct plot *plot = report_plot(c, title, "SLO, ms", "share of the requests in time");
        plot_logarithmic(plot, true, false);
        for (int l = 0; l < 3; l++) {
            char name[32];
            snprintf(name, sizeof(name), "%g requests/s", figure7_loads[l].rate_rps);
            figure7_row(c, slos, count, outcomes[m][l], figure7_models[m], &figure7_loads[l],
                        plot_series(plot, PLOT_LINES, name));
        }
        struct series *published = plot_series(plot, PLOT_POINTS, "published: all from there on");
        for (int l = 0; l < 3; l++)
            plot_point(published, figure7_loads[l].published_ms, 1);
    }
}

/* ---- figure 8: isolation ---- */

static const char figure8_yaml[] = "scenarios/clockwork-fig8.yaml";

/* The paper's closed loops of 4 requests never have a larger batch to run. Here a batch of 5 is made to take longer
 * than the SLO. */
#define SMALL_BATCHES                                                                                                  \
    "models.1={name: batch, copies: 48, latency_ms: {1: 2.61, 2: 3.78, 4: 5.61, 5: 70000}, slo_ms: 60000}"

static const struct figure8_case {
    const char *name, *sets;
} figure8_cases[] = {
    {"alone", "workload.rate_rps=1200; workload.popularity.shares.batch=0"},
    {"beside 12 with batches of 16", ""},
    {"beside 48 with batches of 4", SMALL_BATCHES},
    {"beside 12, given work only when free", "policy.ahead_ms=0"},
};
enum { ALONE, BIG, SMALL, BIG_FREE, FIGURE8_CASES };

static void figure8_plot(struct context *c, const double *slos, uint32_t count,
                         const struct outcome *const outcomes[FIGURE8_CASES][POINTS_MAX]) {
    struct plot *in_time = report_plot(c, "clients with an SLO", "SLO, ms", "share of their requests in time");
    struct plot *batch = report_plot(c, "clients without", "SLO of the others, ms", "requests/s");
    plot_logarithmic(in_time, true, false);
    plot_logarithmic(batch, true, false);
    for (int k = 0; k < FIGURE8_CASES; k++) {
        struct series *six = plot_series(in_time, PLOT_LINES, figure8_cases[k].name);
        struct series *rest = k == ALONE ? NULL : plot_series(batch, PLOT_LINES, figure8_cases[k].name);
        for (uint32_t i = 0; i < count; i++) {
            struct group sensitive = group_of(outcomes[k][i], "sensitive");
            plot_point(six, slos[i], share(sensitive.good, sensitive.offered));
            if (rest)
                plot_point(rest, slos[i],
                           (double)group_of(outcomes[k][i], "batch").batch_items / outcomes[k][i]->seconds);
        }
    }
}

static void figure8_run(struct context *c) {
    double slos[POINTS_MAX];
    const struct outcome *outcomes[FIGURE8_CASES][POINTS_MAX];
    uint32_t count = points_take(c, slos_by_half, SLOS_BY_HALF, slos);
    for (int k = 0; k < FIGURE8_CASES; k++)
        for (uint32_t i = 0; i < count; i++)
            outcomes[k][i] = run_add(c, figure8_yaml, "models.0.slo_ms=%g; %s", slos[i], figure8_cases[k].sets);
    simulate(c);
    report_table(
        c, "SLO, ms | published | alone | beside 12 with batches of 16 | beside 48 with batches of 4 | beside 12, "
           "`ahead_ms=0` | the 12, requests/s | the 48 | the 12, `ahead_ms=0`");
    double apart = 0, left = 1e9, passing = 0;
    for (uint32_t i = 0; i < count; i++) {
        double in_time[FIGURE8_CASES], rest[FIGURE8_CASES];
        for (int k = 0; k < FIGURE8_CASES; k++) {
            struct group sensitive = group_of(outcomes[k][i], "sensitive");
            in_time[k] = percent(sensitive.good, sensitive.offered);
            rest[k] = (double)group_of(outcomes[k][i], "batch").batch_items / outcomes[k][i]->seconds;
        }
        report_row(c, "%g | %s | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %.0f | %.0f | %.0f", slos[i],
                   slos[i] < 15 ? "many rejected, batches pass" : "as alone", in_time[ALONE], in_time[BIG],
                   in_time[SMALL], in_time[BIG_FREE], rest[BIG], rest[SMALL], rest[BIG_FREE]);
        if (slos[i] < 15) {
            passing = rest[BIG] > passing ? rest[BIG] : passing;
            continue;
        }
        for (int k = BIG; k <= SMALL; k++) {
            apart = in_time[ALONE] - in_time[k] > apart ? in_time[ALONE] - in_time[k] : apart;
            left = rest[k] < left ? rest[k] : left;
        }
    }
    report_sentence_kept(c, "8: from 15 ms on the six are served as if alone", apart <= 0.5,
                         "the others cost them %.2f %% of their requests", apart);
    report_sentence_kept(c, "8: the others get what is left", left > 500, "at least %.0f requests/s", left);
    report_sentence_kept(c, "8: under 15 ms batches pass", passing > left, "up to %.0f requests/s", passing);
    figure8_plot(c, slos, count, outcomes);
}

const struct figure clockwork_figures[] = {
    {"clockwork-fig5", "Figure 5: goodput as SLOs tighten",
     "15 copies of ResNet50 on one V100, 16 closed loops each (section 6.1). Latency is about 300 ms with an SLO of "
     "500.",
     "An open loop of 1.5 times the capacity, so answers take all of the SLO.", figure5_run},
    {"clockwork-fig6", "Figure 6: thousands of models on one accelerator",
     "3600 copies of ResNet50 share 1000 requests/s (major), one more activated each second; another copy has 200 "
     "requests/s (minor). SLO 100 ms, memory for 201 (section 6.2).",
     "Each row is a steady state. The published 70 % are probably of the requests served: a cache of 201 of 3600 "
     "equally popular models saves at most 6 % of those that come. 22 GiB hold 201 models (the paper: 32 GB).",
     figure6_run},
    {"clockwork-fig7", "Figure 7: how low SLOs can be",
     "12 or 48 copies of ResNet50 on six V100, Poisson; the SLO grows from 2.9 ms by half every 30 s (section 6.3).",
     "Network and copies of inputs are not modelled.", figure7_run},
    {"clockwork-fig8", "Figure 8: isolation",
     "Six V100; six clients with an SLO and 200 requests/s each, alone, beside 12 in closed loops of 16 without an "
     "SLO, or beside 48 in loops of 4 (section 6.4).",
     "Instead of closed loops more is offered than there is room for, due a minute later. `ahead_ms=0` shows what 5 ms "
     "of work ahead cost.",
     figure8_run},
    {"clockwork-fig9", "Figure 9: thousands of models, recorded calls",
     "12 workers, 4026 models, six hours of the Azure Functions trace, SLO 100 ms (section 6.5).",
     "The trace is made up in that form (scenarios/clockwork-azure.csv); 671 copies of each of the six models whose "
     "times are published, of which memory holds 68 %. Sentences are of 4500 requests/s, where all are just busy.",
     clockwork9_run},
    {"clockwork-fig11", "Figure 11: many workers",
     "Figure 9's models, the load raised until all emulated workers are busy; from 110 on the controller is the limit "
     "(section 6.6).",
     "Here the controller takes no time ([measured](reproduction-measured.md#clockwork-live)). Fewer workers have less "
     "memory, so they load more.",
     clockwork11_run},
    {.id = NULL},
};
