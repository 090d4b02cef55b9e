/* simulate_report.c - how `symphony simulate` shows its results. */
#include "lab/report/simulate_report.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/util/decimal.h"
#include "lab/report/simulate_pipelines.h"

#define TABLE_MODELS_MAX 50 /* models of a table; if there are more, only the worst are listed */
#define TABLE_WORST      20

/* The figures of one model, or of all. */
struct row {
    const char *name;
    double slo_ms; /* SLO; 0: the row is of several models */
    struct sim_model_result stats;
    uint32_t batch_max; /* largest batch: length of stats.batch_sizes less 1 */
};

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

static double ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

static double quantile_ms(const struct sim_times *times, double q) {
    return (double)sim_times_quantile_ns(times, q) / NS_PER_MS;
}

static uint64_t bad_of(const struct sim_model_result *m) {
    return m->dropped + m->late;
}

static double per_second(const struct simulation *s, uint64_t count) {
    return (double)count / s->cluster.config.seconds;
}

/* Items of a batch at quantile q, over batches. */
static uint32_t batch_quantile(const struct row *row, double q) {
    uint64_t seen = 0;
    for (uint32_t b = 0; b <= row->batch_max; b++) {
        seen += row->stats.batch_sizes[b];
        if (seen && (double)seen >= q * (double)row->stats.batches)
            return b;
    }
    return 0;
}

static struct row model_row(const struct simulation *s, uint32_t m) {
    return (struct row){
        .name = s->scenario.models[m].name,
        .slo_ms = (double)s->scenario.models[m].slo_ns / NS_PER_MS,
        .stats = s->result.models[m],
        .batch_max = s->cluster.models[m].batch_max,
    };
}

/* The row of all models and pipelines, on the heap since it is too large for a stack. NULL without memory. */
static struct row *all_row(const struct simulation *s) {
    uint32_t batch_max = 0;
    for (uint32_t m = 0; m < s->scenario.model_count; m++)
        if (s->cluster.models[m].batch_max > batch_max)
            batch_max = s->cluster.models[m].batch_max;
    struct row *all = calloc(1, sizeof(*all) + (batch_max + 1) * sizeof(uint32_t));
    if (!all)
        return NULL;
    all->name = "all";
    all->batch_max = batch_max;
    all->stats.batch_sizes = (uint32_t *)(all + 1);
    for (uint32_t m = 0; m < s->scenario.model_count; m++) {
        const struct sim_model_result *model = &s->result.models[m];
        all->stats.offered += model->offered;
        all->stats.good += model->good;
        all->stats.dropped += model->dropped;
        all->stats.late += model->late;
        all->stats.cancelled += model->cancelled;
        all->stats.batches += model->batches;
        all->stats.batch_items += model->batch_items;
        sim_times_merge(&all->stats.latency, &model->latency);
        sim_times_merge(&all->stats.queueing, &model->queueing);
        for (uint32_t b = 0; b <= s->cluster.models[m].batch_max; b++)
            all->stats.batch_sizes[b] += model->batch_sizes[b];
    }
    for (uint32_t p = 0; p < s->scenario.pipeline_count; p++) {
        const struct sim_pipeline_result *pipeline = &s->result.pipelines[p];
        all->stats.offered += pipeline->offered;
        all->stats.good += pipeline->good;
        all->stats.dropped += pipeline->dropped;
        all->stats.late += pipeline->late;
        all->stats.cancelled += pipeline->cancelled;
        sim_times_merge(&all->stats.latency, &pipeline->latency);
    }
    return all;
}

struct simulate_summary simulate_summarize(const struct simulation *s) {
    const struct sim_result *r = &s->result;
    struct row *all = all_row(s);
    struct simulate_summary summary = {
        .offered_rps = per_second(s, r->offered),
        .good_rps = per_second(s, r->good),
        .goodput_rps = s->goodput_rps,
        .bad_rate = share(r->dropped + r->late, r->offered),
        .busy = r->busy,
        .batch_mean = ratio((double)r->batch_items, (double)r->batches),
    };
    if (all) {
        summary.latency_p50_ms = quantile_ms(&all->stats.latency, 0.5);
        summary.latency_p99_ms = quantile_ms(&all->stats.latency, 0.99);
        summary.queue_p50_ms = quantile_ms(&all->stats.queueing, 0.5);
        summary.queue_p99_ms = quantile_ms(&all->stats.queueing, 0.99);
    }
    free(all);
    return summary;
}

