/* scheduler_metrics.c - writes the scheduler's metrics: models, margins, times of decisions. */
#include "server/stats/scheduler_metrics.h"

#include "core/util/container.h"
#include "core/util/counter.h"
#include "core/util/time.h"

static const int64_t batch_edges[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
static const int64_t time_edges_us[] = {100,   200,    500,    1000,   2000,    5000,    10000,  20000,
                                        50000, 100000, 200000, 500000, 1000000, 2000000, 5000000};
static const int64_t error_edges_us[] = {10, 20, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 100000, 1000000};

/* ---- models ---- */

/* The statistics of the thread that schedules a model, and the model's index in that thread. */
static const struct thread_rings *rings_of(const struct scheduler_counters *s, uint32_t host,
                                           struct thread_model_id *number) {
    const struct thread_rings *rings = s->rings[s->thread_of_served[host]];
    *number = rings_model_of(rings, (struct place_id){host});
    return rings;
}

void scheduler_metrics_locate(const struct scheduler_counters *s, struct shown_model *models, uint32_t count) {
    for (struct shown_model *m = models; m < models + count; m++) {
        struct thread_model_id number;
        m->host = wiring_host(s->wiring, m->host);
        const struct thread_rings *rings = rings_of(s, m->host, &number);
        if (s->rank_threads > 1)
            m->rank_thread = wiring_subcluster(s->wiring, rings_model(rings, number)->first_variant);
    }
}

static const struct model_counters *counters_of(const struct scheduler_counters *s, const struct shown_model *model) {
    struct thread_model_id number;
    const struct thread_rings *rings = rings_of(s, model->host, &number);
    return &rings->counters[number.n];
}

static uint32_t queued(const struct scheduler_counters *s, const struct shown_model *model) {
    struct thread_model_id number;
    const struct thread_rings *rings = rings_of(s, model->host, &number);
    return atomic_load_explicit(&rings->queued[number.n], memory_order_relaxed); /* a gauge */
}

static void seconds_row(struct text *out, const char *name, const struct shown_model *model, int64_t ns) {
    text_printf(out, "%s{%s} %.9g\n", name, model->labels.text, (double)ns / 1e9);
}

static void render_expected(const struct scheduler_counters *s, const struct shown_model *models,
                            const struct shown_model *end, struct text *out) {
    static const char slo[] = "symphony_model_slo_seconds", latency[] = "symphony_model_latency_seconds",
                      gather[] = "symphony_model_gather_seconds";

    metric_heading(out, slo, "gauge", "Default SLO of the model, unless its requests are best effort.");
    for (const struct shown_model *m = models; m < end; m++)
        if (m->slo_ns)
            seconds_row(out, slo, m, m->slo_ns);
    metric_heading(out, latency, "gauge",
                   "What a run of one item is expected to take at most, 99 times in 100, as corrected while serving.");
    for (const struct shown_model *m = models; m < end; m++)
        seconds_row(out, latency, m,
                    atomic_load_explicit(&counters_of(s, m)->latency_one_ns, memory_order_relaxed)); /* a gauge */
    metric_heading(out, gather, "gauge",
                   "95th percentile of gathering an item's inputs into a batch, as the scheduler allows for it.");
    for (const struct shown_model *m = models; m < end; m++) {
        struct thread_model_id number;
        const struct thread_rings *rings = rings_of(s, m->host, &number);
        seconds_row(out, gather, m, atomic_load_explicit(&rings->measured[number.n].data_ns, memory_order_relaxed));
    }
}

/* Writes the rank thread of each model, and moves of the model; nothing with a single rank thread. */
static void render_moves(const struct scheduler_counters *s, const struct shown_model *models,
                         const struct shown_model *end, struct text *out) {
    if (s->rank_threads < 2)
        return;
    metric_heading(out, "symphony_model_rank_thread", "gauge", "The rank thread that the model belongs to.");
    for (const struct shown_model *m = models; m < end; m++)
        if (m->rank_thread != SUBCLUSTER_NONE)
            text_printf(out, "symphony_model_rank_thread{%s} %u\n", m->labels.text, m->rank_thread);
    metric_heading(out, "symphony_model_moves_total", "counter", "Moves of the model to another rank thread.");
    for (const struct shown_model *m = models; m < end; m++)
        text_printf(out, "symphony_model_moves_total{%s} %llu\n", m->labels.text,
                    (unsigned long long)counter_get(&counters_of(s, m)->moves));
}

static void memory_rows(const struct scheduler_counters *s, const char *name, size_t counter,
                        const struct shown_model *models, const struct shown_model *end, struct text *out) {
    for (const struct shown_model *m = models; m < end; m++) {
        const struct memory_counters *counters = &s->wiring->memory_counters[m->host];
        const _Atomic uint64_t *of = (const void *)((const char *)counters + counter);
        text_printf(out, "%s{%s} %llu\n", name, m->labels.text, (unsigned long long)counter_get(of));
    }
}

/* Writes what is loaded and unloaded. */
static void render_loads(const struct scheduler_counters *s, const struct shown_model *models,
                         const struct shown_model *end, struct text *out) {
    static const char loads[] = "symphony_model_loads_total", unloads[] = "symphony_model_unloads_total",
                      cold[] = "symphony_model_cold_requests_total", failures[] = "symphony_model_load_failures_total";

    metric_heading(out, loads, "counter", "Times that an accelerator loaded the model's weights.");
    memory_rows(s, loads, offsetof(struct memory_counters, loads), models, end, out);
    metric_heading(out, failures, "counter", "Loads that were refused or failed.");
    memory_rows(s, failures, offsetof(struct memory_counters, failures), models, end, out);
    metric_heading(out, unloads, "counter", "Times that an accelerator unloaded them, to make room for others.");
    memory_rows(s, unloads, offsetof(struct memory_counters, unloads), models, end, out);
    metric_heading(out, cold, "counter", "Requests that came while no accelerator had the model.");
    memory_rows(s, cold, offsetof(struct memory_counters, cold), models, end, out);
}

static void render_errors(const struct scheduler_counters *s, struct text *out) {
    static const char errors[] = "symphony_prediction_error_seconds";

    metric_heading(out, errors, "histogram", "Difference between what a load or a run was to take, and what it took.");
    for (enum central_action_kind kind = CENTRAL_RUN; kind <= (s->loads ? CENTRAL_LOAD : CENTRAL_RUN); kind++) {
        struct histogram sum = {.count = 0};
        for (uint32_t t = 0; t < s->threads; t++)
            histogram_merge(&sum, &s->rings[t]->errors[kind]);
        for (uint32_t k = 0; k < s->rank_threads && kind == CENTRAL_LOAD; k++)
            histogram_merge(&sum, rank_thread_load_errors(s->ranks[k]));
        metric_histogram(out, errors, kind == CENTRAL_RUN ? "kind=\"run\"" : "kind=\"load\"", &sum, error_edges_us,
                         ARRAY_COUNT(error_edges_us), NS_PER_US, 1e9);
    }
}

void scheduler_metrics_render_models(const struct scheduler_counters *s, const struct shown_model *models,
                                     uint32_t count, struct text *out) {
    static const char size[] = "symphony_batch_size", duration[] = "symphony_run_duration_seconds";
    const struct shown_model *end = models + count;

    metric_heading(out, "symphony_model_ready", "gauge", "1 if the model is served, 0 if it was set aside.");
    for (const struct shown_model *m = models; m < end; m++)
        text_printf(out, "symphony_model_ready{%s} %d\n", m->labels.text, m->ready);
    render_expected(s, models, end, out);
    metric_heading(out, "symphony_queued_requests", "gauge", "Requests that wait in the scheduler.");
    for (const struct shown_model *m = models; m < end; m++)
        text_printf(out, "symphony_queued_requests{%s} %u\n", m->labels.text, queued(s, m));
    render_moves(s, models, end, out);
    if (s->loads)
        render_loads(s, models, end, out);
    render_errors(s, out);
    metric_heading(out, size, "histogram", "Items in the batches sent to accelerators.");
    for (const struct shown_model *m = models; m < end; m++)
        metric_histogram(out, size, m->labels.text, &counters_of(s, m)->batch_items, batch_edges,
                         ARRAY_COUNT(batch_edges), 1, 1);
    metric_heading(out, duration, "histogram", "What the engine took to run a batch.");
    for (const struct shown_model *m = models; m < end; m++)
        metric_histogram(out, duration, m->labels.text, &counters_of(s, m)->run_ns, time_edges_us,
                         ARRAY_COUNT(time_edges_us), NS_PER_US, 1e9);
}

/* ---- threads ---- */

/* Writes the needed and the present accelerators of each sub-cluster, and the sub-cluster of each accelerator; only
 * where there are several sub-clusters. */
static void subclusters_render(const struct scheduler_counters *s, struct text *out) {
    uint32_t serving[RANK_THREADS_MAX] = {0};
    for (uint32_t a = 0; a < s->wiring->accelerators; a++)
        serving[wiring_subcluster_of_accelerator(s->wiring, a)] +=
            wiring_accelerator_state(s->wiring, a) == ACCELERATOR_SERVING;
    metric_heading(out, "symphony_rank_thread_accelerators_needed", "gauge",
                   "How many the present load of the models of a rank thread needs, at the best batch sizes.");
    for (uint32_t k = 0; k < s->rank_threads; k++)
        text_printf(out, "symphony_rank_thread_accelerators_needed{rank_thread=\"%u\"} %.6g\n", k,
                    rank_thread_accelerators_needed(s->ranks[k]));
    metric_heading(out, "symphony_rank_thread_accelerators", "gauge", "Accelerators of a rank thread in service.");
    for (uint32_t k = 0; k < s->rank_threads; k++)
        text_printf(out, "symphony_rank_thread_accelerators{rank_thread=\"%u\"} %u\n", k, serving[k]);
    if (s->wiring->link != LINK_NONE)
        return; /* the numbers of accelerators are the backends' own */
    metric_heading(out, "symphony_accelerator_rank_thread", "gauge", "The rank thread that has the accelerator.");
    for (uint32_t a = 0; a < s->wiring->accelerators; a++)
        text_printf(out, "symphony_accelerator_rank_thread{accelerator=\"%u\"} %u\n", a,
                    wiring_subcluster_of_accelerator(s->wiring, a));
}

void scheduler_metrics_render_ranks(const struct scheduler_counters *s, struct text *out) {
    double needed = s->rank_threads ? 0 : s->needed;
    uint64_t grants = 0;

    for (uint32_t k = 0; k < s->rank_threads; k++) {
        needed += rank_thread_accelerators_needed(s->ranks[k]);
        grants += rank_thread_grants(s->ranks[k]);
    }
    if (needed >= 0) {
        metric_number(out, "symphony_accelerators_needed", "gauge",
                      "How many the present load needs, at the best batch sizes.", needed);
    }
    if (s->rank_threads > 1)
        subclusters_render(s, out);
    if (s->moves) {
        metric_number(out, "symphony_placement_plans_total", "counter",
                      "Plans that bound models to accelerators, since the first request.", (double)s->moves->plans);
        metric_heading(
            out, "symphony_placement_places_total", "counter",
            "Accelerators that those plans bound models with requests to: kept from the plan before, or moved to.");
        text_printf(out, "symphony_placement_places_total{was=\"kept\"} %llu\n", (unsigned long long)s->moves->kept);
        text_printf(out, "symphony_placement_places_total{was=\"moved\"} %llu\n",
                    (unsigned long long)(s->moves->places - s->moves->kept));
        metric_number(out, "symphony_placement_moved_requests_total", "counter",
                      "Requests that waited where their model was bound no more, and went on elsewhere.",
                      (double)s->moves->requests);
    }
    if (s->rank_threads == 0)
        return;
    metric_number(out, "symphony_grants_total", "counter", "Grants of an accelerator to a model.", (double)grants);
}

void scheduler_metrics_render_advice(int64_t wanted, const struct advice *of, uint32_t subclusters, double bad_rate,
                                     struct text *out) {
    if (wanted < 0)
        return;
    metric_number(out, "symphony_accelerators_wanted", "gauge", "How many there should be, for autoscalers.",
                  (double)wanted);
    if (subclusters > 1)
        metric_heading(out, "symphony_rank_thread_accelerators_wanted", "gauge",
                       "How many of those should be the rank thread's.");
    for (uint32_t k = 0; k < subclusters && subclusters > 1; k++)
        text_printf(out, "symphony_rank_thread_accelerators_wanted{rank_thread=\"%u\"} %lld\n", k,
                    (long long)advice_get(&of[k]));
    metric_number(out, "symphony_bad_rate", "gauge",
                  "Share of the requests between the last two looks at the load that were refused or late.", bad_rate);
}

void scheduler_metrics_render_margins(const struct scheduler_counters *s, struct text *out) {
    for (uint32_t k = 0; k < s->rank_threads; k++)
        metric_margin(out, "wake", "rank", k, rank_thread_wake_margin(s->ranks[k]));
    for (uint32_t t = 0; t < s->threads; t++) {
        metric_margin(out, "wake", s->thread, t, &s->rings[t]->wake);
        metric_margin(out, "dispatch", s->thread, t, &s->rings[t]->dispatch);
    }
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

void scheduler_metrics_render_decisions(const struct scheduler_counters *s, struct text *out) {
    if (!s->times)
        return;
    metric_heading(out, "symphony_decision_seconds", "summary",
                   "How long deciding takes: a request to the candidate that counts it, a grant to the plan of its "
                   "batch, and a batch that could start to its plan.");
    for (uint32_t t = 0; t < s->threads; t++) {
        decision_rows(out, "candidate", t, &s->times[t]->candidate);
        decision_rows(out, "plan", t, &s->times[t]->plan);
        decision_rows(out, "decision", t, &s->times[t]->decision);
    }
}
