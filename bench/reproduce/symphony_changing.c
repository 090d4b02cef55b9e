/* symphony_changing.c - Symphony, figure 14: a changing workload on up to 512 accelerators, as many as the advice says;
 * beside it the least that would do, and Nexus. */
#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "plans.h"
#include "symphony.h"
#include "core/data/zoo.h"

#define SCENARIO "scenarios/changing.yaml"
#define STEPS    "scenarios/changing.csv"
#define MODELS   24
#define MOST     512 /* accelerators of the cluster */
#define PLENTY   2000
#define STEP_S   30
#define BUCKET_S 10
#define BUCKETS  121

/* ---- what happens in a run, by time ---- */

struct bucket {
    uint64_t offered[MODELS], refused[MODELS];
    double busy_ns;
};

struct history {
    struct sim_observer observer;
    struct bucket buckets[BUCKETS];
    int64_t begin_ns[MOST]; /* of the batch that runs on each */
};

static struct bucket *bucket_at(struct history *h, int64_t now_ns) {
    int64_t at = now_ns / (BUCKET_S * NS_PER_S);
    return &h->buckets[at < BUCKETS ? at : BUCKETS - 1];
}

static void arrived(void *context, int64_t now_ns, uint64_t handle, uint32_t model, uint32_t items, uint8_t priority,
                    int64_t deadline_ns) {
    (void)handle, (void)items, (void)priority, (void)deadline_ns;
    bucket_at(context, now_ns)->offered[model]++;
}

static void refused(void *context, int64_t now_ns, uint32_t model, uint64_t handle, enum refusal reason) {
    (void)handle, (void)reason;
    bucket_at(context, now_ns)->refused[model]++;
}

static void began(void *context, int64_t now_ns, uint32_t model, uint32_t accelerator, uint32_t items, int64_t end_ns) {
    struct history *h = context;
    (void)model, (void)items, (void)end_ns;
    h->begin_ns[accelerator] = now_ns;
}

static void ended(void *context, int64_t now_ns, uint32_t accelerator) {
    struct history *h = context;
    bucket_at(h, now_ns)->busy_ns += (double)(now_ns - h->begin_ns[accelerator]);
}

static struct history *history_take(void) {
    struct history *h = memory_take(sizeof(*h));
    h->observer =
        (struct sim_observer){.context = h, .arrived = arrived, .refused = refused, .began = began, .ended = ended};
    return h;
}

/* ---- the least that would do ---- */

/* A step of the workload, and what is known of the accelerators that it needs: `most` do, fewer than `least` do not. */
struct step {
    char sets[1024], names[MODELS][64];
    double rate[MODELS], slo_ms[MODELS]; /* of each model, in the file's order */
    uint32_t models;
    uint32_t least, most;
    const struct outcome *tried;
};

static const char step_yaml[] =
    "cluster: {accelerators: 1, type: gtx1080ti}\n"
    "models: {zoo: gtx1080ti, names: [NASNetMobile, MobileNetV3Small, DenseNet169, DenseNet121, DenseNet201,\n"
    "  EfficientNetV2B0, MobileNetV3Large, InceptionV3, EfficientNetV2B1, ResNet50V2, ResNet152V2, ResNet101V2,\n"
    "  InceptionResNetV2, EfficientNetB0, MobileNetV2, ResNet101, EfficientNetB1, ResNet50, EfficientNetV2B2,\n"
    "  VGG19, ResNet152, MobileNet, VGG16, EfficientNetB2]}\n"
    "policy: {name: deferred, consolidate: true}\n"
    "run: {seconds: 5, warmup_seconds: 1, seed: 1}\n";

/* Reads the steps' rates. Returns how many steps there are. */
static uint32_t steps_read(struct step *steps, uint32_t most) {
    FILE *file = fopen(STEPS, "r");
    char line[256], name[64];
    double rate, slo_ms, total = 0, at, last_at = -1;
    uint32_t count = 0;
    size_t used = 0;
    if (!file) {
        fprintf(stderr, "reproduce: cannot read '%s'\n", STEPS);
        exit(1);
    }
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%*u,%63[^,],%lf,%lf,%lf", name, &slo_ms, &rate, &at) != 4)
            continue;
        if (at > last_at && count == most)
            break;
        if (at > last_at) {
            total = 0;
            used = (size_t)snprintf(steps[count].sets, sizeof(steps->sets), "workload.popularity={shares: {");
            steps[count++].most = MOST;
        }
        struct step *step = &steps[count - 1];
        if (step->models < MODELS) {
            memcpy(step->names[step->models], name, sizeof(name));
            step->slo_ms[step->models] = slo_ms;
            step->rate[step->models++] = rate;
        }
        total += rate;
        used += (size_t)snprintf(step->sets + used, sizeof(step->sets) - used, "%s: %.0f, ", name, rate);
        snprintf(step->sets + used, sizeof(step->sets) - used, "}}; workload.rate_rps=%.0f", total);
        last_at = at;
    }
    fclose(file);
    return count;
}

