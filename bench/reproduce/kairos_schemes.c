/* kairos_schemes.c - Kairos, figures 1, 3, 9 and 10, 12, 13, 14: configurations and schemes of query distribution. */
#include <stdio.h>

#include "kairos.h"

/* ---- figures 1 and 3 ---- */

#define HAND_PICKED 4 /* on g4dn.xlarge, c5n.2xlarge, r5n.large */
static const uint16_t hand_picked[HAND_PICKED][POOL_TYPES_MAX] = {{4, 0, 0}, {3, 1, 3}, {2, 0, 9}, {1, 4, 2}};

/* The factor for the rest of the budget; not 1 only for the first configuration, which has only the base type. */
static double factor_of(const struct kairos_pool *p, int config) {
    return config == 0 ? p->alike_factor : 1;
}

static double price_of(const struct kairos_pool *p, const uint16_t *count) {
    double price = 0;
    for (uint32_t t = 0; t < p->input.types; t++)
        price += count[t] * p->input.type[t].price;
    return price;
}

void kairos1_run(struct context *c) {
    static const char *const published[HAND_PICKED] = {"1", "1.15", "under 1", "under 1"};
    struct kairos_pool *p = kairos_pool_make(c, KAIROS_RM2, KAIROS_BUDGET, "");
    struct throughput found[HAND_PICKED][2];
    for (int i = 0; i < HAND_PICKED; i++) {
        found[i][0] = throughput_add(c, p, hand_picked[i], SCHEME_RIBBON, 0);
        found[i][1] = throughput_add(c, p, hand_picked[i], SCHEME_KAIROS, 0);
    }
    simulate(c);
    report_table(c, "g4dn.xlarge, c5n.2xlarge, r5n.large | $/hour | published, of the first | ours, `ribbon`, "
                    "queries/s | of the first | `kairos` | of the first");
    struct plot *plot = report_plot(c, "RM2, 2.5 dollars an hour", "", "queries/s");
    struct series *series[2] = {plot_series(plot, PLOT_BARS, "ribbon"), plot_series(plot, PLOT_BARS, "kairos")};
    double qps[HAND_PICKED][2];
    for (int i = 0; i < HAND_PICKED; i++) {
        char label[64];
        snprintf(label, sizeof(label), "(%u,%u,%u)", hand_picked[i][0], hand_picked[i][1], hand_picked[i][2]);
        plot_label(plot, i, label);
        for (int s = 0; s < 2; s++) {
            qps[i][s] = throughput_qps(&found[i][s]) * factor_of(p, i);
            plot_point(series[s], i, qps[i][s]);
        }
        report_row(c, "%s | %.3f | %s | %.1f | %.2f | %.1f | %.2f", label, price_of(p, hand_picked[i]), published[i],
                   qps[i][0], qps[i][0] / qps[0][0], qps[i][1], qps[i][1] / qps[0][1]);
    }
    report_sentence(c, "1: (3,1,3) has 15 % more throughput than (4,0,0)",
                    qps[1][0] / qps[0][0] > 1.1 && qps[1][0] / qps[0][0] < 1.2, "%+.0f %%",
                    100 * (qps[1][0] / qps[0][0] - 1));
    report_sentence(c, "1: (2,0,9) has less", qps[2][0] < qps[0][0], "%+.0f %%", 100 * (qps[2][0] / qps[0][0] - 1));
    report_sentence(c, "1: (1,4,2) has less", qps[3][0] < qps[0][0], "%+.0f %%", 100 * (qps[3][0] / qps[0][0] - 1));
    report_check(c, qps[3][0] < qps[0][0], "under `ribbon` (1,4,2) is worse than the base type alone (%.2f of it)",
                 qps[3][0] / qps[0][0]);
    kairos_pool_free(p);
}

static double oracle_of(const struct kairos_pool *p, const uint16_t *count) {
    return pool_oracle(&p->input, &p->rates, count, ORACLE_QUERIES);
}

