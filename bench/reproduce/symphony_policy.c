/* symphony_policy.c - Symphony, figure 4: waiting for larger batches against starting at once. */
#include "core/util/rng.h"
#include "memory.h"
#include "symphony.h"

#define RUN "run: {seconds: 6, warmup_seconds: 2, seed: 1}\n"

static const char mixed_yaml[] = "cluster: {accelerators: 64}\nmodels: {zoo: gtx1080ti, select: all}\n" RUN;
static const char alike_yaml[] =
    "cluster: {accelerators: 32}\nmodels: {zoo: gtx1080ti, names: [DenseNet121], copies: 16, slo_ms: 30}\n" RUN;

/* The policy that waits; then the one that does not, in the order of the pseudo-code and in a better one. */
static const char *const ways[] = {
    "policy={name: symphony, drop: timeout}",
    "policy={name: eager, order: last_update}",
    "policy={name: eager}",
};
#define WAYS 3

struct comparison {
    const struct outcome *way[WAYS];
};

static double ratio(const struct comparison *p, int against) {
    double other = p->way[against]->all.goodput_rps;
    return other > 0 ? p->way[0]->all.goodput_rps / other : 0;
}

static struct comparison compare_mixed(struct context *c, double shape) {
    struct comparison p;
    for (int w = 0; w < WAYS; w++)
        p.way[w] = goodput_add(c, mixed_yaml, "workload={arrivals: {gamma: %g}}; %s", shape, ways[w]);
    return p;
}

static struct comparison compare_alike(struct context *c, const char *model, int copies, int accelerators, int slo_ms,
                                       double shape) {
    struct comparison p;
    for (int w = 0; w < WAYS; w++)
        p.way[w] = goodput_add(c, alike_yaml,
                               "models.names=[%s]; models.copies=%d; models.slo_ms=%d; cluster.accelerators=%d; "
                               "workload={arrivals: {gamma: %g}}; %s",
                               model, copies, slo_ms, accelerators, shape, ways[w]);
    return p;
}

static const double shapes[] = {0.1, 0.2, 0.3, 0.5, 0.7, 1.0};
#define SHAPES 6
#define DRAWN  20

static void line_report(struct context *c, struct series *series[2], const char *name, double shape,
                        const struct comparison *p) {
    for (int a = 0; a < 2; a++)
        plot_point(series[a], shape, ratio(p, a + 1));
    report_row(c, "%s, gamma %g | %.0f | %.0f | %.0f | %.2f | %.2f", name, shape, p->way[0]->all.goodput_rps,
               p->way[1]->all.goodput_rps, p->way[2]->all.goodput_rps, ratio(p, 1), ratio(p, 2));
}

/* Cases (a) to (c): shapes of arrivals in a few settings. */
struct setting {
    const char *name, *model; /* NULL: the zoo */
    int slo_ms;
    const char *published;
    struct comparison by_shape[SHAPES];
};

static void setting_add(struct context *c, struct setting *s, int step) {
    for (int i = 0; i < SHAPES; i += step)
        s->by_shape[i] =
            s->model ? compare_alike(c, s->model, 16, 32, s->slo_ms, shapes[i]) : compare_mixed(c, shapes[i]);
}

static void setting_report(struct context *c, const struct setting *s, int step) {
    char title[128];
    snprintf(title, sizeof(title), "%s (published: %s)", s->name, s->published);
    struct plot *plot = report_plot(c, title, "shape of the gaps (1: Poisson)", "goodput over work-conserving");
    struct series *series[2] = {plot_series(plot, PLOT_LINES, "over the pseudo-code's order"),
                                plot_series(plot, PLOT_LINES, "over deadline order")};
    for (int i = 0; i < SHAPES; i += step)
        line_report(c, series, s->name, shapes[i], &s->by_shape[i]);
}