/* Accelerator seconds of an oracle that knows each step beforehand, and lets 1 % be bad. */
static double oracle_find(struct context *c, struct step *steps, uint32_t count) {
    double seconds = 0;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < count; i++) {
            struct step *s = &steps[i];
            s->tried = NULL;
            if (s->least == s->most)
                continue;
            s->tried = run_add(c, step_yaml, "%s; cluster.accelerators=%u", s->sets, (s->least + s->most) / 2);
            any = true;
        }
        simulate(c);
        for (uint32_t i = 0; i < count; i++)
            if (steps[i].tried)
                *(steps[i].tried->all.bad_rate <= 0.01 ? &steps[i].most : &steps[i].least) =
                    (steps[i].least + steps[i].most) / 2 + (steps[i].tried->all.bad_rate > 0.01);
    }
    for (uint32_t i = 0; i < count; i++)
        seconds += (double)steps[i].most * STEP_S;
    return seconds;
}

/* Accelerator seconds of Nexus' plans, if each step is known beforehand, too. */
static double packing_find(const struct step *steps, uint32_t count) {
    double seconds = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct step *s = &steps[i];
        struct squishy_session sessions[MODELS] = {{0}};
        struct profile *profiles[MODELS];
        for (uint32_t m = 0; m < s->models; m++) {
            const struct zoo_entry *zoo = zoo_find(s->names[m], "GTX1080Ti");
            if (!zoo)
                abort(); /* the scenario could not be read without it, either */
            uint32_t batch_max = zoo_batch_max(zoo->alpha_ms, zoo->beta_ms, s->slo_ms[m]);
            profiles[m] = memory_take(profile_bytes(batch_max));
            profile_set_line(profiles[m], batch_max, zoo->alpha_ms * NS_PER_MS, zoo->beta_ms * NS_PER_MS);
            sessions[m] = (struct squishy_session){.profile = profiles[m],
                                                   .batch_max = batch_max,
                                                   .slo_ns = (int64_t)(s->slo_ms[m] * NS_PER_MS),
                                                   .rate = s->rate[m]};
        }
        struct squishy plan = plan_for(sessions, s->models);
        seconds += (double)squishy_gpus_used(&plan) * STEP_S;
        plan_give(&plan);
        for (uint32_t m = 0; m < s->models; m++)
            free(profiles[m]);
    }
    return seconds;
}

/* ---- the panels ---- */

static void rates_plot(struct context *c, const struct history *h, uint32_t buckets) {
    struct plot *plot = report_plot(c, "Good requests by model; grey: unsatisfied", "s", "requests/s");
    struct series *all = plot_series(plot, PLOT_GREY, "");
    for (uint32_t b = 0; b < buckets; b++) {
        double offered = 0;
        for (uint32_t m = 0; m < MODELS; m++)
            offered += (double)h->buckets[b].offered[m];
        plot_point(all, b * BUCKET_S, offered / BUCKET_S);
    }
    for (uint32_t top = MODELS; top-- > 0;) { /* what is drawn later covers what was before */
        struct series *series = plot_series(plot, PLOT_AREA, "");
        for (uint32_t b = 0; b < buckets; b++) {
            double good = 0;
            for (uint32_t m = 0; m <= top; m++)
                good += (double)h->buckets[b].offered[m] - (double)h->buckets[b].refused[m];
            plot_point(series, b * BUCKET_S, good / BUCKET_S);
        }
    }
}

static void accelerators_plot(struct context *c, const struct history *h, const struct outcome *ours,
                              const struct step *steps, uint32_t count, uint32_t buckets) {
    struct plot *plot = report_plot(c, "Accelerators", "s", "");
    struct series *wanted = plot_series(plot, PLOT_CURVE, "wanted"), *busy = plot_series(plot, PLOT_CURVE, "busy"),
                  *oracle = plot_series(plot, PLOT_DASHED, "least that would do");
    double last = ours->accelerators;
    plot_point(wanted, 0, last);
    for (uint32_t i = 0; i < ours->advice_count; i++) {
        plot_point(wanted, ours->advice[i].at_s, last);
        last = ours->advice[i].accelerators;
        plot_point(wanted, ours->advice[i].at_s, last);
    }
    plot_point(wanted, ours->seconds, last);
    for (uint32_t b = 0; b < buckets; b++)
        plot_point(busy, (b + 0.5) * BUCKET_S, h->buckets[b].busy_ns / (BUCKET_S * (double)NS_PER_S));
    for (uint32_t i = 0; i < count; i++)
        plot_point(oracle, (i + 0.5) * STEP_S, steps[i].most);
}