void kairos3_run(struct context *c) {
    struct kairos_pool *p = kairos_pool_make(c, KAIROS_RM2, KAIROS_BUDGET, "");
    struct throughput found[HAND_PICKED][SCHEMES];
    for (int i = 1; i < HAND_PICKED; i++)
        for (int s = 0; s < SCHEMES; s++)
            found[i][s] = throughput_add(c, p, hand_picked[i], s, 0);
    simulate(c);
    report_table(c,
                 "queries/s on g4dn.xlarge, c5n.2xlarge, r5n.large | `ribbon` | `drs` | `clkwrk` | `kairos` | oracle");
    struct plot *plot = report_plot(c, "RM2, 2.5 dollars an hour", "", "queries/s");
    struct series *series[SCHEMES + 1];
    for (int s = 0; s < SCHEMES; s++)
        series[s] = plot_series(plot, PLOT_BARS, scheme_names[s]);
    series[SCHEMES] = plot_series(plot, PLOT_BARS, "oracle");
    for (int i = 1; i < HAND_PICKED; i++) {
        char label[64];
        double qps[SCHEMES + 1] = {[SCHEMES] = oracle_of(p, hand_picked[i])};
        snprintf(label, sizeof(label), "(%u,%u,%u)", hand_picked[i][0], hand_picked[i][1], hand_picked[i][2]);
        plot_label(plot, i - 1, label);
        for (int s = 0; s < SCHEMES; s++)
            qps[s] = throughput_qps(&found[i][s]);
        for (int s = 0; s <= SCHEMES; s++)
            plot_point(series[s], i - 1, qps[s]);
        report_row(c, "%s | %.1f | %.1f | %.1f | %.1f | %.1f", label, qps[SCHEME_RIBBON], qps[SCHEME_DRS],
                   qps[SCHEME_CLKWRK], qps[SCHEME_KAIROS], qps[SCHEMES]);
    }
    kairos_pool_free(p);
}

/* ---- figures 9 and 10 ---- */

/* The results of a model: Kairos' own choice, and the best that a search finds for each scheme. */
struct comparison {
    struct kairos_pool *pool;
    struct throughput chosen;
    struct kairos_search searches[SCHEMES];
    double oracle_qps; /* of the oracle's best configuration */
};

static void oracle_do(void *argument) {
    struct comparison *m = argument;
    for (size_t i = 0; i < m->pool->count; i++) {
        double qps = oracle_of(m->pool, m->pool->configs[i].count);
        m->oracle_qps = qps > m->oracle_qps ? qps : m->oracle_qps;
    }
}

static void comparison_add(struct context *c, struct comparison *m, const struct kairos_model *model) {
    *m = (struct comparison){.pool = kairos_pool_make(c, model, KAIROS_BUDGET, "")};
    m->chosen = throughput_add(c, m->pool, m->pool->configs[m->pool->chosen].count, SCHEME_KAIROS, 0);
    for (int s = 0; s < SCHEMES; s++) {
        m->searches[s] = (struct kairos_search){
            .pool = m->pool, .scheme = s, .quick = figure_quick(c), .most = figure_quick(c) ? 3 : 0};
        work_add(c, kairos_search_do, &m->searches[s]);
    }
    work_add(c, oracle_do, m);
}

/* The next two begin with the scheme's rows; Kairos+ is the search under `kairos`. */
static void comparison_row9(struct context *c, const struct comparison *m, struct series **series, int at) {
    const struct kairos_search *s = m->searches;
    double kairos = throughput_qps(&m->chosen), drs = s[SCHEME_DRS].best_qps, clkwrk = s[SCHEME_CLKWRK].best_qps;
    const double bars[] = {s[SCHEME_RIBBON].best_qps, drs, clkwrk, kairos, s[SCHEME_KAIROS].best_qps, m->oracle_qps};
    for (int i = 0; i < 6; i++)
        plot_point(series[i], at, bars[i] / bars[0]);
    report_row(c, "%s | %.4g | %.4g | %.4g | %.4g | %.4g | %.4g | %.2f | %.2f | %.2f", m->pool->model->name, bars[0],
               bars[1], bars[2], bars[3], bars[4], bars[5], bars[3] / bars[0], bars[3] / drs, bars[3] / clkwrk);
}

