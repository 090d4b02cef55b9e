/* clockwork_trace.c - figures 9 and 11 of Clockwork (OSDI 2020): thousands of models under recorded calls. */
#include "clockwork.h"

#include "core/util/time.h"
#include "report.h"
#include "runner.h"

#define YAML "scenarios/clockwork-fig9.yaml"

static double part(uint64_t some, uint64_t all) {
    return all ? (double)some / (double)all : 0;
}

static double quantile_ms(const struct outcome *o, double q) {
    return (double)sim_times_quantile_ns(&o->latency, q) / NS_PER_MS;
}

static double latest_ms(const struct outcome *o) {
    return (double)o->latency.max_ns / NS_PER_MS;
}

/* ---- figure 9 ---- */

#define RATES 5
#define MEANT 1 /* the rate that the sentences are about: all accelerators are busy, and hardly anything is lost */

static uint32_t models_cold(const struct outcome *o) {
    uint32_t cold = 0;
    for (uint32_t m = 0; m < o->model_count; m++)
        cold += o->models[m].cold > 0;
    return cold;
}

void clockwork9_run(struct context *c) {
    static const int rates[RATES] = {3000, 4500, 6000, 7500, 9638};
    const struct outcome *found[RATES];
    const char *shorter = figure_quick(c) ? "; run.seconds=1; run.warmup_seconds=1" : "";
    for (int i = 0; i < RATES; i++)
        found[i] = run_add(c, YAML, "workload.rate_rps=%d%s", rates[i], shorter);
    const struct outcome *minute =
        run_add(c, YAML, "workload.rate_rps=%d; run.seconds=%d", rates[MEANT], figure_quick(c) ? 1 : 60);
    simulate(c);
    struct plot *goodput = report_plot(c, "goodput", "offered, requests/s", "good, requests/s");
    struct series *good = plot_series(goodput, PLOT_LINES, "ours");
    plot_point(plot_series(goodput, PLOT_POINTS, "published"), 9638, 9638);
    struct plot *latency = report_plot(c, "latency", "offered, requests/s", "ms");
    struct series *p50 = plot_series(latency, PLOT_LINES, "median"), *p99 = plot_series(latency, PLOT_LINES, "99 %"),
                  *most = plot_series(latency, PLOT_LINES, "longest");
    struct plot *starts = report_plot(c, "cold starts", "offered, requests/s", "% of the requests");
    struct series *cold = plot_series(starts, PLOT_LINES, "ours");
    plot_point(plot_series(starts, PLOT_POINTS, "published"), 9638, 1.3);
    report_table(c,
                 "offered, requests/s | good | failed, of a million | cold, % | busy, % | batch | latency, ms: median "
                 "| 99 % | longest");
    for (int i = 0; i < RATES; i++) {
        const struct outcome *o = found[i];
        double offered = (double)o->offered / o->seconds, cold_share = 100 * part(o->cold, o->offered);
        report_row(c, "%.0f | %.0f | %.0f | %.1f | %.0f | %.1f | %.0f | %.0f | %.1f", offered, o->all.good_rps,
                   1e6 * part(o->offered - o->good, o->offered), cold_share, 100 * o->all.busy, o->all.batch_mean,
                   quantile_ms(o, 0.5), quantile_ms(o, 0.99), latest_ms(o));
        plot_point(good, offered, o->all.good_rps);
        plot_point(p50, offered, quantile_ms(o, 0.5));
        plot_point(p99, offered, quantile_ms(o, 0.99));
        plot_point(most, offered, latest_ms(o));
        plot_point(cold, offered, cold_share);
    }
    report_row(c, "published: 9638 | 9638 | 0.3 | 1.3 | 100 | drawn | drawn | drawn | under 100");
    const struct outcome *o = found[MEANT];
    double failed = part(o->offered - o->good, o->offered), cold_share = part(o->cold, o->offered);
    report_sentence(c, "9: goodput is the offered load; of 208 million requests 58 failed", failed < 0.0001,
                    "%.0f of %.0f thousand failed at %d requests/s", failed * (double)o->offered,
                    (double)o->offered / 1000, rates[MEANT]);
    report_sentence(c, "9: all GPUs are fully utilized", o->all.busy > 0.99, "%.0f %%", 100 * o->all.busy);
    report_sentence(c, "9: no request takes over 100 ms", latest_ms(o) <= 100 && !o->late, "%.1f ms", latest_ms(o));
    report_sentence(c, "9: cold starts are 1.3 % of the requests", cold_share > 0.0117 && cold_share < 0.0143,
                    "%.1f %%", 100 * cold_share);
    report_sentence(c, "9: about 25 % of the models have a cold start in a minute",
                    part(models_cold(minute), minute->model_count) > 0.225 &&
                        part(models_cold(minute), minute->model_count) < 0.275,
                    "%.0f %%", 100 * part(models_cold(minute), minute->model_count));
    report_check(c, failed < 0.01, "under 1 %% fails at %d requests/s (%.3f %%)", rates[MEANT], 100 * failed);
}

/* ---- figure 11 ---- */

#define SIZES 5
#define LOADS 2

void clockwork11_run(struct context *c) {
    static const int sizes[SIZES] = {10, 20, 40, 80, 150}, loads[LOADS] = {600, 900};
    const struct outcome *found[SIZES][LOADS];
    int count = figure_quick(c) ? 2 : SIZES;
    for (int i = 0; i < count; i++)
        for (int l = 0; l < LOADS; l++)
            found[i][l] =
                run_add(c, YAML, "cluster.accelerators=%d; workload.rate_rps=%d; run.seconds=%d; run.warmup_seconds=%d",
                        sizes[i], sizes[i] * loads[l], figure_quick(c) ? 1 : 5, figure_quick(c) ? 1 : 10);
    simulate(c);
    struct plot *plot = report_plot(c, "peak goodput", "workers", "requests/s");
    struct series *theirs = plot_series(plot, PLOT_POINTS, "published"), *ours = plot_series(plot, PLOT_LINES, "ours");
    plot_point(theirs, 40, 40000);
    plot_point(theirs, 110, 103387);
    report_table(c, "workers | published peak, requests/s | ours | a worker | busy, %");
    struct range workers = RANGE_NONE;
    for (int i = 0; i < count; i++) {
        const struct outcome *best = found[i][found[i][1]->all.good_rps > found[i][0]->all.good_rps];
        double each = best->all.good_rps / sizes[i];
        range_take(&workers, each);
        report_row(c, "%d | %s | %.0f | %.0f | %.0f", sizes[i], sizes[i] == 40 ? "about 40,000" : "-",
                   best->all.good_rps, each, 100 * best->all.busy);
        plot_point(ours, sizes[i], best->all.good_rps);
    }
    report_sentence(c, "11: peak goodput rises linearly with the workers", workers.least >= 0.9 * workers.most,
                    "%.0f to %.0f requests/s a worker", workers.least, workers.most);
    report_check(c, workers.least >= 0.7 * workers.most, "a worker's goodput differs by less than 30 %% (%.0f to %.0f)",
                 workers.least, workers.most);
}
