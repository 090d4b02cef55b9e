/* symphony.c - figures and tables of Symphony (arXiv 2308.07470). */
#include "report.h"
#include "runner.h"

/* ---- table 4 ---- */

static const char resnet50_yaml[] = "cluster: {accelerators: 8, type: gtx1080ti}\n"
                                    "models:\n"
                                    "  - {name: ResNet50, alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 25}\n";
static const char inception_yaml[] = "cluster: {accelerators: 8, type: gtx1080ti}\n"
                                     "models:\n"
                                     "  - {name: InceptionResNetV2, alpha_ms: 5.090, beta_ms: 18.368, slo_ms: 70}\n";

#define AUTHORS_DELAYS "network={ctrl_us: 100, data_us_per_request: 50, reply_margin_us: 2000}"

static const struct table4_row {
    const char *name, *sets;
    double published[2]; /* 0: not in the paper */
} table4_rows[] = {
    {"`deferred`, no delays", "policy.name=deferred", {0, 0}},
    {"`symphony`, no delays", "policy.name=symphony", {5169, 907}},
    {"`symphony`, 0.1 ms + 0.05 ms a request, 2 ms to reply", "policy.name=symphony; " AUTHORS_DELAYS, {5169, 907}},
    {"`deferred`, the same delays", "policy.name=deferred; " AUTHORS_DELAYS, {0, 0}},
    {"`clockwork`, 5 ms ahead", "policy.name=clockwork", {2036, 482}},
    {"`nexus`", "policy.name=nexus", {3965, 590}},
};

#define TABLE4_ROWS (sizeof(table4_rows) / sizeof(table4_rows[0]))

static void published_put(char *to, size_t bytes, double rps) {
    if (rps > 0)
        snprintf(to, bytes, "%.0f", rps);
    else
        snprintf(to, bytes, "-");
}

static void table4_plot(struct context *c, const struct outcome *const found[TABLE4_ROWS][2]) {
    static const char *const titles[] = {"ResNet50, SLO 25 ms", "InceptionResNetV2, SLO 70 ms"};
    for (int m = 0; m < 2; m++) {
        struct plot *plot = report_plot(c, titles[m], "", "goodput, requests/s");
        struct series *published = plot_series(plot, PLOT_BARS, "published");
        struct series *ours = plot_series(plot, PLOT_BARS, "ours");
        for (size_t i = 0; i < TABLE4_ROWS; i++) {
            static const char *const names[] = {"deferred",         "symphony",  "symphony, delays",
                                                "deferred, delays", "clockwork", "nexus"};
            plot_label(plot, (double)i, names[i]);
            plot_point(ours, (double)i, found[i][m]->all.goodput_rps);
            if (table4_rows[i].published[m] > 0)
                plot_point(published, (double)i, table4_rows[i].published[m]);
        }
    }
}

static void table4_run(struct context *c) {
    const struct outcome *found[TABLE4_ROWS][2];
    for (size_t i = 0; i < TABLE4_ROWS; i++) {
        found[i][0] = goodput_add(c, resnet50_yaml, "%s", table4_rows[i].sets);
        found[i][1] = goodput_add(c, inception_yaml, "%s", table4_rows[i].sets);
    }
    simulate(c);
    report_table(c, "goodput, requests/s | ResNet50 published | ours | InceptionResNetV2 published | ours");
    report_row(c, "analysis: no coordination, batches of 7 and 3 | 4501 | 4501 | 713 | 713");
    report_row(c, "analysis: staggered, batches of 16 and 8 | 5839 | 5839 | 1083 | 1083");
    for (size_t i = 0; i < TABLE4_ROWS; i++) {
        char published[2][32];
        for (int m = 0; m < 2; m++)
            published_put(published[m], sizeof(published[m]), table4_rows[i].published[m]);
        report_row(c, "%s | %s | %.0f | %s | %.0f", table4_rows[i].name, published[0], found[i][0]->all.goodput_rps,
                   published[1], found[i][1]->all.goodput_rps);
    }
    report_check(c, found[0][0]->all.goodput_rps >= 5400 && found[0][1]->all.goodput_rps >= 960,
                 "`deferred` without delays at least 5400 and 960 requests/s (%.0f, %.0f)",
                 found[0][0]->all.goodput_rps, found[0][1]->all.goodput_rps);
    report_check(c, found[2][0]->all.goodput_rps >= 5000 && found[2][0]->all.goodput_rps <= 5250,
                 "`symphony` with delays like the authors' between 5000 and 5250 requests/s, published 5169 (%.0f)",
                 found[2][0]->all.goodput_rps);
    table4_plot(c, found);
}

const struct figure symphony_figures[] = {
    {"symphony-table4", "Table 4: one model on 8 accelerators",
     "ResNet50 (l(b) = 1.053 b + 5.072 ms, SLO 25 ms) and InceptionResNetV2 (5.090 b + 18.368 ms, SLO 70 ms), each "
     "alone on "
     "8 GPUs, Poisson arrivals. Batches from staggered execution are twice as large as without coordination, for 30 to "
     "50 % "
     "more throughput, and Symphony comes close to it.",
     "Clockwork and Nexus do better here than as published, since nothing but batches takes time and our profiles are "
     "lines; the rows without delays say what the scheduling alone is worth.",
     table4_run},
    {.id = NULL},
};