/* ---- cost ---- */

/* Dollars an hour for the accelerators in service; 0: not all have a price. */
static double cost_per_hour(const struct simulation *s) {
    double cost = 0;
    for (uint32_t t = 0; t < s->scenario.type_count; t++) {
        const struct scenario_type *type = &s->scenario.types[t];
        if (type->price <= 0)
            return 0;
        cost += type->price * (s->cluster.config.autoscale ? s->result.accelerators_mean_of[t] : type->count);
    }
    return cost;
}

/* Dollars for a million good requests; 0: there are none. */
static double cost_per_million(const struct simulation *s) {
    return ratio(cost_per_hour(s) / 3600 * 1e6, per_second(s, s->result.good));
}

/* ---- table ---- */

static void row_put(struct text *to, const struct simulation *s, const struct row *row, int width) {
    const struct sim_model_result *m = &row->stats;
    text_printf(to, "%-*s ", width, row->name);
    if (row->slo_ms > 0)
        text_printf(to, "%8.4g", row->slo_ms);
    else
        text_printf(to, "%8s", "");
    text_printf(to, " %9.1f %9.1f %7.2f %7.2f %7.2f %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f %6.2f\n",
                per_second(s, m->offered), per_second(s, m->good), 100 * share(m->good, m->offered),
                100 * share(m->late, m->offered), 100 * share(m->dropped, m->offered), quantile_ms(&m->latency, 0.5),
                quantile_ms(&m->latency, 0.99), quantile_ms(&m->latency, 0.999), (double)m->latency.max_ns / NS_PER_MS,
                quantile_ms(&m->queueing, 0.5), quantile_ms(&m->queueing, 0.99),
                ratio((double)m->batch_items, (double)m->batches));
}

static void heading_put(struct text *to, const struct simulation *s, const char *path) {
    static const char *const arrivals[] = {"poisson", "uniform", "gamma", "recorded"};
    const struct scenario *sc = &s->scenario;
    text_printf(to, "%s: %s,", path, sc->policy->name);
    for (uint32_t t = 0; t < sc->type_count; t++)
        text_printf(to, "%s %u %s", t ? " and" : "", sc->types[t].count, sc->types[t].name);
    text_printf(to, ", %s arrivals, %.4g s after %.4g s of warm-up, seed %lld\n\n", arrivals[sc->arrivals],
                s->cluster.config.seconds, s->cluster.config.warmup_s, (long long)sc->seed);
}

static uint64_t class_offered(const struct sim_class_result *class) {
    uint64_t offered = 0;
    for (uint32_t i = 0; i < SIM_OUTCOMES; i++)
        offered += class->count[i];
    return offered;
}

static void class_put(struct text *to, const struct simulation *s, const char *model, const char *name,
                      const struct sim_class_result *class) {
    uint64_t offered = class_offered(class);
    text_printf(to, "%s, %s: %.1f /s offered, %.1f /s good, %.2f %% late, %.2f %% dropped, p50 %.3f ms, p99 %.3f ms\n",
                model, name, per_second(s, offered), per_second(s, class->count[SIM_GOOD]),
                100 * share(class->count[SIM_LATE], offered), 100 * share(class->count[SIM_DROPPED], offered),
                quantile_ms(&class->latency, 0.5), quantile_ms(&class->latency, 0.99));
}

/* Prints the classes of models whose requests have several. */
static void classes_put(struct text *to, const struct simulation *s) {
    for (uint32_t m = 0; m < s->scenario.model_count; m++) {
        const struct sim_model_result *result = &s->result.models[m];
        char name[32];
        for (uint32_t i = 0; result->priorities && i < s->scenario.models[m].priority_count; i++) {
            snprintf(name, sizeof(name), "priority %u", i + 1);
            class_put(to, s, s->scenario.models[m].name, name, &result->priorities[i]);
        }
        if (result->best_effort)
            class_put(to, s, s->scenario.models[m].name, "best effort", result->best_effort);
    }
}

