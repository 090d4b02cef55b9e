/* infer_metrics.c - writes the frontends' counters of infer requests, summed over all frontends. */
#include "server/stats/infer_metrics.h"

#include <string.h>

#include "core/util/container.h"
#include "core/util/counter.h"
#include "core/util/time.h"
#include "front/net/metric_text.h"
#include "front/request/ensemble_plan.h"

#define REQUEST_DURATION      "symphony_request_duration_seconds"
#define REQUEST_DURATION_HELP "From the first byte of a request to its answer, of those answered."

/* The arguments of the functions below, each of which sums one counter over the frontends. */
struct rendering {
    const struct frontend_counters *frontends;
    uint32_t count;
    const struct model_index *models; /* models as they are now; the listed ones are shown */
    struct text *out;
};

static void row_begin(const struct rendering *r, const char *name, uint32_t model) {
    const struct served_model *m = &r->models->models[model];
    text_printf(r->out, "%s{%s", name, metric_model(m).text);
}

static void render_outcomes(const struct rendering *r) {
    static const char *const names[OUTCOME_COUNT] = {"ok", "refused", "client_error", "failed", "cancelled"};
    metric_heading(r->out, "symphony_requests_total", "counter", "Infer requests by how they ended.");
    for (const uint32_t *m = r->models->listed; m < r->models->listed + r->models->count; m++)
        for (int o = 0; o < OUTCOME_COUNT; o++) {
            uint64_t sum = 0;
            for (uint32_t f = 0; f < r->count; f++)
                sum += counter_get(&r->frontends[f].requests->models[*m].outcomes[o]);
            row_begin(r, "symphony_requests_total", *m);
            text_printf(r->out, ",outcome=\"%s\"} %llu\n", names[o], (unsigned long long)sum);
        }
    metric_heading(r->out, "symphony_requests_in_time_total", "counter", "Infer requests answered by their deadline.");
    for (const uint32_t *m = r->models->listed; m < r->models->listed + r->models->count; m++) {
        uint64_t sum = 0;
        for (uint32_t f = 0; f < r->count; f++)
            sum += counter_get(&r->frontends[f].requests->models[*m].in_time);
        row_begin(r, "symphony_requests_in_time_total", *m);
        text_printf(r->out, "} %llu\n", (unsigned long long)sum);
    }
}

void infer_metrics_render_refused(const struct frontend_counters *frontends, uint32_t count,
                                  const struct model_index *models, struct text *out) {
    const struct rendering r = {frontends, count, models, out};
    metric_heading(out, "symphony_refused_requests_total", "counter",
                   "Requests that came back to the frontend without having run.");
    for (const uint32_t *m = models->listed; m < models->listed + models->count; m++)
        for (enum refusal reason = REFUSAL_DEADLINE; reason < REFUSAL_COUNT; reason++) {
            if (reason == REFUSAL_CANCELLED)
                continue; /* these are no refusals */
            uint64_t sum = 0;
            for (uint32_t f = 0; f < count; f++)
                sum += counter_get(&frontends[f].requests->models[*m].refused[reason]);
            row_begin(&r, "symphony_refused_requests_total", *m);
            text_printf(out, ",reason=\"%s\"} %llu\n", metric_refusal(reason), (unsigned long long)sum);
        }
}

/* Add to counts[i] the number of values of at most edges_ns[i]. */
static void latency_count(const struct model_infer_counters *m, const int64_t *edges_ns, uint32_t n, uint64_t *counts) {
    fine_histogram_count_until(&m->latency_ns, edges_ns, n, counts);
}

static void queue_count(const struct model_infer_counters *m, const int64_t *edges_ns, uint32_t n, uint64_t *counts) {
    for (uint32_t i = 0; i < n; i++)
        counts[i] += histogram_count_until(&m->queue_ns, edges_ns[i]);
}

static void bucket_row(const struct rendering *r, const char *name, uint32_t model, int64_t edge_ns, uint64_t count) {
    char suffixed[96];
    strcat(strcpy(suffixed, name), "_bucket");
    row_begin(r, suffixed, model);
    if (edge_ns == INT64_MAX)
        text_printf(r->out, ",le=\"+Inf\"} %llu\n", (unsigned long long)count);
    else
        text_printf(r->out, ",le=\"%.12g\"} %llu\n", (double)edge_ns / NS_PER_S, (unsigned long long)count);
}

static void sum_row(const struct rendering *r, const char *name, uint32_t model, uint64_t sum_ns) {
    char suffixed[96];
    strcat(strcpy(suffixed, name), "_sum");
    row_begin(r, suffixed, model);
    text_printf(r->out, "} %.9g\n", (double)sum_ns / NS_PER_S);
}

static void count_row(const struct rendering *r, const char *name, uint32_t model, uint64_t count) {
    char suffixed[96];
    strcat(strcpy(suffixed, name), "_count");
    row_begin(r, suffixed, model);
    text_printf(r->out, "} %llu\n", (unsigned long long)count);
}