/* Adds (d): cases drawn from table 3, of those with up to 24 models. */
static void drawn_add(struct context *c, struct comparison *drawn, int count) {
    static const char *const models[] = {"DenseNet121", "InceptionV3", "ResNet50V2", "VGG16", "Xception"};
    static const int slos_ms[] = {30, 40, 50}, copies[] = {8, 16, 24};
    struct rng rng;
    rng_seed(&rng, 1);
    for (int i = 0; i < count; i++) {
        int n = copies[rng_below(&rng, 3)], tenths = 10 + 5 * (int)rng_below(&rng, 7);
        const char *model = models[rng_below(&rng, 5)];
        int slo_ms = slos_ms[rng_below(&rng, 3)];
        drawn[i] = compare_alike(c, model, n, n * tenths / 10, slo_ms, shapes[rng_below(&rng, SHAPES)]);
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The least and the most gain over the pseudo-code's order, by shape. */
static struct range gains_of(const struct setting *s, int step) {
    struct range gains = RANGE_NONE;
    for (int i = 0; i < SHAPES; i += step)
        range_take(&gains, ratio(&s->by_shape[i], 1));
    return gains;
}

static void settings_sentences(struct context *c, const struct setting *settings, int step) {
    struct range mixed = gains_of(&settings[0], step), tight = gains_of(&settings[1], step),
                 loose = gains_of(&settings[2], step), bert = gains_of(&settings[3], step);
    report_sentence(c, "4a: \"gaining 34% to 89% higher goodput\" on a mixture of models",
                    mixed.least >= 1.34 && mixed.most <= 1.89, "%.0f to %.0f %%", 100 * (mixed.least - 1),
                    100 * (mixed.most - 1));
    report_sentence(c, "4b: \"14% to 152% goodput increase\" of DenseNet121 at 30 ms",
                    tight.least >= 1.14 && tight.most <= 2.52, "%.0f to %.0f %%", 100 * (tight.least - 1),
                    100 * (tight.most - 1));
    report_sentence(c, "4b: at 50 ms \"the advantage is less prominent\"", loose.most < tight.most, "%.0f to %.0f %%",
                    100 * (loose.least - 1), 100 * (loose.most - 1));
    report_sentence(c, "4c: BERT, whose batches gain nothing, neither gains nor loses",
                    bert.least > 0.9 && bert.most < 1.1, "%.2f to %.2f times", bert.least, bert.most);
}

static void drawn_report(struct context *c, const struct comparison *drawn, int count) {
    struct plot *plot =
        report_plot(c, "Cases drawn from table 3", "goodput over work-conserving", "share of the cases");
    static const char *const names[] = {"over the pseudo-code's order", "over deadline order"};
    report_table(c, "of the drawn cases | published | over the pseudo-code's order | over deadline order");
    double least[2], high[2], share[2];
    for (int a = 0; a < 2; a++) {
        struct series *series = plot_series(plot, PLOT_CURVE, names[a]);
        double ratios[DRAWN];
        int no_worse = 0, found = 0;
        for (int i = 0; i < count; i++)
            if (drawn[i].way[a + 1]->all.goodput_rps > 0)
                ratios[found++] = ratio(&drawn[i], a + 1);
        qsort(ratios, (size_t)found, sizeof(double), by_value);
        for (int i = 0; i < found; i++) {
            no_worse += ratios[i] > 0.95;
            plot_point(series, ratios[i], (i + 1.0) / found);
        }
        least[a] = found ? ratios[0] : 0;
        high[a] = found ? ratios[found * 9 / 10] : 0;
        share[a] = found ? 100.0 * no_worse / found : 0;
    }
    report_row(c, "over 0.95 of work-conserving | nearly all | %.0f %% | %.0f %%", share[0], share[1]);
    report_row(c, "the least | 0.95 | %.2f | %.2f", least[0], least[1]);
    report_row(c, "the best tenth, at least | 1.50 | %.2f | %.2f", high[0], high[1]);
    report_sentence(c, "4d: hardly ever under 0.95 of work-conserving", share[0] >= 95,
                    "%.0f %% of the cases are over it", share[0]);
    report_sentence(c, "4d: at least 1.5 times in over a tenth of the cases", high[0] >= 1.5, "%.2f", high[0]);
}

void figure4_run(struct context *c) {
    struct setting settings[] = {
        {"35 models", NULL, 0, "1.34 to 1.89", {{{0}}}},
        {"DenseNet121, SLO 30 ms", "DenseNet121", 30, "1.14 to 2.52", {{{0}}}},
        {"DenseNet121, SLO 50 ms", "DenseNet121", 50, "less", {{{0}}}},
        {"BERT, SLO 50 ms", "BERT", 50, "about 1", {{{0}}}},
    };
    int count = sizeof(settings) / sizeof(settings[0]), step = figure_quick(c) ? 5 : 1;
    int cases = figure_quick(c) ? 4 : DRAWN;
    struct comparison drawn[DRAWN];
    for (int i = 0; i < count; i++)
        setting_add(c, &settings[i], step);
    drawn_add(c, drawn, cases);
    simulate(c);
    report_table(c, "models, arrivals | waits, requests/s | work-conserving, pseudo-code's order | work-conserving, "
                    "deadline order | ratio | ratio");
    for (int i = 0; i < count; i++)
        setting_report(c, &settings[i], step);
    settings_sentences(c, settings, step);
    drawn_report(c, drawn, cases);
    double poisson = ratio(&settings[0].by_shape[SHAPES - 1], 1);
    report_check(c, poisson >= 1.34,
                 "35 models, Poisson: at least 1.34 times the pseudo-code's work-conserving goodput (%.2f)", poisson);
}