struct ranked {
    double bad_rate;
    uint32_t model;
};

static int worse_first(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->bad_rate != y->bad_rate)
        return x->bad_rate < y->bad_rate ? 1 : -1;
    return x->model < y->model ? -1 : 1;
}

/* Prints all models or, if they are many, the worst. */
static void models_put(struct text *to, const struct simulation *s, const struct row *all) {
    uint32_t count = s->scenario.model_count, shown = count > TABLE_MODELS_MAX ? TABLE_WORST : count;
    struct ranked *order = calloc(count, sizeof(*order));
    if (!order)
        return;
    for (uint32_t m = 0; m < count; m++) {
        const struct sim_model_result *stats = &s->result.models[m];
        order[m] = (struct ranked){share(bad_of(stats), stats->offered), m};
    }
    if (shown < count)
        qsort(order, count, sizeof(*order), worse_first);
    int width = 5;
    for (uint32_t i = 0; i < shown; i++)
        if ((int)strlen(s->scenario.models[order[i].model].name) > width)
            width = (int)strlen(s->scenario.models[order[i].model].name);
    text_printf(to, "%-*s %8s %9s %9s %7s %7s %7s %8s %8s %8s %8s %8s %8s %6s\n", width, "", "SLO", "offered", "good",
                "good", "late", "dropped", "p50", "p99", "p99.9", "max", "queue", "queue", "batch");
    text_printf(to, "%-*s %8s %9s %9s %7s %7s %7s %8s %8s %8s %8s %8s %8s %6s\n", width, "model", "ms", "/s", "/s", "%",
                "%", "%", "ms", "ms", "ms", "ms", "p50 ms", "p99 ms", "mean");
    for (uint32_t i = 0; i < shown; i++) {
        struct row row = model_row(s, order[i].model);
        row_put(to, s, &row, width);
    }
    if (shown < count)
        text_printf(to, "%-*s %8s (the %u worst of %u models)\n", width, "...", "", shown, count);
    if (count > 1 || s->scenario.pipeline_count)
        row_put(to, s, all, width);
    free(order);
}

/* ---- models bound to accelerators ---- */

static bool binds(const struct simulation *s) {
    return s->scenario.policy->central && s->scenario.policy->central->moves;
}

static uint64_t placement_moves(const struct central_moves *m) {
    return m->places - m->kept;
}

static double hit_rate(const struct central_moves *m) {
    return m->places ? (double)m->kept / (double)m->places : 1;
}

static double placement_wait_ms(const struct central_moves *m) {
    return ratio((double)m->wait_ns, (double)placement_moves(m)) / NS_PER_MS;
}

/* ---- faults ---- */

/* Whether the scheduler may die, or requests may be sent again. */
static bool has_faults(const struct simulation *s) {
    return s->cluster.config.scheduler_every_s > 0 || s->cluster.config.fault_again;
}

/* Prints the share of each way by which the policy decided, if there are several. */
static void ways_put(const struct simulation *s, struct text *to) {
    const struct sim_config *c = &s->cluster.config;
    uint32_t ways = policy_ways(c->policy, &c->options);
    if (ways < 2 || s->result.way_share[0] > 0.999)
        return;
    for (uint32_t w = 0; w < ways; w++)
        text_printf(to, "%s%s %.1f %% of the time", w ? ", " : "waiting: ", c->policy->way_names[w],
                    100 * s->result.way_share[w]);
    text_put(to, "\n");
}

/* The reason of the last request that was dropped or late for it, in words as a server says them. */
static void reason_last_words(const struct simulation *s, int kind, char *out, size_t bytes) {
    const struct reason *reason = &s->result.reason_last[kind];
    bool named = reason->before < s->cluster.config.model_count;
    reason_words(reason, named ? s->scenario.models[reason->before].name : NULL, out, bytes);
}