static void comparison_row10(struct context *c, const struct comparison *m, struct series **series, int at) {
    static const enum scheme order[SCHEMES] = {SCHEME_RIBBON, SCHEME_DRS, SCHEME_CLKWRK, SCHEME_KAIROS};
    char cells[SCHEMES][64];
    for (int i = 0; i < SCHEMES; i++) {
        const struct kairos_search *s = &m->searches[order[i]];
        double share = 100.0 * (double)s->evaluations / (double)m->pool->count;
        snprintf(cells[i], sizeof(cells[i]), "%zu (%.1f %%)", s->evaluations, share);
        plot_point(series[i], at, share);
    }
    report_row(c, "%s | %zu | %s | %s | %s | %s", m->pool->model->name, m->pool->count, cells[0], cells[1], cells[2],
               cells[3]);
}

static void sentences9(struct context *c, const struct comparison *models, int count) {
    struct range ribbon = RANGE_NONE, share[SCHEMES];
    double others = 0;
    for (int s = 0; s < SCHEMES; s++)
        share[s] = RANGE_NONE;
    for (int i = 0; i < count; i++) {
        double kairos = throughput_qps(&models[i].chosen);
        range_take(&ribbon, kairos / models[i].searches[SCHEME_RIBBON].best_qps);
        for (int s = 0; s < SCHEMES; s++) {
            range_take(&share[s], 100.0 * (double)models[i].searches[s].evaluations / (double)models[i].pool->count);
            if ((s == SCHEME_DRS || s == SCHEME_CLKWRK) && kairos / models[i].searches[s].best_qps > others)
                others = kairos / models[i].searches[s].best_qps;
        }
    }
    report_sentence(c, "9: \"for all models\" around 1.5 times the throughput of Ribbon",
                    ribbon.least > 1.35 && ribbon.most < 1.65, "%.2f to %.2f times", ribbon.least, ribbon.most);
    report_sentence(c, "9: \"outperforms the DRS and CLKWRK schemes by up to 44%\"", others > 1.4 && others < 1.48,
                    "by up to %.0f %%", 100 * (others - 1));
    for (int s = SCHEME_RIBBON; s <= SCHEME_DRS; s++)
        report_sentence(
            c,
            s == SCHEME_RIBBON ? "10: Ribbon evaluates 5 to 30 % of the search space" : "10: DRS evaluates 5 to 30 %",
            share[s].least >= 4.5 && share[s].most <= 30.5, "%.1f to %.1f %%", share[s].least, share[s].most);
    report_sentence(c, "10: Kairos+ evaluates under 1 % \"for all models\"", share[SCHEME_KAIROS].most < 1,
                    "%.1f to %.1f %%", share[SCHEME_KAIROS].least, share[SCHEME_KAIROS].most);
}

void kairos9_run(struct context *c) {
    static const char *const names[] = {"ribbon", "drs", "clkwrk", "kairos", "kairos+", "oracle"};
    struct comparison models[KAIROS_MODELS];
    int count = figure_quick(c) ? 2 : KAIROS_MODELS;
    for (int i = 0; i < count; i++)
        comparison_add(c, &models[i], &kairos_models[i]);
    simulate(c);
    struct plot *plots[2] = {report_plot(c, "Figure 9: throughput", "", "of ribbon's"),
                             report_plot(c, "Figure 10: evaluations", "", "% of all configurations")};
    struct series *series[2][6];
    plot_logarithmic(plots[1], false, true);
    for (int i = 0; i < 6; i++)
        series[0][i] = plot_series(plots[0], PLOT_BARS, names[i]);
    for (int i = 0; i < SCHEMES; i++)
        series[1][i] = plot_series(plots[1], PLOT_BARS, i < 3 ? names[i] : "kairos+");
    report_table(c, "queries/s | `ribbon` | `drs` | `clkwrk` | Kairos | Kairos+ | oracle | Kairos over `ribbon` "
                    "(published: about 1.5) | over `drs` (up to 1.44) | over `clkwrk` (up to 1.44)");
    for (int i = 0; i < count; i++)
        comparison_row9(c, &models[i], series[0], i);
    report_table(c, "evaluations | configurations | `ribbon` (published: 5 to 30 %) | `drs` (5 to 30 %) | `clkwrk` | "
                    "Kairos+ (under 1 %)");
    bool better = true;
    for (int i = 0; i < count; i++) {
        comparison_row10(c, &models[i], series[1], i);
        plot_label(plots[0], i, kairos_models[i].name);
        plot_label(plots[1], i, kairos_models[i].name);
        double kairos = throughput_qps(&models[i].chosen);
        for (int s = SCHEME_RIBBON; s < SCHEMES; s++)
            better &= kairos > 0.99 * models[i].searches[s].best_qps;
    }
    sentences9(c, models, count);
    report_check(c, better,
                 "Kairos, which tries none, has no less throughput than each other scheme in the best "
                 "configuration for it, for every model (to 1 %%, as it is searched)");
    for (int i = 0; i < count; i++)
        kairos_pool_free(models[i].pool);
}

