/* whatif_report.c - how `symphony whatif` shows its results: a table, or JSON. */
#include "lab/report/whatif_report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/commands/cli.h"

#define MODELS_SHOWN  20
#define LOOK_WITHIN_S 0.001 /* precision of the looks' times */

/* ---- a run ---- */

static double part(uint64_t of, uint64_t all) {
    return all ? (double)of / (double)all : 0;
}

int whatif_run_take(struct whatif_run *run, const struct simulation *s, bool json) {
    *run = (struct whatif_run){
        .accelerator_count = s->scenario.accelerator_count,
        .all = simulate_summarize(s),
        .models = calloc(s->scenario.model_count, sizeof(*run->models)),
    };
    snprintf(run->policy, sizeof(run->policy), "%s", s->scenario.policy->name);
    size_t at = 0, bytes = sizeof(run->accelerators);
    for (uint32_t t = 0; t < s->scenario.type_count && at < bytes; t++)
        at += (size_t)snprintf(run->accelerators + at, bytes - at, "%s%u %s", t ? " + " : "",
                               s->scenario.types[t].count, s->scenario.types[t].name);
    if (!run->models)
        return -ENOMEM;
    double seconds = s->cluster.config.seconds;
    run->model_count = s->scenario.model_count;
    for (uint32_t m = 0; m < run->model_count; m++) {
        const struct sim_model_result *r = &s->result.models[m];
        struct whatif_model *to = &run->models[m];
        *to = (struct whatif_model){
            .slo_ms = (double)s->scenario.models[m].slo_ns / 1e6,
            .offered_rps = (double)r->offered / seconds,
            .bad_rate = part(r->dropped + r->late, r->offered),
            .p99_ms = (double)sim_times_quantile_ns(&r->latency, 0.99) / 1e6,
        };
        snprintf(to->name, sizeof(to->name), "%s", s->scenario.models[m].name);
        if (to->bad_rate > run->worst_bad_rate) {
            run->worst_bad_rate = to->bad_rate;
            snprintf(run->worst_model, sizeof(run->worst_model), "%s", to->name);
        }
    }
    return json ? simulate_json(s, &(struct simulate_point){.count = 0}, &run->json) : 0;
}

void whatif_run_free(struct whatif_run *run) {
    text_free(&run->json);
    free(run->models);
    *run = (struct whatif_run){.models = NULL};
}

/* ---- what the server counted ---- */

/* The server's counts of the time in which requests count in the simulations. */
struct counted {
    double seconds, needed_mean, wanted_mean;
    uint64_t requests, bad;
    uint32_t present_least, present_most;
    int64_t wanted_least, wanted_most, wanted_last; /* advised accelerators; -1: no advice */
};

static struct counted counted_of(const struct whatif_report *r) {
    struct counted c = {.present_least = UINT32_MAX, .wanted_least = -1, .wanted_most = -1, .wanted_last = -1};
    double advised_s = 0;
    for (uint32_t i = 1; i < r->file->look_count; i++) {
        const struct recording_counts *look = &r->file->looks[i];
        double passed_s = look->at_s - look[-1].at_s;
        if (look[-1].at_s < r->warmup_s - LOOK_WITHIN_S || !(passed_s > 0))
            continue;
        c.seconds += passed_s;
        c.needed_mean += look->needed * passed_s;
        c.requests += look->requests;
        c.bad += look->bad;
        c.present_least = look->present < c.present_least ? look->present : c.present_least;
        c.present_most = look->present > c.present_most ? look->present : c.present_most;
        if (look->wanted < 0)
            continue;
        int64_t wanted = look->wanted;
        c.wanted_least = c.wanted_least < 0 || wanted < c.wanted_least ? wanted : c.wanted_least;
        c.wanted_most = wanted > c.wanted_most ? wanted : c.wanted_most;
        c.wanted_last = wanted;
        c.wanted_mean += (double)look->wanted * passed_s;
        advised_s += passed_s;
    }
    c.needed_mean = c.seconds > 0 ? c.needed_mean / c.seconds : 0;
    c.wanted_mean = advised_s > 0 ? c.wanted_mean / advised_s : 0;
    return c;
}

/* ---- for people ---- */

static void run_line(const char *name, const struct whatif_run *run) {
    const struct simulate_summary *all = &run->all;
    printf("%-24s %12u %10.1f %9.1f %7.2f %7.2f %9.3f %9.3f %6.2f\n", name, run->accelerator_count, all->offered_rps,
           all->good_rps, 100 * all->bad_rate, 100 * all->busy, all->latency_p50_ms, all->latency_p99_ms,
           all->batch_mean);
}

static void counted_line(const struct counted *c) {
    if (c->seconds <= 0) {
        printf("%-24s %12s\n", "counted by the server", "(too short a time)");
        return;
    }
    char present[32];
    snprintf(present, sizeof(present), c->present_least == c->present_most ? "%u" : "%u to %u", c->present_least,
             c->present_most);
    printf("%-24s %12s %10.1f %9.1f %7.2f\n", "counted by the server", present, (double)c->requests / c->seconds,
           (double)(c->requests - c->bad) / c->seconds, 100 * part(c->bad, c->requests));
}