/* Prints why requests were dropped or late, if some were. */
static void reasons_put(const struct simulation *s, struct text *to) {
    for (int k = 0; k < REASON_COUNT; k++) {
        char words[256];
        uint64_t count = s->result.reasons[k];
        if (!count)
            continue;
        reason_last_words(s, k, words, sizeof(words));
        text_printf(to, "bad: %s %.2f %%%s%s\n", reason_name((enum reason_kind)k),
                    100 * share(count, s->result.offered), *words ? ", the last: " : "", words);
    }
}

static void reasons_json(json_t *json, const struct simulation *s) {
    json_t *reasons = json_object(), *words = json_object();
    for (int k = 0; k < REASON_COUNT; k++) {
        char last[256];
        if (!s->result.reasons[k])
            continue;
        reason_last_words(s, k, last, sizeof(last));
        json_object_set_new(reasons, reason_name((enum reason_kind)k), json_integer((json_int_t)s->result.reasons[k]));
        json_object_set_new(words, reason_name((enum reason_kind)k), json_string(last));
    }
    json_object_set_new(json, "bad_reasons", reasons);
    json_object_set_new(json, "bad_words", words);
}

void simulate_table(const struct simulation *s, const char *path, struct text *to) {
    const struct sim_result *r = &s->result;
    const char *whose = s->scenario.pipeline_count ? "model's requests and pipeline's queries" : "model's";
    struct row *all = all_row(s);
    if (!all) {
        to->failed = true;
        return;
    }
    heading_put(to, s, path);
    models_put(to, s, all);
    classes_put(to, s);
    simulate_pipelines_table(s, to);
    text_printf(to, "\naccelerators: %.2f %% busy, %.2f %% idle; %u of %u used\n", 100 * r->busy, 100 * (1 - r->busy),
                r->accelerators_used, s->cluster.config.accelerators);
    reasons_put(s, to);
    if (s->scenario.subclusters > 1)
        text_printf(to, "sub-clusters: %u; models moved %llu times, each %.4g ms without a rank core, at most %.4g\n",
                    s->scenario.subclusters, (unsigned long long)r->moves,
                    ratio((double)r->move_wait_ns, (double)r->moves) / NS_PER_MS,
                    (double)r->move_wait_max_ns / NS_PER_MS);
    if (binds(s))
        text_printf(
            to,
            "plans: %llu since the first request; %.2f %% of their models' places were there before; %llu moves, each "
            "%.4g ms until loaded, at most %.4g\n",
            (unsigned long long)r->placement.plans, 100 * hit_rate(&r->placement),
            (unsigned long long)placement_moves(&r->placement), placement_wait_ms(&r->placement),
            (double)r->placement.wait_max_ns / NS_PER_MS);
    if (has_faults(s))
        text_printf(to, "faults: the scheduler died %llu times; %llu requests were sent again\n",
                    (unsigned long long)r->takeovers, (unsigned long long)r->sent_again);
    if (s->cluster.config.autoscale)
        text_printf(to, "in service: %.2f on average, at most %u; changed %u times\n", r->accelerators_mean,
                    r->accelerators_max, r->advice_count);
    for (uint32_t t = 0; s->cluster.config.autoscale && s->scenario.type_count > 1 && t < s->scenario.type_count; t++)
        text_printf(to, "  %-20s %.2f on average; %u advised last\n", s->scenario.types[t].name,
                    r->accelerators_mean_of[t], r->advice_count ? r->advice[r->advice_count - 1].of_type[t] : 0);
    ways_put(s, to);
    if (r->batches)
        text_printf(to, "batches: %.1f /s of %.2f items on average, p10 %u, p50 %u, p90 %u, greatest %u\n",
                    per_second(s, r->batches), (double)r->batch_items / (double)r->batches, batch_quantile(all, 0.1),
                    batch_quantile(all, 0.5), batch_quantile(all, 0.9), batch_quantile(all, 1));
    if (cost_per_hour(s) > 0 && r->good)
        text_printf(to, "cost: %.4g dollars an hour, %.4g dollars for a million good requests\n", cost_per_hour(s),
                    cost_per_million(s));
    if (s->cluster.config.memory_bytes)
        text_printf(to, "models loaded %llu times; %.2f %% of the requests came while an accelerator had their model\n",
                    (unsigned long long)r->loads, 100 * (1 - share(r->cold, r->offered)));
    if (s->searched && s->goodput_rps > 0)
        text_printf(to, "goodput: %.6g requests/s, with at least 99 %% of every %s good (%u rates tried)\n",
                    s->goodput_rps, whose, s->trial_count);
    else if (s->searched)
        text_printf(to, "goodput: none: no rate was found at which 99 %% of every %s are good\n",
                    s->scenario.pipeline_count ? whose : "model's requests");
    free(all);
}

