/* symphony_batches.c - Symphony, figures 8 and 9: batches and queueing of one model on 8 accelerators. */
#include <math.h>
#include <stdio.h>

#include "symphony.h"

#define MODELS 2

static const struct {
    const char *name, *yaml;
    uint32_t slo_ms;
} models[MODELS] = {{"ResNet50", resnet50_yaml, 25}, {"InceptionResNetV2", inception_yaml, 70}};

/* Share of the requests that ran in batches of more than `items`. */
static double share_over(const struct outcome *o, uint32_t items) {
    double over = 0, all = 0;
    for (uint32_t b = 1; b <= PROFILE_BATCH_MAX; b++) {
        all += (double)b * (double)o->batch_sizes[b];
        over += b > items ? (double)b * (double)o->batch_sizes[b] : 0;
    }
    return all > 0 ? over / all : 0;
}

static void batches_plot(struct context *c, const char *name, const struct outcome *const found[CONTENDERS]) {
    struct plot *plot = report_plot(c, name, "items of a batch", "share of the requests");
    for (int p = 0; p < CONTENDERS; p++) {
        struct series *series = plot_series(plot, PLOT_LINES, contenders[p].name);
        for (uint32_t b = 1; b <= PROFILE_BATCH_MAX && (b == 1 || share_over(found[p], b - 1) > 0); b++)
            plot_point(series, b, (b > 1 ? share_over(found[p], b - 1) : 1) - share_over(found[p], b));
    }
}

void figure8_run(struct context *c) {
    static const uint32_t sizes[MODELS][2] = {{14, 6}, {8, 3}};
    static const char *const published[MODELS][CONTENDERS] = {{"-", "most over 14", "all sizes alike", "most over 6"},
                                                              {"-", "most over 8", "all sizes alike", "most over 3"}};
    const struct outcome *found[MODELS][CONTENDERS];
    for (int m = 0; m < MODELS; m++)
        for (int p = 0; p < CONTENDERS; p++)
            found[m][p] = goodput_add(c, models[m].yaml, "%s", contenders[p].sets);
    simulate(c);
    report_table(c, "at its goodput | published | items of a batch, mean | requests in batches of at least");
    for (int m = 0; m < MODELS; m++) {
        for (int p = 0; p < CONTENDERS; p++)
            report_row(c, "%s, %s | %s | %.1f | %u: %.0f %%, %u: %.0f %%", models[m].name, contenders[p].name,
                       published[m][p], found[m][p]->all.batch_mean, sizes[m][0],
                       100 * share_over(found[m][p], sizes[m][0] - 1), sizes[m][1],
                       100 * share_over(found[m][p], sizes[m][1] - 1));
        batches_plot(c, models[m].name, found[m]);
    }
    for (int m = 0; m < MODELS; m++)
        for (int p = 1; p < CONTENDERS; p += 2) { /* symphony, nexus */
            char sentence[160];
            double share = share_over(found[m][p], sizes[m][p / 2] - 1); /* its analysis allows no more than 16, 7, 8, 3 */
            snprintf(sentence, sizeof(sentence), "8: the majority of %s's requests run in batches of over %u (taken as: at least) under %s",
                     models[m].name, sizes[m][p / 2], p == 1 ? "Symphony" : "Nexus");
            report_sentence(c, sentence, share > 0.5, "%.0f %%", 100 * share);
        }
    report_check(c, found[0][1]->all.batch_mean > 1.5 * found[0][3]->all.batch_mean,
                 "`symphony`'s batches of ResNet50 are over 1.5 times those of `nexus` (%.1f, %.1f)",
                 found[0][1]->all.batch_mean, found[0][3]->all.batch_mean);
}

/* ---- figure 9 ---- */

static double queueing_ms(const struct outcome *o, double q) {
    return (double)sim_times_quantile_ns(&o->queueing, q) / NS_PER_MS;
}

static void queueing_report(struct context *c, const char *title, const char *model,
                            const struct outcome *const found[COMPARED]) {
    struct plot *plot = report_plot(c, title, "queueing, ms", "share of the requests");
    for (int p = 0; p < COMPARED; p++) {
        struct series *series = plot_series(plot, PLOT_CURVE, compared[p].name);
        for (int q = 0; q <= 100; q++)
            plot_point(series, queueing_ms(found[p], q / 100.0), q / 100.0);
        report_row(c, "%s, %s | %.1f | %.1f | %.1f | %.1f", model, compared[p].name, queueing_ms(found[p], 0.5),
                   queueing_ms(found[p], 0.9), queueing_ms(found[p], 0.99),
                   (double)found[p]->queueing.max_ns / NS_PER_MS);
    }
}

void figure9_run(struct context *c) {
    static const int rates[MODELS] = {3900, 580}; /* all systems can serve these */
    const struct outcome *peak[MODELS][COMPARED], *same[MODELS][COMPARED];
    for (int m = 0; m < MODELS; m++)
        for (int p = 0; p < COMPARED; p++) {
            peak[m][p] = goodput_add(c, models[m].yaml, "%s", compared[p].sets);
            same[m][p] = run_add(c, models[m].yaml, "workload.rate_rps=%d; %s", rates[m], compared[p].sets);
        }
    simulate(c);
    char title[96];
    report_table(c, "each at its own goodput | queueing, ms: p50 | p90 | p99 | longest");
    for (int m = 0; m < MODELS; m++) {
        snprintf(title, sizeof(title), "%s, each at its goodput", models[m].name);
        queueing_report(c, title, models[m].name, peak[m]);
    }
    report_table(c, "all at the same rate, about what nexus can serve | queueing, ms: p50 | p90 | p99 | longest");
    for (int m = 0; m < MODELS; m++) {
        snprintf(title, sizeof(title), "%s, %d requests/s", models[m].name, rates[m]);
        queueing_report(c, title, models[m].name, same[m]);
    }
    for (int m = 0; m < MODELS; m++) {
        char sentence[128];
        double ours = queueing_ms(peak[m][0], 0.5), clockwork = queueing_ms(peak[m][3], 0.5),
               nexus = queueing_ms(peak[m][4], 0.5);
        double most_ms = (double)peak[m][4]->queueing.max_ns / NS_PER_MS;
        snprintf(sentence, sizeof(sentence), "9: %s queues \"2x to 3x shorter than baseline systems\"", models[m].name);
        report_sentence(c, sentence, clockwork >= 2 * ours && nexus >= 2 * ours,
                        "at the median %.1f times (`clockwork`), %.1f (`nexus`)", clockwork / ours, nexus / ours);
        snprintf(sentence, sizeof(sentence),
                 "9: the longest queueing of %s in Nexus \"is around half the latency SLO\"", models[m].name);
        report_sentence(c, sentence, fabs(most_ms / models[m].slo_ms - 0.5) < 0.05, "%.2f of it",
                        most_ms / models[m].slo_ms);
    }
    report_check(
        c, 1.3 * queueing_ms(peak[0][2], 0.99) < queueing_ms(peak[0][4], 0.99),
        "at its goodput, `symphony`'s ResNet50 queues for less than `nexus`'s by a factor of 1.3 (p99: %.1f, %.1f ms)",
        queueing_ms(peak[0][2], 0.99), queueing_ms(peak[0][4], 0.99));
}