/* ---- figure 12 ---- */

#define GAUSSIAN "workload.query_size={gaussian: [500, 200]}"

void kairos12_run(struct context *c) {
    struct kairos_pool *p = kairos_pool_make(c, KAIROS_RM2, KAIROS_BUDGET, GAUSSIAN);
    struct throughput chosen = throughput_add(c, p, p->configs[p->chosen].count, SCHEME_KAIROS, 0);
    struct kairos_search searches[SCHEMES];
    for (int s = 0; s < SCHEMES; s++) {
        searches[s] = (struct kairos_search){
            .pool = p, .scheme = s, .full = true, .quick = figure_quick(c), .most = figure_quick(c) ? 3 : SEARCH_TRAIL};
        work_add(c, kairos_search_do, &searches[s]);
    }
    simulate(c);
    struct plot *plot = report_plot(c, "RM2, sizes as of a Gaussian", "evaluation", "queries/s");
    struct series *dashed = plot_series(plot, PLOT_DASHED, "kairos, in one shot");
    double qps = throughput_qps(&chosen);
    plot_point(dashed, 1, qps);
    plot_point(dashed, (double)searches[0].most, qps);
    report_table(c, "scheme | evaluations (of at most 10) | the first, queries/s | the best | at number | worst");
    report_row(c, "Kairos | 0 | %.1f | %.1f | | %.1f", qps, qps, qps);
    for (int s = 0; s < SCHEMES; s++) {
        const struct kairos_search *found = &searches[s];
        const char *name = s == SCHEME_KAIROS ? "kairos+" : scheme_names[s];
        struct series *series = plot_series(plot, PLOT_LINES, name);
        double worst = found->trail[0];
        for (size_t i = 0; i < found->evaluations; i++) {
            worst = found->trail[i] < worst ? found->trail[i] : worst;
            plot_point(series, (double)i + 1, found->trail[i]);
        }
        report_row(c, "`%s` | %zu | %.1f | %.1f | %zu | %.1f", name, found->evaluations, found->trail[0],
                   found->best_qps, found->found_at, worst);
    }
    double best = searches[SCHEME_KAIROS].best_qps;
    report_sentence(c, "12: \"reaches a near-optimal configuration in one shot\"", qps > 0.9 * best, "%.2f of Kairos+",
                    qps / best);
    report_sentence(c, "12: twice the throughput of Ribbon's and DRS's first configuration",
                    qps >= 2 * searches[SCHEME_RIBBON].trail[0] && qps >= 2 * searches[SCHEME_DRS].trail[0],
                    "%.2f and %.2f times", qps / searches[SCHEME_RIBBON].trail[0], qps / searches[SCHEME_DRS].trail[0]);
    report_check(c, qps > 0.9 * best, "Kairos is within 10 %% of Kairos+ without trying any (%.1f of %.1f)", qps, best);
    kairos_pool_free(p);
}

/* ---- figures 13 and 14 ---- */

#define TOP 20

static void top_plot(struct context *c, const struct kairos_pool *p, const struct throughput *found, size_t count) {
    struct plot *plot = report_plot(c, p->model->name, "rank by bound", "queries/s");
    struct series *bound = plot_series(plot, PLOT_DASHED, "upper bound");
    struct series *ours = plot_series(plot, PLOT_LINES, "simulated");
    for (size_t i = 0; i < count; i++) {
        plot_point(bound, (double)i + 1, p->configs[i].bound);
        plot_point(ours, (double)i + 1, throughput_qps(&found[i]));
    }
    if (p->chosen < count)
        plot_point(plot_series(plot, PLOT_POINTS, "chosen"), (double)p->chosen + 1, throughput_qps(&found[p->chosen]));
}

