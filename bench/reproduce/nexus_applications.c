/* nexus_applications.c - Nexus, section 7: applications with and without its techniques, a changing load, and how far
 * its plans are from the fewest GPUs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/data/zoo.h"
#include "core/util/rng.h"
#include "core/util/time.h"
#include "nexus.h"
#include "plans.h"
#include "runner.h"

/* ---- figure 10: games ---- */

#define GAMES 20

/* A technique is left out in addition to those of the rows above. */
static const struct ablation {
    const char *name, *label, *sets;
    double published;
} game_rows[] = {
    {"all", "all", "", 4120},
    {"without prefix batching", "-PB", "models.0.shared=false; models.1.shared=false; ", 0},
    {"without squishy packing", "-SS", "policy.plan=oblivious; ", 0},
    {"without early drop", "-ED", "policy.drop=lazy; ", 2143},
};
#define GAME_ROWS (sizeof(game_rows) / sizeof(game_rows[0]))

/* The games' shares by Zipf 0.9, for models of their own. */
static void game_shares(char *to, size_t bytes) {
    size_t used = (size_t)snprintf(to, bytes, "workload.popularity={shares: {");
    for (int g = 1; g <= GAMES; g++) {
        double part = pow(g, -0.9);
        used += (size_t)snprintf(to + used, bytes - used, "%slenet-%d: %.4f, resnet-%d: %.4f", g > 1 ? ", " : "", g,
                                 6 * part, g, part);
    }
    snprintf(to + used, bytes - used, "}}; ");
}

static double frames(const struct outcome *o) {
    return o->all.goodput_rps / 7; /* six requests of LeNet, one of ResNet-50 */
}

void nexus10_run(struct context *c) {
    const char *yaml = "scenarios/nexus/figure10.yaml";
    const struct outcome *found[GAME_ROWS], *poisson[2];
    char sets[3072] = "", shares[2048];
    game_shares(shares, sizeof(shares));
    for (size_t i = 0; i < GAME_ROWS; i++) {
        if (i == 1)
            strcat(sets, shares);
        strcat(sets, game_rows[i].sets);
        found[i] = goodput_add(c, yaml, "%s", sets);
        if (i == 2 || i == 3) /* early drop matters with Poisson arrivals */
            poisson[i - 2] = goodput_add(c, yaml, "%sworkload.arrivals=poisson", sets);
    }
    simulate(c);
    struct plot *plot = report_plot(c, "20 games on 16 GPUs, SLO 50 ms", "", "of what all techniques together reach");
    struct series *theirs = plot_series(plot, PLOT_BARS, "published"), *ours = plot_series(plot, PLOT_BARS, "ours");
    report_table(c, "games | published, requests/s | of the first | ours, frames/s | of the first");
    for (size_t i = 0; i < GAME_ROWS; i++) {
        char published[64] = "- | -";
        if (game_rows[i].published > 0)
            snprintf(published, sizeof(published), "%.0f | %.2f", game_rows[i].published,
                     game_rows[i].published / 4120);
        double part = frames(found[i]) / frames(found[0]);
        report_row(c, "%s | %s | %.0f | %.2f", game_rows[i].name, published, frames(found[i]), part);
        plot_label(plot, (double)i, game_rows[i].label);
        plot_point(ours, (double)i, part);
        if (game_rows[i].published > 0)
            plot_point(theirs, (double)i, game_rows[i].published / 4120);
    }
    double all = 1 - frames(found[3]) / frames(found[0]), early = 1 - frames(found[3]) / frames(found[2]);
    double early_poisson = 1 - frames(poisson[1]) / frames(poisson[0]);
    report_sentence(c, "10: PB, SS and ED together are 48 % of the throughput", fabs(all - 0.48) <= 0.1 * 0.48,
                    "%.0f %%", 100 * all);
    report_sentence(c, "10: without early drop 3 % less", early > 0.02 && early < 0.04, "%.1f %%", 100 * early);
    report_sentence(c, "10: 8.5 % less with Poisson arrivals", early_poisson > 0.0765 && early_poisson < 0.0935,
                    "%.1f %%", 100 * early_poisson);
    report_check(c, all > 0.2, "the three techniques are at least 20 %% of the throughput (%.0f %%)", 100 * all);
}