/* ---- sweeps ---- */

static int key_width(const struct sweep *sweep) {
    size_t width = strlen(sweep->key);
    for (uint32_t i = 0; i < sweep->count; i++)
        width = strlen(sweep->values[i]) > width ? strlen(sweep->values[i]) : width;
    return (int)width;
}

void simulate_sweep_head(const struct sweep *sweeps, uint32_t count, bool searched, struct text *to) {
    for (uint32_t i = 0; i < count; i++)
        text_printf(to, "%-*s  ", key_width(&sweeps[i]), sweeps[i].key);
    if (searched)
        text_printf(to, "%9s ", "goodput");
    text_printf(to, "%9s %9s %7s %7s %6s %8s %8s %8s %8s\n", "offered", "good", "bad %", "busy %", "batch", "p50 ms",
                "p99 ms", "queue 50", "queue 99");
}

void simulate_sweep_line(const struct simulate_point *point, const struct simulate_summary *m, bool searched,
                         struct text *to) {
    for (uint32_t i = 0; i < point->count; i++)
        text_printf(to, "%-*s  ", key_width(&point->sweeps[i]),
                    sweep_value(point->sweeps, point->count, i, point->number));
    if (searched)
        text_printf(to, "%9.1f ", m->goodput_rps);
    text_printf(to, "%9.1f %9.1f %7.2f %7.2f %6.2f %8.3f %8.3f %8.3f %8.3f\n", m->offered_rps, m->good_rps,
                100 * m->bad_rate, 100 * m->busy, m->batch_mean, m->latency_p50_ms, m->latency_p99_ms, m->queue_p50_ms,
                m->queue_p99_ms);
}

/* ---- CSV ---- */

/* A field and the comma behind it, in quotes where RFC 4180 asks for them. */
static void field_put(struct text *to, const char *field) {
    bool quoted = field[strcspn(field, ",\"\r\n")] != '\0';
    if (quoted)
        text_put_char(to, '"');
    for (; *field; field++) {
        if (*field == '"')
            text_put_char(to, '"');
        text_put_char(to, *field);
    }
    text_put(to, quoted ? "\"," : ",");
}

void simulate_csv_head(const struct sweep *sweeps, uint32_t count, struct text *to) {
    for (uint32_t i = 0; i < count; i++)
        field_put(to, sweeps[i].key);
    text_put(to, "policy,seed,model,slo_ms,goodput_rps,offered_rps,good_rps,bad_rate,dropped_rate,late_rate,requests,"
                 "batch_mean,latency_p50_ms,latency_p99_ms,latency_p999_ms,queue_p50_ms,queue_p99_ms\n");
}

static void csv_line(const struct simulation *s, const struct simulate_point *point, const struct row *row,
                     bool searched, struct text *to) {
    const struct sim_model_result *m = &row->stats;
    for (uint32_t i = 0; i < point->count; i++)
        field_put(to, sweep_value(point->sweeps, point->count, i, point->number));
    text_printf(to, "%s,%llu,", s->scenario.policy->name, (unsigned long long)s->scenario.seed);
    field_put(to, row->name);
    if (row->slo_ms > 0)
        text_printf(to, "%.10g", row->slo_ms);
    text_put_char(to, ',');
    if (searched)
        text_printf(to, "%.10g", s->goodput_rps);
    text_printf(to, ",%.10g,%.10g,%.10g,%.10g,%.10g,%llu,%.10g,%.10g,%.10g,%.10g,%.10g,%.10g\n",
                per_second(s, m->offered), per_second(s, m->good), share(bad_of(m), m->offered),
                share(m->dropped, m->offered), share(m->late, m->offered), (unsigned long long)m->offered,
                ratio((double)m->batch_items, (double)m->batches), quantile_ms(&m->latency, 0.5),
                quantile_ms(&m->latency, 0.99), quantile_ms(&m->latency, 0.999), quantile_ms(&m->queueing, 0.5),
                quantile_ms(&m->queueing, 0.99));
}

