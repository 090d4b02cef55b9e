/* symphony.c - figures and tables of Symphony (arXiv 2308.07470). */
#include "symphony.h"

#include <stdio.h>

/* ---- table 4 ---- */

const char resnet50_yaml[] = "cluster: {accelerators: 8, type: gtx1080ti}\n"
                             "models:\n"
                             "  - {name: ResNet50, alpha_ms: 1.053, beta_ms: 5.072, slo_ms: 25}\n";
const char inception_yaml[] = "cluster: {accelerators: 8, type: gtx1080ti}\n"
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
    {"`clockwork`, 0 ms ahead", "policy={name: clockwork, ahead_ms: 0}", {0, 0}},
    {"`clockwork`, 5 ms ahead, heads skipped", "policy={name: clockwork, heads: skip}", {2036, 482}},
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
            static const char *const names[] = {"deferred",  "symphony",        "symphony, delays", "deferred, delays",
                                                "clockwork", "clockwork, 0 ms", "clockwork, skip",  "nexus"};
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
    for (size_t i = 0; i < TABLE4_ROWS; i++) {
        char published[2][32];
        for (int m = 0; m < 2; m++)
            published_put(published[m], sizeof(published[m]), table4_rows[i].published[m]);
        report_row(c, "%s | %s | %.0f | %s | %.0f", table4_rows[i].name, published[0], found[i][0]->all.goodput_rps,
                   published[1], found[i][1]->all.goodput_rps);
    }
    static const struct {
        const char *text;
        int row;
        double least[2], most[2];
    } sentences[] = {
        {"4: \"the goodput of Symphony is close to the analytical throughput of staggered execution\" (0.89 and 0.84 "
         "of it)",
         2,
         {0.85 * 5839, 0.8 * 1083},
         {5839, 1083}},
        {"4: Nexus is close to the analysis without coordination (0.88 and 0.83 of it)",
         7,
         {0.8 * 4501, 0.8 * 713},
         {4501, 713}},
        {"4: Clockwork reaches 2036 and 482 requests/s (here with `heads: skip`)",
         6,
         {0.9 * 2036, 0.9 * 482},
         {1.1 * 2036, 1.1 * 482}},
    };
    for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
        bool holds = true;
        const struct outcome *const *f = found[sentences[i].row];
        for (int m = 0; m < 2; m++)
            holds &= f[m]->all.goodput_rps >= sentences[i].least[m] && f[m]->all.goodput_rps <= sentences[i].most[m];
        report_sentence(c, sentences[i].text, holds, "%.0f and %.0f requests/s", f[0]->all.goodput_rps,
                        f[1]->all.goodput_rps);
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
    {"symphony-table2", "Table 2: frontends that deal requests out by turns, each on its own",
     "With exponential gaps and 100 backends, what a backend receives in a window fluctuates several times as much "
     "from 25 frontends as from one.",
     "The number of windows is not published.", table2_run},
    {"symphony-table4", "Table 4: one model on 8 accelerators",
     "ResNet50 (l(b) = 1.053 b + 5.072 ms, SLO 25 ms) and InceptionResNetV2 (5.090 b + 18.368 ms, SLO 70 ms), each "
     "alone, Poisson. Analysis: 4501 and 713 requests/s without coordination (batches of 7 and 3), 5839 and 1083 with "
     "staggered execution (16 and 8).",
     "Clockwork's measured program (`heads: skip`) is not its text.", table4_run},
    {"symphony-fig1", "Figure 1: distributed scheduling hurts goodput",
     "Several frontends cost Nexus 5 to 40 %: 8 to 64 GPUs, 1 to 37 models, SLOs of 20 to 100 ms.",
     "Settings are ours, in those ranges.", figure1_run},
    {"symphony-fig4", "Figure 4: waiting for larger batches against work-conserving scheduling",
     "Goodput of waiting over work-conserving scheduling, gamma gaps of shapes 0.1 (bursts) to 1: (a) 35 models, (b) "
     "DenseNet121, (c) BERT, (d) all cases of table 3.",
     "The pseudo-code's order, by the last update, is a bad one. GPUs are not published: here 64 for (a), 32 with 16 "
     "copies for (b) and (c). (d) is 20 cases of up to 24 models.",
     figure4_run},
    {"symphony-fig5", "Figure 5: the flat top",
     "A sketch of the ideal. Offered o over the peak p, the bad rate is near (o-p)/o; below it, the idle share is "
     "near (p-o)/p.",
     "Here the 1080Ti zoo on 64 accelerators; p is each policy's own goodput.", figure5_run},
    {"symphony-fig6", "Figure 6: goodput of the model zoo on 64 accelerators",
     "Appendix B's models at equal rates, Poisson: all, those with beta/alpha over 2 (gt2), and under 2 (lt2).",
     "Clockwork's text is better than its program (table 4).", figure6_run},
    {"symphony-fig7", "Figure 7: SLOs, popularity and bursts",
     "20 models like ResNet50 on 32 GPUs, SLOs of 15 to 100 ms, equal popularity or Zipf 0.9, Poisson or gamma gaps "
     "of shape 0.05.",
     "Clockwork's 5 ms of work ahead are most of its loss with tight SLOs. In bursts goodput depends on the seed.",
     figure7_run},
    {"symphony-fig8", "Figure 8: batches of one model on 8 accelerators",
     "Sizes of batches in table 4's setting. Clockwork uses all sizes alike.",
     "\"Greater than\" is read as \"at least\": the paper's own analysis allows no more.", figure8_run},
    {"symphony-fig9", "Figure 9: queueing delay", "Time from arrival to the start of the batch, in table 4's setting.",
     "Rates are not published: in data 1 each one's goodput, in data 2 one rate for all.", figure9_run},
    {"symphony-fig10", "Figure 10: overload, and idle accelerators",
     "10 models like ResNet50, SLO 100 ms, 24 GPUs, offered up to twice the peak.",
     "Only with `consolidate` does the idle share say what is left. p is the peak with it.", figure10_run},
    {"symphony-fig11", "Figure 11 (right): goodput with the number of accelerators",
     "20 models like ResNet50, SLO 100 ms: Symphony's goodput is proportional to the GPUs, Clockwork's limited by its "
     "locks.",
     "Virtual time knows no locks.", figure11_run},
    {"symphony-fig13", "Figure 13: latency of the network",
     "20 models like ResNet50 on 32 GPUs, with delays like those of RDMA and of TCP's tail.",
     "The latency is put before every batch.", figure13_run},
    {"symphony-fig14", "Figure 14: a changing workload on 512 accelerators",
     "24 models with rates from 150 hours of videos: few GPUs at low load, advice that follows it, a low bad rate "
     "unless overloaded.",
     "Rates are ours (scenarios/changing.csv). An accelerator starts within 10 s. Squishy packing is a plan alone.",
     figure14_run},
    {.id = NULL},
};