static void render_histogram(const struct rendering *r, const char *name, const char *help,
                             void (*count)(const struct model_infer_counters *, const int64_t *, uint32_t, uint64_t *),
                             size_t sum_offset) {
#define US(n) ((n)*NS_PER_US)
    static const int64_t edges_ns[] = {US(100),     US(200),     US(500),    US(1000),   US(2000),   US(5000),
                                       US(10000),   US(15000),   US(20000),  US(25000),  US(30000),  US(50000),
                                       US(75000),   US(100000),  US(150000), US(200000), US(500000), US(1000000),
                                       US(2000000), US(5000000), INT64_MAX};
#undef US
    metric_heading(r->out, name, "histogram", help);
    for (const uint32_t *m = r->models->listed; m < r->models->listed + r->models->count; m++) {
        uint64_t until[ARRAY_COUNT(edges_ns)] = {0}, sum = 0;
        for (uint32_t f = 0; f < r->count; f++) {
            const struct model_infer_counters *counters = &r->frontends[f].requests->models[*m];
            count(counters, edges_ns, ARRAY_COUNT(edges_ns), until);
            sum += counter_get((const void *)((const char *)counters + sum_offset));
        }
        for (unsigned e = 0; e < ARRAY_COUNT(edges_ns); e++)
            bucket_row(r, name, *m, edges_ns[e], until[e]);
        sum_row(r, name, *m, sum);
        count_row(r, name, *m, until[ARRAY_COUNT(edges_ns) - 1]);
    }
}

static void prepare_count(const struct model_infer_counters *m, const int64_t *edges_ns, uint32_t n, uint64_t *counts) {
    for (uint32_t i = 0; i < n; i++)
        counts[i] += histogram_count_until(&m->prepare_ns, edges_ns[i]);
}

/* Of models that prepare their inputs (front/request/preparation.h). */
static void render_preparations(const struct rendering *r) {
    static const char *const names[PREPARATION_ENDS] = {"done", "bad", "failed", "late"};
    bool any = false;
    for (uint32_t i = 0; i < r->models->count && !any; i++)
        any = r->models->models[r->models->listed[i]].prepared;
    if (!any)
        return;
    metric_heading(
        r->out, "symphony_preparations_total", "counter",
        "Preparations of requests' inputs: done, bad (the image cannot be decoded), failed (the model that prepares "
        "did), or late (not begun, or stopped, since the request had ended).");
    for (const uint32_t *m = r->models->listed; m < r->models->listed + r->models->count; m++)
        for (int end = 0; end < PREPARATION_ENDS && r->models->models[*m].prepared; end++) {
            uint64_t sum = 0;
            for (uint32_t f = 0; f < r->count; f++)
                sum += counter_get(&r->frontends[f].requests->models[*m].preparations[end]);
            row_begin(r, "symphony_preparations_total", *m);
            text_printf(r->out, ",end=\"%s\"} %llu\n", names[end], (unsigned long long)sum);
        }
    metric_heading(r->out, "symphony_requests_left_out_total", "counter",
                   "Times that a batch ran without a request, since its inputs were not prepared yet.");
    for (const uint32_t *m = r->models->listed; m < r->models->listed + r->models->count; m++) {
        uint64_t sum = 0;
        if (!r->models->models[*m].prepared)
            continue;
        for (uint32_t f = 0; f < r->count; f++)
            sum += counter_get(&r->frontends[f].requests->models[*m].left_out);
        row_begin(r, "symphony_requests_left_out_total", *m);
        text_printf(r->out, "} %llu\n", (unsigned long long)sum);
    }
    render_histogram(r, "symphony_prepare_duration_seconds", "Time of a thread that prepared a request's inputs.",
                     prepare_count, offsetof(struct model_infer_counters, prepare_ns.sum));
}

static void render_totals(const struct rendering *r, struct slab_use bulk) {
    uint64_t body = 0, taken = bulk.taken, mapped = bulk.mapped, in_flight = 0;
    for (uint32_t f = 0; f < r->count; f++) {
        body += counter_get(&r->frontends[f].requests->body_bytes);
        taken += counter_get(&r->frontends[f].requests->inputs_bytes_taken);
        mapped += counter_get(&r->frontends[f].requests->inputs_bytes_mapped);
        in_flight += atomic_load_explicit(&r->frontends[f].requests->in_flight, memory_order_relaxed); /* statistics */
    }
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } rows[] = {
        {"symphony_request_bytes_total", "counter", "Bytes of infer requests' bodies.", body},
        {"symphony_requests_in_flight", "gauge", "Infer requests being read, run or answered.", in_flight},
        {"symphony_inputs_bytes", "gauge", "Memory that requests' inputs take.", taken},
        {"symphony_inputs_mapped_bytes", "gauge", "Memory held for inputs, free blocks included.", mapped},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
        metric_heading(r->out, rows[i].name, rows[i].type, rows[i].help);
        text_printf(r->out, "%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
    }
}

