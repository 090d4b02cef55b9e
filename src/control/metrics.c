/* metrics.c - the server's statistics in Prometheus' text format. Reads what the threads write; disturbs none. */
#include <stdio.h>

#include "base/clock.h"
#include "base/counter.h"
#include "control/server_state.h"
#include "net/frontend_loop.h"
#include "request/bulk.h"
#include "stats/infer_metrics.h"
#include "stats/metric_text.h"

static const int64_t batch_edges[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
static const int64_t time_edges_us[] = {100,   200,    500,    1000,   2000,    5000,    10000,  20000,
                                        50000, 100000, 200000, 500000, 1000000, 2000000, 5000000};

/* One model's histogram; `unit` divides values and edges: 1e9 for nanoseconds shown as seconds. */
static void render_histogram(struct text *out, const char *name, const char *labels, const struct histogram *h,
                             const int64_t *edges, unsigned count, int64_t scale, double unit) {
    for (unsigned i = 0; i < count; i++)
        text_printf(out, "%s_bucket{%s,le=\"%g\"} %llu\n", name, labels, (double)(edges[i] * scale) / unit,
                    (unsigned long long)histogram_count_until(h, edges[i] * scale));
    unsigned long long total = histogram_count_until(h, INT64_MAX);
    text_printf(out, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels, total);
    text_printf(out, "%s_sum{%s} %.9g\n", name, labels, (double)counter_get(&h->sum) / unit);
    text_printf(out, "%s_count{%s} %llu\n", name, labels, total);
}

/* What the label says of a scheduling thread's refusals. */
static const struct {
    const char *name;
    enum refusal reason;
} refusals[] = {
    {"deadline", REFUSAL_DEADLINE},
    {"queue_full", REFUSAL_QUEUE_FULL},
    {"best_effort_full", REFUSAL_BEST_EFFORT_FULL},
    {"scheduler_full", REFUSAL_POOL_FULL},
    {"scheduler_busy", REFUSAL_THREAD_BUSY},
    {"accelerator_full", REFUSAL_PLANS_FULL},
    {"shapes", REFUSAL_SHAPES},
    {"no_accelerator", REFUSAL_STRANDED},
    {"cancelled", REFUSAL_CANCELLED},
};

static void render_models(const struct server *s, const struct model_index *listed, struct text *out) {
    const struct served_model *models = s->config.models;

    metric_heading(out, "symphony_model_ready", "gauge", "1 if the model is served, 0 if it was set aside.");
    for (const uint32_t *i = listed->listed; i < listed->listed + listed->count; i++)
        text_printf(out, "symphony_model_ready{%s} %d\n", metric_model(&models[*i]).text,
                    atomic_load_explicit(&models[*i].state, memory_order_relaxed) == MODEL_READY);
    metric_heading(out, "symphony_model_slo_seconds", "gauge", "Default SLO of the model.");
    for (const uint32_t *i = listed->listed; i < listed->listed + listed->count; i++)
        text_printf(out, "symphony_model_slo_seconds{%s} %.9g\n", metric_model(&models[*i]).text,
                    (double)models[*i].slo_ns / 1e9);
    metric_heading(out, "symphony_model_latency_seconds", "gauge",
                   "l(1) in force: what a batch of one is expected to take at most, 99 times in 100.");
    for (const uint32_t *i = listed->listed; i < listed->listed + listed->count; i++)
        text_printf(out, "symphony_model_latency_seconds{%s} %.9g\n", metric_model(&models[*i]).text,
                    (double)atomic_load_explicit(&server_model_counters(s, *i)->latency_one_ns, memory_order_relaxed) /
                        1e9);
    metric_heading(out, "symphony_model_gather_seconds", "gauge",
                   "95th percentile of gathering an item's inputs into a batch, as the scheduler allows for it.");
    for (const uint32_t *i = listed->listed; i < listed->listed + listed->count; i++) {
        int64_t ctrl_ns, data_ns;
        rings_delays(server_rings(s, s->placements[*i].thread), s->placements[*i].thread_model, &ctrl_ns, &data_ns);
        text_printf(out, "symphony_model_gather_seconds{%s} %.9g\n", metric_model(&models[*i]).text,
                    (double)data_ns / 1e9);
    }
    metric_heading(out, "symphony_queued_requests", "gauge", "Requests that wait in the scheduler.");
    for (const uint32_t *i = listed->listed; i < listed->listed + listed->count; i++)
        text_printf(out, "symphony_queued_requests{%s} %u\n", metric_model(&models[*i]).text,
                    server_model_queued(s, *i));
    metric_heading(out, "symphony_refused_requests_total", "counter",
                   "Requests the scheduler gave back without running them.");
    for (const uint32_t *i = listed->listed; i < listed->listed + listed->count; i++) {
        const struct model_counters *c = server_model_counters(s, *i);
        for (unsigned k = 0; k < ARRAY_COUNT(refusals); k++)
            text_printf(out, "symphony_refused_requests_total{%s,reason=\"%s\"} %llu\n", metric_model(&models[*i]).text,
                        refusals[k].name, (unsigned long long)counter_get(&c->refused[refusals[k].reason]));
    }
    metric_heading(out, "symphony_batch_size", "histogram", "Items in the batches sent to accelerators.");
    for (const uint32_t *i = listed->listed; i < listed->listed + listed->count; i++)
        render_histogram(out, "symphony_batch_size", metric_model(&models[*i]).text,
                         &server_model_counters(s, *i)->batch_items, batch_edges, ARRAY_COUNT(batch_edges), 1, 1);
    metric_heading(out, "symphony_run_duration_seconds", "histogram", "What the engine took to run a batch.");
    for (const uint32_t *i = listed->listed; i < listed->listed + listed->count; i++)
        render_histogram(out, "symphony_run_duration_seconds", metric_model(&models[*i]).text,
                         &server_model_counters(s, *i)->run_ns, time_edges_us, ARRAY_COUNT(time_edges_us), NS_PER_US,
                         1e9);
}

static void render_accelerators(const struct server *s, struct text *out) {
    static const struct {
        const char *name, *help;
        size_t offset;
        double unit;
    } rows[] = {
        {"symphony_accelerator_busy_seconds_total", "Time spent on batches.",
         offsetof(struct executor_counters, busy_ns), 1e9},
        {"symphony_accelerator_batches_total", "Batches taken.", offsetof(struct executor_counters, batches), 1},
        {"symphony_accelerator_items_total", "Items in them.", offsetof(struct executor_counters, items), 1},
        {"symphony_accelerator_failed_batches_total", "Batches that the engine failed.",
         offsetof(struct executor_counters, failed_batches), 1},
        {"symphony_accelerator_lost_batches_total", "Batches not run because the accelerator had failed.",
         offsetof(struct executor_counters, lost_batches), 1},
        {"symphony_accelerator_expired_batches_total",
         "Batches not run because every deadline in them had passed at the start.",
         offsetof(struct executor_counters, expired_batches), 1},
    };

    for (unsigned r = 0; r < ARRAY_COUNT(rows); r++) {
        metric_heading(out, rows[r].name, "counter", rows[r].help);
        for (uint32_t a = 0; a < s->wiring.accelerators; a++) {
            const char *base = (const char *)executor_counters(s->executors[s->wiring.executor_of[a]], a);
            uint64_t value = counter_get((const _Atomic uint64_t *)(base + rows[r].offset));
            text_printf(out, "%s{accelerator=\"%u\",type=\"%s\"} %.12g\n", rows[r].name, a,
                        s->config.accelerators[s->accelerator_type[a]].type, (double)value / rows[r].unit);
        }
    }
    metric_heading(out, "symphony_accelerators", "gauge", "Accelerators of the server.");
    text_printf(out, "symphony_accelerators %u\n", s->wiring.accelerators);
    metric_heading(out, "symphony_accelerators_serving", "gauge", "Of these, the ones that are in service.");
    uint32_t serving = 0;
    for (uint32_t a = 0; a < s->wiring.accelerators; a++)
        serving += wiring_accelerator_state(&s->wiring, a) == ACCELERATOR_SERVING;
    text_printf(out, "symphony_accelerators_serving %u\n", serving);
    if (s->central_thread)
        return;
    double needed = 0;
    uint64_t grants = 0;
    for (uint32_t k = 0; k < s->wiring.rank_threads; k++) {
        needed += rank_thread_accelerators_needed(s->rank_threads[k]);
        grants += rank_thread_grants(s->rank_threads[k]);
    }
    metric_heading(out, "symphony_accelerators_needed", "gauge",
                   "How many the present load needs, at the best batch sizes.");
    text_printf(out, "symphony_accelerators_needed %.6g\n", needed);
    metric_heading(out, "symphony_grants_total", "counter", "Grants of an accelerator to a model.");
    text_printf(out, "symphony_grants_total %llu\n", (unsigned long long)grants);
}

static void margin_row(struct text *out, const char *kind, const char *thread, unsigned index, int64_t ns) {
    text_printf(out, "symphony_margin_seconds{kind=\"%s\",thread=\"%s-%u\"} %.9g\n", kind, thread, index,
                (double)ns / 1e9);
}

static void render_margins(const struct server *s, struct text *out) {
    metric_heading(out, "symphony_margin_seconds", "gauge",
                   "95th percentiles that the scheduler allows for: late wake-ups, dispatch of a batch, reply.");
    for (uint32_t k = 0; k < s->wiring.rank_threads && !s->central_thread; k++)
        margin_row(out, "wake", "rank", k, margin_ns(rank_thread_wake_margin(s->rank_threads[k])));
    for (uint32_t t = 0; t < s->wiring.model_threads; t++) {
        const struct thread_rings *rings = server_rings(s, t);
        const char *thread = s->central_thread ? "central" : "model";
        margin_row(out, "wake", thread, t, margin_ns(&rings->wake));
        margin_row(out, "dispatch", thread, t, margin_ns(&rings->dispatch));
    }
    for (uint32_t f = 0; f < server_frontends(s); f++)
        margin_row(out, "reply", "frontend", f, margin_ns(port_reply_margin(s->ports[f])));
}

static void decision_rows(struct text *out, const char *kind, uint32_t thread, const struct histogram *h) {
    static const double quantiles[] = {0.5, 0.99, 0.999};

    for (unsigned i = 0; i < ARRAY_COUNT(quantiles); i++)
        text_printf(out, "symphony_decision_seconds{kind=\"%s\",thread=\"model-%u\",quantile=\"%g\"} %.9g\n", kind,
                    thread, quantiles[i], (double)histogram_quantile(h, quantiles[i]) / 1e9);
    text_printf(out, "symphony_decision_seconds_sum{kind=\"%s\",thread=\"model-%u\"} %.9g\n", kind, thread,
                (double)counter_get(&h->sum) / 1e9);
    text_printf(out, "symphony_decision_seconds_count{kind=\"%s\",thread=\"model-%u\"} %llu\n", kind, thread,
                (unsigned long long)counter_get(&h->count));
}

static void render_decisions(const struct server *s, struct text *out) {
    if (s->central_thread)
        return;
    metric_heading(out, "symphony_decision_seconds", "summary",
                   "How long deciding takes: a request to the candidate that counts it, a grant to the plan of its "
                   "batch, and a batch that could start to its plan.");
    for (uint32_t t = 0; t < s->wiring.model_threads; t++) {
        const struct model_thread_times *times = model_thread_times(s->model_threads[t]);
        decision_rows(out, "candidate", t, &times->candidate);
        decision_rows(out, "plan", t, &times->plan);
        decision_rows(out, "decision", t, &times->decision);
    }
}

static void wait_rows(struct text *out, const char *protocol, uint32_t frontend, const struct histogram *h) {
    static const int64_t edges_us[] = {20,   50,   100,   200,   300,   500,    1000,   1500,  2000,
                                       3000, 5000, 10000, 20000, 50000, 100000, 200000, 500000};
    char labels[64];

    snprintf(labels, sizeof(labels), "protocol=\"%s\",frontend=\"%u\"", protocol, frontend);
    render_histogram(out, "symphony_frontend_wait_seconds", labels, h, edges_us, ARRAY_COUNT(edges_us), NS_PER_US, 1e9);
}

static void render_waits(const struct server *s, struct text *out) {
    metric_heading(
        out, "symphony_frontend_wait_seconds", "histogram",
        "How long bytes wait for the frontend's thread: from their arrival in the kernel until they are read.");
    for (uint32_t f = 0; f < s->config.frontends; f++)
        wait_rows(out, "http", f, &http_frontend_loop(s->http[f])->waited_ns);
    for (uint32_t f = 0; f < s->config.frontends && s->config.grpc_port >= 0; f++)
        wait_rows(out, "grpc", f, &grpc_frontend_loop(s->grpc[f])->waited_ns);
}

void server_render_metrics(void *server, struct text *out) {
    struct server *s = server;
    const struct model_index *listed = server_models_lock(s);

    metric_heading(out, "symphony_info", "gauge", "The program's version.");
    text_printf(out, "symphony_info{version=\"%s\",policy=\"%s\"} 1\n", SYMPHONY_VERSION, s->config.policy->name);
    metric_heading(out, "symphony_uptime_seconds", "gauge", "Since the server started.");
    text_printf(out, "symphony_uptime_seconds %.3f\n", (double)(clock_now_ns() - s->started_ns) / 1e9);
    render_models(s, listed, out);
    render_accelerators(s, out);
    render_margins(s, out);
    render_decisions(s, out);
    const struct infer_counters *counters[server_frontends(s)];
    for (uint32_t f = 0; f < server_frontends(s); f++)
        counters[f] = server_infer_counters(s, f);
    infer_metrics_render(counters, server_frontends(s), listed, slab_use(bulk_slab(s->bulk)), out);
    render_waits(s, out);
    server_render_triton_metrics(s, listed, out);
    server_models_unlock(s);
    http_frontends_render_metrics(s->http, s->config.frontends, out);
    if (s->config.grpc_port >= 0)
        grpc_frontends_render_metrics(s->grpc, s->config.frontends, out);
}

void server_render_fine_metrics(void *server, struct text *out) {
    struct server *s = server;
    const struct model_index *listed = server_models_lock(s);
    const struct infer_counters *counters[server_frontends(s)];
    for (uint32_t f = 0; f < server_frontends(s); f++)
        counters[f] = server_infer_counters(s, f);
    infer_metrics_render_fine(counters, server_frontends(s), listed, out);
    server_models_unlock(s);
}