static void advice_plot(struct context *c, const struct outcome *ours) {
    struct plot *plot = report_plot(c, "Advice", "s", "accelerators to add, or to remove");
    struct series *series = plot_series(plot, PLOT_IMPULSES, "");
    double last = ours->accelerators;
    for (uint32_t i = 0; i < ours->advice_count; i++) {
        plot_point(series, ours->advice[i].at_s, ours->advice[i].accelerators - last);
        last = ours->advice[i].accelerators;
    }
}

/* Returns the bad rate of the buckets of which the steps need fewer than all accelerators, and so does the step before,
 * whose queues and starts reach into them. */
static double bad_plot(struct context *c, const struct history *h, const struct step *steps, uint32_t count,
                       uint32_t buckets) {
    struct plot *plot = report_plot(c, "Bad rate", "s", "share of the requests");
    struct series *series = plot_series(plot, PLOT_CURVE, "");
    double bad_under = 0, offered_under = 0;
    for (uint32_t b = 0; b < buckets; b++) {
        double offered = 0, bad = 0;
        uint32_t step = b * BUCKET_S / STEP_S;
        for (uint32_t m = 0; m < MODELS; m++) {
            offered += (double)h->buckets[b].offered[m];
            bad += (double)h->buckets[b].refused[m];
        }
        plot_point(series, b * BUCKET_S, offered > 0 ? bad / offered : 0);
        if (step < count && steps[step].most < MOST && steps[step ? step - 1 : 0].most < MOST) {
            bad_under += bad;
            offered_under += offered;
        }
    }
    return offered_under > 0 ? bad_under / offered_under : 0;
}

static void row(struct context *c, const char *name, const struct outcome *o, double oracle) {
    report_row(c, "%s | %.0f | %.2f | %.2f | %u", name, o->accelerators_mean, o->accelerators_mean / oracle,
               100 * o->all.bad_rate, o->advice_count);
}

void figure14_run(struct context *c) {
    struct step *steps = memory_take(BUCKETS * sizeof(*steps));
    struct history *h = history_take();
    uint32_t count = steps_read(steps, figure_quick(c) ? 2 : BUCKETS);
    const char *shorter = figure_quick(c) ? "run.seconds=10; " : "";
    const struct outcome *ours = observed_add(c, &h->observer, SCENARIO, "%s", shorter);
    const struct outcome *free_ours = run_add(c, SCENARIO, "%sautoscale.max=%u", shorter, PLENTY);
    const struct outcome *nexus = run_add(
        c, SCENARIO, "%sautoscale.max=%u; cluster.accelerators=800; policy={name: nexus}", shorter, PLENTY);
    double oracle_s = oracle_find(c, steps, count), oracle = oracle_s / ours->seconds;
    uint32_t buckets = (uint32_t)(ours->seconds / BUCKET_S);

    rates_plot(c, h, buckets);
    accelerators_plot(c, h, ours, steps, count, buckets);
    advice_plot(c, ours);
    double under = bad_plot(c, h, steps, count, buckets);
    report_table(c, "| accelerators, mean | over the least that would do | bad, % | changes of the advice");
    report_row(c, "the least that would do, by steps of %u s known beforehand | %.0f | 1 | at most 1 | -", STEP_S,
               oracle);
    row(c, "`deferred`, consolidate, up to 512", ours, oracle);
    row(c, "`deferred`, consolidate, without a limit", free_ours, oracle);
    double packing = packing_find(steps, count) / ours->seconds;
    row(c, "`nexus`, without a limit", nexus, oracle);
    report_row(c, "squishy packing of each step, known beforehand | %.0f | %.2f | - | -", packing, packing / oracle);
    report_text(c, "While 512 accelerators suffice, %.2f %% of the requests up to 512 are bad.", 100 * under);
    report_check(c, ours->accelerators_mean <= 1.12 * oracle,
                 "at most 12 %% more accelerator seconds than the least that would do (%.1f %%)",
                 100 * (ours->accelerators_mean / oracle - 1));
    report_check(c, packing >= 1.5 * free_ours->accelerators_mean,
                 "squishy packing takes at least half as many again (%.2f times)",
                 packing / free_ours->accelerators_mean);
    free(steps);
    free(h);
}