/* ---- figures 11 and 12: traffic ---- */

#define TRAFFIC                                                                                                        \
    "cluster.accelerators=16; models.0.alpha_ms=12; models.0.beta_ms=35; policy.name=nexus; run.seconds=20; "
#define RUSH_HOUR     "pipelines.0.stages.1.fan_out=8; pipelines.0.stages.2.fan_out=3; "
#define WITHOUT_PLANS "pipelines.0.split=even; policy.plan=oblivious; policy.drop=lazy; "

static const struct traffic_row {
    const char *name, *label, *sets;
    double published[2]; /* requests/s outside and in the rush hour; 0: none */
} traffic_rows[] = {
    {"all", "all", "pipelines.0.split=nexus; ", {534, 264}},
    {"without query analysis", "-QA", "pipelines.0.split=even; ", {433, 0}},
    {"without squishy packing and early drop, too", "-QA-SS-ED", WITHOUT_PLANS, {326, 0}},
};
#define TRAFFIC_ROWS (sizeof(traffic_rows) / sizeof(traffic_rows[0]))

void nexus11_run(struct context *c) {
    const struct outcome *found[TRAFFIC_ROWS][2];
    for (size_t i = 0; i < TRAFFIC_ROWS; i++)
        for (int rush = 0; rush < 2; rush++)
            found[i][rush] = goodput_add(c, "scenarios/pipelines/traffic.yaml", TRAFFIC "%s%s", traffic_rows[i].sets,
                                         rush ? RUSH_HOUR : "");
    simulate(c);
    struct plot *plot = report_plot(c, "traffic on 16 GPUs, SLO 400 ms", "", "queries/s");
    struct series *theirs = plot_series(plot, PLOT_BARS, "published"), *ours = plot_series(plot, PLOT_BARS, "ours"),
                  *rush_hour = plot_series(plot, PLOT_BARS, "ours, rush hour");
    report_table(c, "traffic | published, requests/s | rush hour | ours, queries/s | of the first | rush hour | of the "
                    "first");
    double part[TRAFFIC_ROWS][2];
    for (size_t i = 0; i < TRAFFIC_ROWS; i++) {
        char published[2][32] = {"-", "-"};
        for (int rush = 0; rush < 2; rush++) {
            part[i][rush] = found[i][rush]->all.goodput_rps / found[0][rush]->all.goodput_rps;
            if (traffic_rows[i].published[rush] > 0)
                snprintf(published[rush], sizeof(published[rush]), "%.0f", traffic_rows[i].published[rush]);
        }
        report_row(c, "%s | %s | %s | %.0f | %.2f | %.0f | %.2f", traffic_rows[i].name, published[0], published[1],
                   found[i][0]->all.goodput_rps, part[i][0], found[i][1]->all.goodput_rps, part[i][1]);
        plot_label(plot, (double)i, traffic_rows[i].label);
        plot_point(theirs, (double)i, traffic_rows[i].published[0]);
        plot_point(ours, (double)i, found[i][0]->all.goodput_rps);
        plot_point(rush_hour, (double)i, found[i][1]->all.goodput_rps);
    }
    report_sentence(c, "11: without query analysis 19 % less", part[1][0] > 0.791 && part[1][0] < 0.829, "%.0f %%",
                    100 * (1 - part[1][0]));
    report_sentence(c, "11: without all techniques but overlap 39 % less", part[2][0] > 0.571 && part[2][0] < 0.649,
                    "%.0f %%", 100 * (1 - part[2][0]));
    report_sentence(c, "12: the techniques gain less in the rush hour", part[2][1] > part[2][0], "%.2f and %.2f times",
                    1 / part[2][0], 1 / part[2][1]);
    report_check(c, part[2][0] < 0.85, "without the techniques at least 15 %% less (%.0f %%)", 100 * (1 - part[2][0]));
}

/* ---- figure 13: a changing load ---- */

#define BUCKET_S 5
#define BUCKETS  200
#define RISE_S   326
#define FALL_S   644

struct window {
    struct sim_observer observer;
    uint64_t offered[BUCKETS], refused[BUCKETS];
};