int simulate_csv(const struct simulation *s, const struct simulate_point *point, struct text *to) {
    struct row *all = all_row(s);
    if (!all)
        return -ENOMEM;
    csv_line(s, point, all, s->searched, to);
    for (uint32_t m = 0; m < s->scenario.model_count; m++) {
        struct row row = model_row(s, m);
        csv_line(s, point, &row, false, to);
    }
    free(all);
    return 0;
}

/* ---- JSON ---- */

/* Adds to `json` the members that one model and the total have in common. */
static void row_json(json_t *json, const struct simulation *s, const struct row *row) {
    const struct sim_model_result *m = &row->stats;
    json_t *more = json_pack(
        "{s:f,s:f,s:f,s:f,s:f,s:I,s:f,s:{s:i,s:i,s:i},s:{s:f,s:f,s:f,s:f},s:{s:f,s:f}}", "offered_rps",
        per_second(s, m->offered), "good_rps", per_second(s, m->good), "bad_rate", share(bad_of(m), m->offered),
        "dropped_rate", share(m->dropped, m->offered), "late_rate", share(m->late, m->offered), "requests",
        (json_int_t)m->offered, "batch_mean", ratio((double)m->batch_items, (double)m->batches), "batch_size", "p50",
        (int)batch_quantile(row, 0.5), "p90", (int)batch_quantile(row, 0.9), "max", (int)batch_quantile(row, 1),
        "latency_ms", "p50", quantile_ms(&m->latency, 0.5), "p99", quantile_ms(&m->latency, 0.99), "p999",
        quantile_ms(&m->latency, 0.999), "max", (double)m->latency.max_ns / NS_PER_MS, "queue_ms", "p50",
        quantile_ms(&m->queueing, 0.5), "p99", quantile_ms(&m->queueing, 0.99));
    json_object_update(json, more);
    json_decref(more);
    if (m->cancelled)
        json_object_set_new(json, "cancelled_rate", json_real(share(m->cancelled, m->offered)));
}

static json_t *class_json(const struct simulation *s, const struct sim_class_result *class) {
    uint64_t offered = class_offered(class);
    json_t *json =
        json_pack("{s:f,s:f,s:f,s:f,s:I,s:{s:f,s:f,s:f,s:f}}", "offered_rps", per_second(s, offered), "good_rps",
                  per_second(s, class->count[SIM_GOOD]), "dropped_rate", share(class->count[SIM_DROPPED], offered),
                  "late_rate", share(class->count[SIM_LATE], offered), "requests", (json_int_t)offered, "latency_ms",
                  "p50", quantile_ms(&class->latency, 0.5), "p99", quantile_ms(&class->latency, 0.99), "p999",
                  quantile_ms(&class->latency, 0.999), "max", (double)class->latency.max_ns / NS_PER_MS);
    return json;
}

static void classes_json(json_t *json, const struct simulation *s, uint32_t m) {
    const struct sim_model_result *result = &s->result.models[m];
    json_t *list = json_array();
    for (uint32_t i = 0; result->priorities && i < s->scenario.models[m].priority_count; i++)
        json_array_append_new(list, class_json(s, &result->priorities[i]));
    if (result->priorities)
        json_object_set(json, "priorities", list);
    json_decref(list);
    if (result->best_effort)
        json_object_set_new(json, "best_effort", class_json(s, result->best_effort));
}