static void models_print(const struct whatif_report *r) {
    const struct whatif_run *recorded = r->recorded, *changed = r->changed;
    if (recorded->model_count < 2 || recorded->model_count > MODELS_SHOWN)
        return;
    printf("\n%-24s %8s %10s %7s %9s%s\n", "model", "SLO ms", "offered/s", "bad %", "p99 ms",
           changed ? " | changed: SLO   bad %    p99 ms" : "");
    for (uint32_t m = 0; m < recorded->model_count; m++) {
        const struct whatif_model *model = &recorded->models[m];
        printf("%-24.24s %8.6g %10.1f %7.2f %9.3f", model->name, model->slo_ms, model->offered_rps,
               100 * model->bad_rate, model->p99_ms);
        if (changed)
            printf(" | %12.6g %7.2f %9.3f", changed->models[m].slo_ms, 100 * changed->models[m].bad_rate,
                   changed->models[m].p99_ms);
        putchar('\n');
    }
}

void whatif_print(const struct whatif_report *r) {
    const struct recording_file *f = r->file;
    struct counted counted = counted_of(r);
    printf("%s: the last %.1f s, %llu requests; %s on %s; figures after %.1f s of warm-up\n\n", r->source, f->seconds,
           (unsigned long long)f->requests, r->recorded->policy, r->recorded->accelerators, r->warmup_s);
    printf("%-24s %12s %10s %9s %7s %7s %9s %9s %6s\n", "", "accelerators", "offered/s", "good/s", "bad %", "busy %",
           "p50 ms", "p99 ms", "batch");
    counted_line(&counted);
    run_line("simulated as recorded", r->recorded);
    if (r->changed)
        run_line("simulated as changed", r->changed);
    models_print(r);
    if (r->changed && strcmp(r->changed->policy, r->recorded->policy) != 0)
        printf("\nchanged: %s instead of %s\n", r->changed->policy, r->recorded->policy);
    if (r->least) {
        const struct whatif_least *least = r->least;
        printf("\nleast accelerators with at most 1 %% bad: %u (%.2f %% bad", least->accelerators,
               100 * least->bad_rate);
        if (least->bad_rate_below >= 0)
            printf("; with %u %.2f %%", least->accelerators - 1, 100 * least->bad_rate_below);
        puts(")");
        if (counted.wanted_last < 0)
            puts("the server's advice said nothing in this time");
        else
            printf("the server's advice said %lld to %lld, %.2f in the mean, and %lld at last; the load needed %.2f in "
                   "the mean\n",
                   (long long)counted.wanted_least, (long long)counted.wanted_most, counted.wanted_mean,
                   (long long)counted.wanted_last, counted.needed_mean);
    }
    if (f->unknown)
        printf("\n%llu requests were of models that are not served any more, and are left out\n",
               (unsigned long long)f->unknown);
    if (f->cluster)
        puts("\na cluster's scheduler counts as bad what it refused: it does not see answers arrive");
}

/* ---- JSON ---- */

static json_t *run_json(const struct whatif_run *run) {
    return run ? json_loadb(run->json.data, run->json.length, 0, NULL) : json_null();
}

static json_t *counted_json(const struct counted *c) {
    if (c->seconds <= 0)
        return json_null();
    return json_pack("{s:f,s:f,s:f,s:f,s:I,s:i,s:i}", "seconds", c->seconds, "offered_rps",
                     (double)c->requests / c->seconds, "good_rps", (double)(c->requests - c->bad) / c->seconds,
                     "bad_rate", part(c->bad, c->requests), "requests", (json_int_t)c->requests, "accelerators_least",
                     (int)c->present_least, "accelerators_most", (int)c->present_most);
}

static json_t *advice_json(const struct counted *c) {
    if (c->wanted_last < 0)
        return json_null();
    return json_pack("{s:I,s:I,s:I,s:f,s:f}", "least", (json_int_t)c->wanted_least, "most", (json_int_t)c->wanted_most,
                     "last", (json_int_t)c->wanted_last, "mean", c->wanted_mean, "needed_mean", c->needed_mean);
}

static json_t *least_json(const struct whatif_least *least) {
    if (!least)
        return json_null();
    return json_pack("{s:i,s:f,s:o}", "accelerators", (int)least->accelerators, "bad_rate", least->bad_rate,
                     "bad_rate_with_one_less",
                     least->bad_rate_below < 0 ? json_null() : json_real(least->bad_rate_below));
}

void whatif_print_json(const struct whatif_report *r) {
    const struct recording_file *f = r->file;
    struct counted counted = counted_of(r);
    json_t *root = json_pack("{s:s,s:f,s:f,s:I,s:I,s:I,s:b}", "server_version", f->version, "seconds", f->seconds,
                             "warmup_seconds", r->warmup_s, "requests", (json_int_t)f->requests, "overwritten",
                             (json_int_t)f->overwritten, "unknown", (json_int_t)f->unknown, "cluster", f->cluster);
    json_object_set_new(root, "counted", counted_json(&counted));
    json_object_set_new(root, "recorded", run_json(r->recorded));
    json_object_set_new(root, "changed", run_json(r->changed));
    json_object_set_new(root, "least", least_json(r->least));
    json_object_set_new(root, "advice", advice_json(&counted));
    cli_json_print(root, JSON_REAL_PRECISION(10));
}