/* A counter of the steps of all ensembles. */
static void render_steps_counter(const struct rendering *r, const char *name, const char *help, size_t offset,
                                 bool seconds) {
    metric_heading(r->out, name, "counter", help);
    for (const uint32_t *m = r->models->listed; m < r->models->listed + r->models->count; m++) {
        const struct ensemble_plan *plan =
            atomic_load_explicit(&r->models->models[*m].plan, memory_order_relaxed); /* under the models' lock */
        const struct ensemble *e = plan ? plan->ensemble : r->models->models[*m].ensemble;
        for (uint32_t v = 0; e && v < e->step_count; v++) {
            uint64_t sum = 0;
            for (uint32_t f = 0; f < r->count; f++) {
                const struct step_counters *steps = infer_counters_steps_of(r->frontends[f].requests, *m);
                sum += steps ? counter_get((const _Atomic uint64_t *)((const char *)steps + offset) + v) : 0;
            }
            row_begin(r, name, *m);
            text_printf(r->out, ",step=\"%s\",step_model=\"%s\"} %.9g\n", e->steps[v].label,
                        metric_label(e->steps[v].model).text, seconds ? (double)sum / 1e9 : (double)sum);
        }
    }
}

/* Writes the outcomes and times of ensembles' steps; nothing without ensembles. */
static void render_steps(const struct rendering *r) {
    bool any = false;
    for (uint32_t i = 0; i < r->models->count && !any; i++)
        any = r->models->models[r->models->listed[i]].ensemble;
    if (!any)
        return;
    render_steps_counter(r, "symphony_ensemble_step_items_total",
                         "Items that a step of an ensemble has asked its model for.",
                         offsetof(struct step_counters, items), false);
    render_steps_counter(r, "symphony_ensemble_steps_total",
                         "Times that a step of an ensemble has run: it had something to do, and all of it ended.",
                         offsetof(struct step_counters, ended), false);
    render_steps_counter(r, "symphony_ensemble_step_seconds_total",
                         "From the beginning of steps to the end of their last item, of those that ran.",
                         offsetof(struct step_counters, took_ns), true);
    metric_heading(r->out, "symphony_ensemble_step_part_seconds", "gauge",
                   "Part of the ensemble's SLO that a step has.");
    for (const uint32_t *m = r->models->listed; m < r->models->listed + r->models->count; m++) {
        const struct ensemble_plan *plan =
            atomic_load_explicit(&r->models->models[*m].plan, memory_order_relaxed); /* as above */
        for (uint32_t v = 0; plan && v < plan->ensemble->step_count; v++) {
            row_begin(r, "symphony_ensemble_step_part_seconds", *m);
            text_printf(r->out, ",step=\"%s\",step_model=\"%s\"} %.9g\n", plan->ensemble->steps[v].label,
                        metric_label(plan->ensemble->steps[v].model).text,
                        (double)atomic_load_explicit(&plan->part_ns[v], memory_order_relaxed) / 1e9);
        }
    }
}

void infer_metrics_render(const struct frontend_counters *frontends, uint32_t count, const struct model_index *models,
                          struct slab_use bulk, struct text *out) {
    const struct rendering r = {frontends, count, models, out};
    render_outcomes(&r);
    render_histogram(&r, REQUEST_DURATION, REQUEST_DURATION_HELP, latency_count,
                     offsetof(struct model_infer_counters, latency_ns.sum));
    render_histogram(&r, "symphony_queue_duration_seconds",
                     "From the first byte of a request to the start of its run, of those answered.", queue_count,
                     offsetof(struct model_infer_counters, queue_ns.sum));
    render_preparations(&r);
    render_totals(&r, bulk);
    render_steps(&r);
}

void infer_metrics_render_fine(const struct frontend_counters *frontends, uint32_t count,
                               const struct model_index *models, struct text *out) {
    const struct rendering r = {frontends, count, models, out};
    metric_heading(out, REQUEST_DURATION, "histogram", REQUEST_DURATION_HELP);
    for (const uint32_t *m = models->listed; m < models->listed + models->count; m++) {
        /* a bucket in which something was counted is shown by both of its edges */
        uint32_t model = *m;
        uint64_t total = 0, sum = 0;
        int64_t shown = -1;
        for (uint32_t i = 0; i < FINE_HISTOGRAM_BUCKETS; i++) {
            uint64_t here = 0;
            int64_t least, greatest;
            for (uint32_t f = 0; f < r.count; f++)
                here += counter_get(&r.frontends[f].requests->models[model].latency_ns.buckets[i]);
            if (!here)
                continue;
            fine_histogram_edges(i, &least, &greatest);
            if (shown < least - 1)
                bucket_row(&r, REQUEST_DURATION, model, least - 1, total);
            total += here;
            bucket_row(&r, REQUEST_DURATION, model, greatest, total);
            shown = greatest;
        }
        if (shown != INT64_MAX)
            bucket_row(&r, REQUEST_DURATION, model, INT64_MAX, total);
        for (uint32_t f = 0; f < r.count; f++)
            sum += counter_get(&r.frontends[f].requests->models[model].latency_ns.sum);
        sum_row(&r, REQUEST_DURATION, model, sum);
        count_row(&r, REQUEST_DURATION, model, total);
    }
}