static void loads_json(json_t *json, const struct simulation *s, uint64_t loads, uint64_t cold, uint64_t offered) {
    if (!s->cluster.config.memory_bytes)
        return;
    json_object_set_new(json, "loads", json_integer((json_int_t)loads));
    json_object_set_new(json, "hit_rate", json_real(1 - share(cold, offered)));
}

/* Writes how the batches of variants were divided among the variants. */
static void variants_json(json_t *json, const struct simulation *s, uint32_t m) {
    const struct sim_model_result *result = &s->result.models[m];
    if (!s->cluster.models[m].variants)
        return;
    json_object_set_new(json, "variants",
                        json_pack("{s:i,s:f,s:f}", "count", (int)s->cluster.models[m].variants, "suffixes_per_batch",
                                  ratio((double)result->suffix_runs, (double)result->batches), "suffix_share",
                                  ratio((double)result->suffix_ns, (double)(result->prefix_ns + result->suffix_ns))));
}

static json_t *models_json(const struct simulation *s) {
    json_t *list = json_array();
    for (uint32_t m = 0; m < s->scenario.model_count; m++) {
        struct row row = model_row(s, m);
        json_t *model = json_pack("{s:s,s:f}", "name", row.name, "slo_ms", row.slo_ms);
        row_json(model, s, &row);
        if (s->scenario.subclusters > 1)
            json_object_set_new(model, "moves", json_integer((json_int_t)s->result.models[m].moves));
        loads_json(model, s, row.stats.loads, row.stats.cold, row.stats.offered);
        classes_json(model, s, m);
        variants_json(model, s, m);
        json_array_append_new(list, model);
    }
    return list;
}

static json_t *value_json(const char *value) {
    int64_t whole;
    double number;
    if (decimal_int(value, -(1LL << 53), 1LL << 53, &whole) == 0)
        return json_integer(whole);
    return decimal_double(value, -DBL_MAX, DBL_MAX, &number) == 0 ? json_real(number) : json_string(value);
}

static void autoscale_json(json_t *json, const struct simulation *s) {
    const struct sim_result *r = &s->result;
    if (!s->cluster.config.autoscale)
        return;
    json_t *advice = json_array();
    for (uint32_t i = 0; i < r->advice_count; i++) {
        json_t *change =
            json_pack("{s:f,s:i}", "second", r->advice[i].at_s, "accelerators", (int)r->advice[i].accelerators);
        json_t *of_type = s->scenario.type_count > 1 ? json_object() : NULL;
        for (uint32_t t = 0; of_type && t < s->scenario.type_count; t++)
            json_object_set_new(of_type, s->scenario.types[t].name, json_integer(r->advice[i].of_type[t]));
        if (of_type)
            json_object_set_new(change, "types", of_type);
        json_array_append_new(advice, change);
    }
    json_object_set_new(json, "accelerators_mean", json_real(r->accelerators_mean));
    json_object_set_new(json, "accelerators_max", json_integer(r->accelerators_max));
    json_object_set_new(json, "advice", advice);
}

static void placement_json(json_t *json, const struct simulation *s) {
    const struct central_moves *m = &s->result.placement;
    if (binds(s))
        json_object_set_new(json, "placement",
                            json_pack("{s:I,s:f,s:I,s:I,s:f,s:f}", "plans", (json_int_t)m->plans, "hit_rate",
                                      hit_rate(m), "moves", (json_int_t)placement_moves(m), "requests_moved",
                                      (json_int_t)m->requests, "wait_mean_ms", placement_wait_ms(m), "wait_max_ms",
                                      (double)m->wait_max_ns / NS_PER_MS));
}

static void ways_json(json_t *json, const struct simulation *s) {
    const struct sim_config *c = &s->cluster.config;
    uint32_t ways = policy_ways(c->policy, &c->options);
    json_t *shares = ways > 1 ? json_object() : NULL;
    for (uint32_t w = 0; shares && w < ways; w++)
        json_object_set_new(shares, c->policy->way_names[w], json_real(s->result.way_share[w]));
    if (shares)
        json_object_set_new(json, "ways", shares);
}