static uint32_t bucket_of(int64_t now_ns) {
    int64_t at = now_ns / (BUCKET_S * NS_PER_S);
    return at < BUCKETS ? (uint32_t)at : BUCKETS - 1;
}

static void arrived(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items, uint8_t priority,
                    int64_t deadline_ns) {
    (void)handle, (void)model, (void)items, (void)priority, (void)deadline_ns;
    ((struct window *)context)->offered[bucket_of(now_ns)]++;
}

static void refused(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason) {
    (void)model, (void)handle, (void)reason;
    ((struct window *)context)->refused[bucket_of(now_ns)]++;
}

/* Seconds from `from_s` to the first advice of more (sign 1) or fewer (-1) accelerators; NAN: there was none. */
static double advice_after(const struct outcome *o, double from_s, int sign) {
    double last = o->accelerators;
    for (uint32_t i = 0; i < o->advice_count; i++) {
        double change = o->advice[i].accelerators - last;
        if (o->advice[i].at_s >= from_s && sign * change > 0)
            return o->advice[i].at_s - from_s;
        last = o->advice[i].accelerators;
    }
    return NAN;
}

static const char *seconds_text(double seconds, char text[16]) {
    if (isnan(seconds))
        return "-";
    snprintf(text, 16, "%.0f s", seconds);
    return text;
}

void nexus13_run(struct context *c) {
    struct window *w = memory_take(sizeof(*w));
    w->observer = (struct sim_observer){.context = w, .arrived = arrived, .refused = refused};
    const struct outcome *o =
        observed_add(c, &w->observer, "scenarios/nexus/figure13.yaml", "run.seconds=%d", figure_quick(c) ? 60 : 1000);
    simulate(c);
    struct series *rate = plot_series(report_plot(c, "Load", "s", "requests/s"), PLOT_CURVE, "");
    struct series *gpus = plot_series(report_plot(c, "GPUs", "s", ""), PLOT_CURVE, "");
    struct series *bad = plot_series(report_plot(c, "Bad rate", "s", "% of the requests"), PLOT_CURVE, "");
    uint32_t over = 0;
    for (uint32_t b = 0; b < (uint32_t)o->seconds / BUCKET_S; b++) {
        double bad_rate = w->offered[b] ? (double)w->refused[b] / (double)w->offered[b] : 0;
        plot_point(rate, b * BUCKET_S, (double)w->offered[b] / BUCKET_S);
        plot_point(bad, b * BUCKET_S, 100 * bad_rate);
        over += bad_rate > 0.01;
    }
    double last = o->accelerators;
    plot_point(gpus, 0, last);
    for (uint32_t i = 0; i < o->advice_count; i++) {
        plot_point(gpus, o->advice[i].at_s, last);
        plot_point(gpus, o->advice[i].at_s, last = o->advice[i].accelerators);
    }
    plot_point(gpus, o->seconds, last);
    double rise = advice_after(o, RISE_S, 1), fall = advice_after(o, FALL_S, -1);
    char texts[2][16];
    const char *rise_text = seconds_text(rise, texts[0]), *fall_text = seconds_text(fall, texts[1]);
    report_table(c, "| published | ours");
    report_row(c, "more GPUs after the rise at %d s | 12 s | %s", RISE_S, rise_text);
    report_row(c, "fewer after the fall at %d s | about 10 s | %s", FALL_S, fall_text);
    report_row(c, "bad requests | 0.27 %% | %.2f %%", 100 * o->all.bad_rate);
    report_row(c, "buckets of %d s with over 1 %% bad | drawn | %u of %.0f", BUCKET_S, over, o->seconds / BUCKET_S);
    report_row(c, "GPUs, mean | drawn | %.1f", o->accelerators_mean);
    report_sentence(c, "13: it detects the change within 12 s", rise <= 13.2, "%s", rise_text);
    report_sentence(c, "13: it gives GPUs back with a lag of about 10 s", fall >= 9 && fall <= 11, "%s", fall_text);
    report_sentence(c, "13: 0.27 % of the requests are bad", o->all.bad_rate <= 0.003, "%.2f %%",
                    100 * o->all.bad_rate);
    report_check(c, o->all.bad_rate < 0.01, "under 1 %% is bad (%.2f %%)", 100 * o->all.bad_rate);
    free(w);
}