void kairos13_run(struct context *c) {
    struct kairos_pool *pools[KAIROS_MODELS];
    struct throughput found[KAIROS_MODELS][TOP];
    int models = figure_quick(c) ? 2 : KAIROS_MODELS;
    size_t top = figure_quick(c) ? 4 : TOP;
    for (int m = 0; m < models; m++) {
        pools[m] = kairos_pool_make(c, &kairos_models[m], KAIROS_BUDGET, "");
        for (size_t i = 0; i < top; i++)
            found[m][i] = throughput_add(c, pools[m], pools[m]->configs[i].count, SCHEME_KAIROS, 0);
    }
    simulate(c);
    report_table(c, "model | rank of the best of the first 20 (published: among the first 10) | queries/s | chosen | "
                    "rank | queries/s | of the best | bound over simulated, mean of the 20");
    bool among = true, near = true;
    for (int m = 0; m < models; m++) {
        struct kairos_pool *p = pools[m];
        size_t best = 0;
        double over = 0;
        for (size_t i = 0; i < top; i++) {
            double qps = throughput_qps(&found[m][i]);
            best = qps > throughput_qps(&found[m][best]) ? i : best;
            over += p->configs[i].bound / qps / (double)top;
        }
        size_t chosen = p->chosen < top ? p->chosen : 0;
        double qps = throughput_qps(&found[m][chosen]), best_qps = throughput_qps(&found[m][best]);
        char text[64];
        report_row(c, "%s | %zu | %.4g | %s | %zu | %.4g | %.2f | %.2f", p->model->name, best + 1, best_qps,
                   kairos_pool_text(p->configs[chosen].count, text), chosen + 1, qps, qps / best_qps, over);
        top_plot(c, p, found[m], top);
        among &= best < 10;
        near &= qps >= 0.9 * best_qps;
        kairos_pool_free(p);
    }
    report_sentence(c, "13: the best configuration is among the first 10 by bound", among, "%s",
                    among ? "for every model" : "not for every model");
    report_check(c, among, "the best of the first 20 is among the first 10 by bound, for every model");
    report_check(c, near, "what is chosen has at least 0.9 of the best's throughput, for every model");
}

#define TOP14 10

void kairos14_run(struct context *c) {
    static const enum scheme order[SCHEMES] = {SCHEME_KAIROS, SCHEME_CLKWRK, SCHEME_DRS, SCHEME_RIBBON};
    struct kairos_pool *p = kairos_pool_make(c, KAIROS_RM2, KAIROS_BUDGET, "");
    struct throughput found[TOP14][SCHEMES];
    size_t top = figure_quick(c) ? 3 : TOP14;
    for (size_t i = 0; i < top; i++)
        for (int s = 0; s < SCHEMES; s++)
            found[i][s] = throughput_add(c, p, p->configs[i].count, order[s], 0);
    simulate(c);
    report_table(c, "configuration | bound, queries/s | oracle | `kairos` | `clkwrk` | `drs` | `ribbon`");
    struct plot *plot = report_plot(c, "RM2, 2.5 dollars an hour", "rank by bound", "queries/s");
    struct series *bound = plot_series(plot, PLOT_DASHED, "upper bound"), *series[SCHEMES];
    struct series *oracle = plot_series(plot, PLOT_DASHED, "oracle");
    for (int s = 0; s < SCHEMES; s++)
        series[s] = plot_series(plot, PLOT_LINES, scheme_names[order[s]]);
    double ratio = 1e9;
    for (size_t i = 0; i < top; i++) {
        const uint16_t *count = p->configs[i].count;
        double qps[SCHEMES], most = oracle_of(p, count), x = (double)i + 1;
        char text[64];
        plot_point(bound, x, p->configs[i].bound);
        plot_point(oracle, x, most);
        for (int s = 0; s < SCHEMES; s++) {
            qps[s] = throughput_qps(&found[i][s]);
            plot_point(series[s], x, qps[s]);
        }
        ratio = qps[0] / p->configs[i].bound < ratio ? qps[0] / p->configs[i].bound : ratio;
        report_row(c, "%s | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f", kairos_pool_text(count, text),
                   p->configs[i].bound, most, qps[0], qps[1], qps[2], qps[3]);
    }
    report_check(c, ratio > 0.8, "`kairos` reaches over 0.8 of the bound in each of them (least %.2f)", ratio);
    kairos_pool_free(p);
}