static void cost_json(json_t *json, const struct simulation *s) {
    if (cost_per_hour(s) <= 0)
        return;
    json_t *each = s->result.good ? json_real(cost_per_million(s)) : json_null();
    json_object_set_new(json, "cost_dollars",
                        json_pack("{s:f,s:o}", "per_hour", cost_per_hour(s), "per_million_good", each));
}

static json_t *simulation_json(const struct simulation *s, const struct simulate_point *point, const struct row *all) {
    const struct sim_result *r = &s->result;
    json_t *json =
        json_pack("{s:s,s:I,s:f,s:f}", "policy", s->scenario.policy->name, "seed", (json_int_t)s->scenario.seed,
                  "seconds", s->cluster.config.seconds, "warmup_seconds", s->cluster.config.warmup_s);
    if (point->count) {
        json_t *set = json_object();
        for (uint32_t i = 0; i < point->count; i++)
            json_object_set_new(set, point->sweeps[i].key,
                                value_json(sweep_value(point->sweeps, point->count, i, point->number)));
        json_object_set_new(json, "sweep", set);
    }
    json_object_set_new(json, "goodput_rps", s->searched ? json_real(s->goodput_rps) : json_null());
    row_json(json, s, all);
    json_object_set_new(json, "worst_bad_rate", json_real(r->worst_bad_rate));
    json_t *types = json_object();
    for (uint32_t t = 0; t < s->scenario.type_count; t++)
        json_object_set_new(types, s->scenario.types[t].name, json_integer(s->scenario.types[t].count));
    json_object_set_new(json, "accelerators", types);
    json_object_set_new(json, "accelerators_used", json_integer(r->accelerators_used));
    json_object_set_new(json, "accelerator_busy", json_real(r->busy));
    json_object_set_new(json, "accelerator_idle", json_real(1 - r->busy));
    reasons_json(json, s);
    autoscale_json(json, s);
    if (s->scenario.subclusters > 1)
        json_object_set_new(json, "moves",
                            json_pack("{s:i,s:I,s:f,s:f}", "subclusters", (int)s->scenario.subclusters, "count",
                                      (json_int_t)r->moves, "wait_mean_ms",
                                      ratio((double)r->move_wait_ns, (double)r->moves) / NS_PER_MS, "wait_max_ms",
                                      (double)r->move_wait_max_ns / NS_PER_MS));
    placement_json(json, s);
    if (has_faults(s))
        json_object_set_new(json, "faults",
                            json_pack("{s:I,s:I}", "takeovers", (json_int_t)s->result.takeovers, "sent_again",
                                      (json_int_t)s->result.sent_again));
    ways_json(json, s);
    cost_json(json, s);
    json_t *sizes = json_array();
    for (uint32_t b = 0; b <= all->batch_max; b++)
        if (all->stats.batch_sizes[b])
            json_array_append_new(sizes, json_pack("[i,I]", (int)b, (json_int_t)all->stats.batch_sizes[b]));
    json_object_set_new(json, "batch_sizes", sizes);
    loads_json(json, s, r->loads, r->cold, r->offered);
    if (s->searched) {
        json_t *trials = json_array();
        for (uint32_t i = 0; i < s->trial_count; i++)
            json_array_append_new(trials,
                                  json_pack("{s:f,s:b}", "rate_rps", s->trials[i].rate_rps, "held", s->trials[i].held));
        json_object_set_new(json, "trials", trials);
    }
    json_object_set_new(json, "models", models_json(s));
    if (s->scenario.pipeline_count)
        json_object_set_new(json, "pipelines", simulate_pipelines_json(s));
    return json;
}

static int json_put(const char *piece, size_t length, void *to) {
    text_append(to, piece, length);
    return ((struct text *)to)->failed ? -1 : 0;
}

int simulate_json(const struct simulation *s, const struct simulate_point *point, struct text *to) {
    struct row *all = all_row(s);
    json_t *json = all ? simulation_json(s, point, all) : NULL;
    int rc = json ? json_dump_callback(json, json_put, to, JSON_INDENT(2) | JSON_REAL_PRECISION(10)) : -1;
    json_decref(json);
    free(all);
    return rc ? -ENOMEM : 0;
}