/* ---- section 7.4: GPUs over the fewest ---- */

#define BOUND        9.8
#define DRAWS        100
#define SESSIONS_MAX 80
#define ZOO_MODELS   35
#define OPTIMAL_MOST 64 /* items of a batch that count as optimal */

/* Items per second of a GPU that runs nothing else, in the best batches. */
static double best_rps(const struct profile *profile) {
    double best = 0;
    for (uint32_t b = 1; b <= OPTIMAL_MOST; b++)
        best = fmax(best, b * 1e9 / (double)profile->latency_ns[b]);
    return best;
}

/* GPUs of a plan for drawn sessions whose bound is BOUND. SLOs are `tight` to twice that times the time of one item. */
static uint32_t gpus_drawn(struct rng *rng, struct profile *const profiles[ZOO_MODELS], uint32_t count, double tight) {
    struct squishy_session sessions[SESSIONS_MAX] = {{0}};
    double bound = 0;
    for (uint32_t s = 0; s < count; s++) {
        const struct profile *profile = profiles[rng_below(rng, ZOO_MODELS)];
        double share = rng_uniform(rng);
        sessions[s] = (struct squishy_session){
            .profile = profile,
            .batch_max = PROFILE_BATCH_MAX,
            .slo_ns = (int64_t)(tight * (1 + rng_uniform(rng)) * (double)profile->latency_ns[1]),
            .rate = share * best_rps(profile),
        };
        bound += share;
    }
    for (uint32_t s = 0; s < count; s++)
        sessions[s].rate *= BOUND / bound;
    struct squishy plan = plan_for(sessions, count);
    uint32_t used = squishy_gpus_used(&plan);
    plan_give(&plan);
    return used;
}

void nexus74_run(struct context *c) {
    static const double tights[] = {3, 5, 10, 20, 40};
    static const uint32_t counts[] = {20, 40, 80};
    struct profile *profiles[ZOO_MODELS];
    uint32_t models = 0, draws = figure_quick(c) ? 5 : DRAWS;
    for (const struct zoo_entry *e = zoo_entries; e->model && models < ZOO_MODELS; e++)
        if (zoo_entry_in(e, "gtx1080ti", ZOO_ALL)) {
            profiles[models] = memory_take(profile_bytes(PROFILE_BATCH_MAX));
            profile_set_line(profiles[models++], PROFILE_BATCH_MAX, e->alpha_ms * NS_PER_MS, e->beta_ms * NS_PER_MS);
        }
    struct plot *plot = report_plot(c, "GPUs where 9.8 are the least", "SLO, times one item alone", "GPUs");
    plot_logarithmic(plot, true, false);
    plot_point(plot_series(plot, PLOT_POINTS, "published"), 10, 11.7);
    double found[3][5], least = INFINITY, most = 0;
    struct rng rng;
    rng_seed(&rng, 1);
    for (int n = 0; n < 3; n++) {
        char name[32];
        snprintf(name, sizeof(name), "%u sessions", counts[n]);
        struct series *series = plot_series(plot, PLOT_LINES, name);
        for (int t = 0; t < 5; t++) {
            uint32_t used = 0;
            for (uint32_t d = 0; d < draws; d++)
                used += gpus_drawn(&rng, profiles, counts[n], tights[t]);
            found[n][t] = (double)used / draws;
            plot_point(series, 1.5 * tights[t], found[n][t]);
            least = fmin(least, found[n][t]);
            most = fmax(most, found[n][t]);
        }
    }
    report_table(c, "SLO, times one item alone | published GPUs | ours: 20 sessions | 40 | 80");
    for (int t = 0; t < 5; t++)
        report_row(c, "%g to %g | 11.7 | %.1f | %.1f | %.1f", tights[t], 2 * tights[t], found[0][t], found[1][t],
                   found[2][t]);
    report_sentence(c, "7.4: 11.7 GPUs where 9.8 are the least", least <= 11.7 && most >= 11.7, "%.1f to %.1f by SLOs",
                    least, most);
    for (uint32_t m = 0; m < models; m++)
        free(profiles[m]);
}
