/* symphony_frontends.c - Symphony, table 2 and figure 1: frontends that each deal out requests on their own. */
#include "core/util/rng.h"
#include "memory.h"
#include "symphony.h"

#include <math.h>

#define BACKENDS 100

/* One row. Requests come with exponential gaps, each to a frontend drawn at random; that frontend's own round robin
 * chooses the backend. The requests of every backend are counted by windows. */
struct dealing {
    double window_s, rate_rps;
    uint32_t frontends;
    double published_mean, published_deviation;
    uint32_t windows;
    double mean, deviation; /* of a backend's requests in a window */
};

static void dealing_do(void *argument) {
    struct dealing *d = argument;
    uint32_t *next = memory_take(d->frontends * sizeof(*next));
    double now_s = 0, sum = 0, squares = 0;
    struct rng rng;
    rng_seed(&rng, 1);
    for (uint32_t f = 0; f < d->frontends; f++)
        next[f] = (uint32_t)rng_below(&rng, BACKENDS);
    for (uint32_t w = 0; w < d->windows; w++) {
        uint32_t got[BACKENDS] = {0};
        for (; now_s < (w + 1) * d->window_s; now_s += rng_exponential(&rng) / d->rate_rps) {
            uint32_t *turn = &next[rng_below(&rng, d->frontends)];
            got[*turn]++;
            *turn = (*turn + 1) % BACKENDS;
        }
        for (uint32_t b = 0; b < BACKENDS; b++) {
            sum += got[b];
            squares += (double)got[b] * got[b];
        }
    }
    double count = (double)d->windows * BACKENDS;
    d->mean = sum / count;
    d->deviation = sqrt(squares / count - d->mean * d->mean);
    free(next);
}

void table2_run(struct context *c) {
    struct dealing rows[] = {
        {0.4, 10000, 1, 40, 0.753, 0, 0, 0},
        {0.4, 10000, 25, 40, 2.463, 0, 0, 0},
        {0.2, 2000, 1, 4, 0.396, 0, 0, 0},
        {0.2, 2000, 25, 4, 1.860, 0, 0, 0},
    };
    int count = sizeof(rows) / sizeof(rows[0]);
    for (int i = 0; i < count; i++) {
        rows[i].windows = figure_quick(c) ? 100 : 2000;
        work_add(c, dealing_do, &rows[i]);
    }
    simulate(c);
    struct plot *plot = report_plot(c, "Requests of a backend in a window", "", "standard deviation");
    struct series *published = plot_series(plot, PLOT_BARS, "published");
    struct series *ours = plot_series(plot, PLOT_BARS, "ours");
    report_table(c, "window, ms | requests/s | frontends | mean published | ours | deviation published | ours");
    for (int i = 0; i < count; i++) {
        const struct dealing *d = &rows[i];
        char label[64];
        snprintf(label, sizeof(label), "%gms, %u frontend%s", 1000 * d->window_s, d->frontends,
                 d->frontends > 1 ? "s" : "");
        plot_label(plot, i, label);
        plot_point(published, i, d->published_deviation);
        plot_point(ours, i, d->deviation);
        report_row(c, "%g | %g | %u | %g | %.2f | %.3f | %.3f", 1000 * d->window_s, d->rate_rps, d->frontends,
                   d->published_mean, d->mean, d->published_deviation, d->deviation);
    }
    report_check(
        c, rows[1].deviation > 2 * rows[0].deviation && rows[3].deviation > 2 * rows[2].deviation,
        "25 frontends make the deviation several times that of one (%.1f and %.1f times; published 3.3 and 4.7)",
        rows[1].deviation / rows[0].deviation, rows[3].deviation / rows[2].deviation);
}

/* ---- figure 1 ---- */

static const struct crowd {
    const char *name, *yaml, *sets;
} crowds[] = {
    {"1 model, 8 accelerators, SLO 20 ms", resnet50_yaml, "models.0.slo_ms=20"},
    {"1 model, 8 accelerators, SLO 50 ms", resnet50_yaml, "models.0.slo_ms=50"},
    {"5 models, 16 accelerators, SLO 20 ms", resnet50_yaml,
     "models.0.slo_ms=20; models.0.copies=5; cluster.accelerators=16"},
    {"5 models, 16 accelerators, SLO 100 ms", resnet50_yaml,
     "models.0.slo_ms=100; models.0.copies=5; cluster.accelerators=16"},
    {"20 models, 32 accelerators, SLO 50 ms", resnet50_yaml,
     "models.0.slo_ms=50; models.0.copies=20; cluster.accelerators=32"},
    {"20 models, 64 accelerators, SLO 100 ms", resnet50_yaml,
     "models.0.slo_ms=100; models.0.copies=20; cluster.accelerators=64"},
    {"37 models of the A100 zoo, 64 accelerators", "cluster: {accelerators: 64}\nmodels: {zoo: a100, select: all}\n",
     ""},
};
#define CROWDS 7

static const int frontends[] = {1, 2, 4, 8, 16};
#define FRONTENDS 5

void figure1_run(struct context *c) {
    const struct outcome *found[CROWDS][FRONTENDS];
    int step = figure_quick(c) ? 4 : 1, crowd_step = figure_quick(c) ? 3 : 1;
    struct range all_lost = RANGE_NONE, tight_lost = RANGE_NONE; /* tight: with SLOs of 20 ms */
    for (int i = 0; i < CROWDS; i += crowd_step)
        for (int f = 0; f < FRONTENDS; f += step)
            found[i][f] = goodput_add(c, crowds[i].yaml, "run.seconds=10; %s; policy={name: nexus, frontends: %d}",
                                      crowds[i].sets, frontends[f]);
    simulate(c);
    struct plot *plot = report_plot(c, "Goodput of Nexus by frontends", "frontends", "share of one frontend's goodput");
    report_table(c, "goodput of Nexus, requests/s | 1 frontend | 2 | 4 | 8 | 16 | lost by 16, %");
    for (int i = 0; i < CROWDS; i += crowd_step) {
        struct series *series = plot_series(plot, PLOT_LINES, crowds[i].name);
        double one = found[i][0]->all.goodput_rps, lost = 1 - found[i][FRONTENDS - 1]->all.goodput_rps / one;
        char cells[FRONTENDS][16];
        for (int f = 0; f < FRONTENDS; f++) {
            if (f % step == 0)
                plot_point(series, frontends[f], found[i][f]->all.goodput_rps / one);
            snprintf(cells[f], sizeof(cells[f]), f % step ? "-" : "%.0f", found[i][f - f % step]->all.goodput_rps);
        }
        report_row(c, "%s | %s | %s | %s | %s | %s | %.0f", crowds[i].name, cells[0], cells[1], cells[2], cells[3],
                   cells[4], 100 * lost);
        range_take(&all_lost, lost);
        if (strstr(crowds[i].name, "SLO 20 ms"))
            range_take(&tight_lost, lost);
    }
    report_sentence(c, "1: several frontends cost 5 to 40 % of Nexus's goodput",
                    all_lost.least >= 0.05 && all_lost.most <= 0.4, "%.0f to %.0f %%", 100 * all_lost.least,
                    100 * all_lost.most);
    report_check(c, tight_lost.least >= 0.05 && tight_lost.most <= 0.4,
                 "with SLOs of 20 ms, 16 frontends lose 5 to 40 %% of the goodput (%.0f to %.0f %%)",
                 100 * tight_lost.least, 100 * tight_lost.most);
}
