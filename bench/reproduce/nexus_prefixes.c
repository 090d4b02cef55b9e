/* nexus_prefixes.c - Nexus, figure 15: variants of a model that share all but their last layers, on one GPU. */
#include <math.h>

#include "core/util/time.h"
#include "memory.h"
#include "nexus.h"
#include "sched/plan/squishy_fit.h"
#include "runner.h"
#include "core/data/shared.h"

#define YAML          "scenarios/nexus/figure15.yaml"
#define VARIANTS_MOST 10
#define SLOS          2

/* As the scenario has them. */
#define ALPHA_MS        2.050
#define BETA_MS         5.378
#define SUFFIX_ALPHA_MS 0.005
#define SUFFIX_BETA_MS  0.030

static const int slos_ms[SLOS] = {100, 150};
static const int variants[] = {2, 3, 4, 5, 6, 8, VARIANTS_MOST};
#define COUNTS (sizeof(variants) / sizeof(variants[0]))

/* ---- the plan ---- */

/* A table of lines' sums, up to what the SLO allows; the suffixes of `models`. */
static struct profile *table(int models, int slo_ms) {
    uint32_t batch_max = (uint32_t)((slo_ms - BETA_MS) / ALPHA_MS);
    struct profile *prefix = memory_take(profile_bytes(batch_max)), *suffix = memory_take(profile_bytes(batch_max)),
                   *both = memory_take(profile_bytes(batch_max));
    profile_set_line(prefix, batch_max, ALPHA_MS * NS_PER_MS, BETA_MS * NS_PER_MS);
    profile_set_line(suffix, batch_max, SUFFIX_ALPHA_MS * NS_PER_MS, SUFFIX_BETA_MS * NS_PER_MS);
    shared_profile_set(both, batch_max, prefix, &(struct shared_suffixes){suffix, (uint32_t)models}, 1);
    free(prefix);
    free(suffix);
    return both;
}

/* Items per second of all variants that squishy packing finds room for on one GPU. */
static double planned_rps(int models, int slo_ms, bool shared) {
    uint32_t count = shared ? 1 : (uint32_t)models;
    struct profile *profile = table(shared ? models : 1, slo_ms);
    struct squishy_session sessions[VARIANTS_MOST];
    struct squishy_fit fit;
    void *memory = memory_take(squishy_fit_bytes(1, count));
    for (uint32_t s = 0; s < count; s++)
        sessions[s] = (struct squishy_session){
            .profile = profile, .batch_max = profile->batch_max, .slo_ns = slo_ms * NS_PER_MS, .rate = 100.0 / count};
    squishy_fit_init(&fit, memory, 1, count, 0);
    double scale = squishy_fit_update(&fit, sessions);
    free(memory);
    free(profile);
    return 100 * scale;
}

/* ---- throughput ---- */

struct found {
    const struct outcome *nexus[2], *deferred; /* not shared, shared; shared */
};

static const struct outcome *search(struct context *c, int models, int slo_ms, bool shared, const char *policy) {
    return goodput_add(c, YAML, "models.0.variants=%d; models.0.slo_ms=%d; models.0.shared=%s; policy.name=%s", models,
                       slo_ms, shared ? "true" : "false", policy);
}

/* The gain of the last row, in percent. */
static double throughput_rows(struct context *c, int slo_ms, const struct found *found) {
    char title[64];
    double gain = 0;
    snprintf(title, sizeof(title), "SLO %d ms", slo_ms);
    struct plot *plot = report_plot(c, title, "variants", "requests/s");
    struct series *without = plot_series(plot, PLOT_LINES, "whole"), *with = plot_series(plot, PLOT_LINES, "shared");
    for (size_t i = 0; i < COUNTS; i++) {
        double rps[2] = {found[i].nexus[0]->all.goodput_rps, found[i].nexus[1]->all.goodput_rps};
        gain = rps[0] > 0 ? 100 * (rps[1] / rps[0] - 1) : INFINITY;
        report_row(c, "%d | %d | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f", slo_ms, variants[i], rps[0], rps[1], gain,
                   found[i].deferred->all.goodput_rps, planned_rps(variants[i], slo_ms, false),
                   planned_rps(variants[i], slo_ms, true));
        plot_point(without, variants[i], rps[0]);
        plot_point(with, variants[i], rps[1]);
    }
    return gain;
}

/* ---- memory ---- */

#define LAYERS       3
#define TRUNK_MB     94.0 /* ResNet50's 25.5 million weights but for the last layer's, four bytes each */
#define CLASSES_MB   8.2  /* 2048 x 1000 */
#define LAYER_MB     16.8 /* 2048 x 2048 */
#define SUFFIX_MB(n) (CLASSES_MB + ((n)-1) * LAYER_MB)

/* Weights of so many variants with that many layers of their own, in MB. */
static double weights_mb(int models, int layers, bool shared) {
    return (shared ? 1 : models) * TRUNK_MB + models * SUFFIX_MB(layers);
}

static void memory_rows(struct context *c) {
    struct plot *plot = report_plot(c, "Weights", "variants", "MB");
    struct series *whole = plot_series(plot, PLOT_LINES, "whole, 1 FC"), *lines[LAYERS];
    report_table(c, "variants | whole, 1 FC: MB of weights | shared, 1 FC | 2 FC | 3 FC");
    for (int l = 0; l < LAYERS; l++) {
        char name[32];
        snprintf(name, sizeof(name), "shared, %d FC", l + 1);
        lines[l] = plot_series(plot, PLOT_LINES, name);
    }
    for (size_t i = 0; i < COUNTS; i++) {
        int n = variants[i];
        report_row(c, "%d | %.0f | %.0f | %.0f | %.0f", n, weights_mb(n, 1, false), weights_mb(n, 1, true),
                   weights_mb(n, 2, true), weights_mb(n, 3, true));
        plot_point(whole, n, weights_mb(n, 1, false));
        for (int l = 0; l < LAYERS; l++)
            plot_point(lines[l], n, weights_mb(n, l + 1, true));
    }
}

void nexus15_run(struct context *c) {
    struct found found[SLOS][COUNTS];
    double gains[SLOS];
    for (int s = 0; s < SLOS; s++)
        for (size_t i = 0; i < COUNTS; i++) {
            for (int shared = 0; shared < 2; shared++)
                found[s][i].nexus[shared] = search(c, variants[i], slos_ms[s], shared, "nexus");
            found[s][i].deferred = search(c, variants[i], slos_ms[s], true, "deferred");
        }
    simulate(c);
    report_table(c, "SLO, ms | variants | whole: requests/s | shared | gain, % (published: up to 110) | shared, policy "
                    "`deferred` | planned (squishy), whole | planned, shared");
    for (int s = 0; s < SLOS; s++)
        gains[s] = throughput_rows(c, slos_ms[s], found[s]);
    memory_rows(c);
    double least = INFINITY;
    for (int s = 0; s < SLOS; s++)
        for (size_t i = 0; i < COUNTS; i++) {
            least = fmin(least, found[s][i].nexus[1]->all.goodput_rps / found[s][0].nexus[1]->all.goodput_rps);
        }
    report_check(c, least > 0.97, "shared, throughput hardly depends on the number of variants (%.3f of that of 2)",
                 least);
    report_check(c, gains[0] >= 110 && gains[1] <= 110,
                 "for 10 variants the published gain lies between those at the two SLOs (%.0f and %.0f %%)", gains[1],
                 gains[0]);
}
