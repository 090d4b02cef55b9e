/* infer_metrics.c - writes the frontends' counters of infer requests, summed over all frontends. */
#include "server/stats/infer_metrics.h"

#include <stdio.h>
#include <stdlib.h>

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
    const struct shown_model *models; /* [model_count] */
    uint32_t model_count;
    struct text *out;
};

static void row_begin(struct text *out, const char *name, const char *suffix, const struct metric_model *labels) {
    text_put(out, name);
    text_put(out, suffix);
    text_put_char(out, '{');
    text_put(out, labels->text);
}

/* The sum of a counter, which lies at `offset` in struct model_infer_counters. */
static uint64_t sum_of(const struct rendering *r, uint32_t place, size_t offset) {
    uint64_t sum = 0;
    for (uint32_t f = 0; f < r->count; f++)
        sum += counter_get((const void *)((const char *)&r->frontends[f].requests->models[place] + offset));
    return sum;
}

/* Counters of models: a row for each word of a label, or one row. */
struct model_counters_shown {
    const char *name, *help;
    size_t offset;            /* of the first in struct model_infer_counters */
    const char *label;        /* NULL: there is one counter */
    const char *const *words; /* [count] words of the label; NULL: not shown */
    uint32_t count;
    bool prepared; /* only of models that prepare their inputs (front/request/preparation.h) */
};

static void render_counters(const struct rendering *r, const struct model_counters_shown *c) {
    metric_heading(r->out, c->name, "counter", c->help);
    for (const struct shown_model *m = r->models; m < r->models + r->model_count; m++)
        for (uint32_t i = 0; i < (c->label ? c->count : 1); i++) {
            if ((c->prepared && !m->prepared) || (c->label && !c->words[i]))
                continue;
            row_begin(r->out, c->name, "", &m->labels);
            if (c->label)
                text_printf(r->out, ",%s=\"%s\"", c->label, c->words[i]);
            text_printf(r->out, "} %llu\n", (unsigned long long)sum_of(r, m->place, c->offset + i * sizeof(uint64_t)));
        }
}

static void bucket_row(struct text *out, const char *name, const struct shown_model *model, int64_t edge_ns,
                       uint64_t count) {
    row_begin(out, name, "_bucket", &model->labels);
    if (edge_ns == INT64_MAX)
        text_printf(out, ",le=\"+Inf\"} %llu\n", (unsigned long long)count);
    else
        text_printf(out, ",le=\"%.12g\"} %llu\n", (double)edge_ns / NS_PER_S, (unsigned long long)count);
}

static void histogram_end(struct text *out, const char *name, const struct shown_model *model, uint64_t sum_ns,
                          uint64_t count) {
    row_begin(out, name, "_sum", &model->labels);
    text_printf(out, "} %.9g\n", (double)sum_ns / NS_PER_S);
    row_begin(out, name, "_count", &model->labels);
    text_printf(out, "} %llu\n", (unsigned long long)count);
}

/* `offset`: of a struct histogram in struct model_infer_counters, or with `fine` of a struct fine_histogram. */
static void render_histogram(const struct rendering *r, const char *name, const char *help, size_t offset, bool fine) {
#define US(n) ((n)*NS_PER_US)
    static const int64_t edges_ns[] = {US(100),     US(200),     US(500),    US(1000),   US(2000),   US(5000),
                                       US(10000),   US(15000),   US(20000),  US(25000),  US(30000),  US(50000),
                                       US(75000),   US(100000),  US(150000), US(200000), US(500000), US(1000000),
                                       US(2000000), US(5000000), INT64_MAX};
#undef US
    size_t sum = offset + (fine ? offsetof(struct fine_histogram, sum) : offsetof(struct histogram, sum));
    metric_heading(r->out, name, "histogram", help);
    for (const struct shown_model *m = r->models; m < r->models + r->model_count; m++) {
        uint64_t until[ARRAY_COUNT(edges_ns)] = {0};
        for (uint32_t f = 0; f < r->count; f++) {
            const void *at = (const char *)&r->frontends[f].requests->models[m->place] + offset;
            if (fine)
                fine_histogram_count_until(at, edges_ns, ARRAY_COUNT(edges_ns), until);
            else
                histogram_count_until(at, edges_ns, ARRAY_COUNT(edges_ns), until);
        }
        for (unsigned e = 0; e < ARRAY_COUNT(edges_ns); e++)
            bucket_row(r->out, name, m, edges_ns[e], until[e]);
        histogram_end(r->out, name, m, sum_of(r, m->place, sum), until[ARRAY_COUNT(edges_ns) - 1]);
    }
}

static void render_preparations(const struct rendering *r) {
    static const char *const ends[PREPARATION_ENDS] = {"done", "bad", "failed", "late"};
    static const struct model_counters_shown counters[] = {
        {"symphony_preparations_total",
         "Preparations of requests' inputs: done, bad (the image cannot be decoded), failed (the model that prepares "
         "did), or late (not begun, or stopped, since the request had ended).",
         offsetof(struct model_infer_counters, preparations), "end", ends, PREPARATION_ENDS, true},
        {"symphony_requests_left_out_total",
         "Times that a batch ran without a request, since its inputs were not prepared yet.",
         offsetof(struct model_infer_counters, left_out), NULL, NULL, 1, true},
    };
    bool any = false;
    for (uint32_t i = 0; i < r->model_count && !any; i++)
        any = r->models[i].prepared;
    if (!any)
        return;
    for (unsigned i = 0; i < ARRAY_COUNT(counters); i++)
        render_counters(r, &counters[i]);
    render_histogram(r, "symphony_prepare_duration_seconds", "Time of a thread that prepared a request's inputs.",
                     offsetof(struct model_infer_counters, prepare_ns), false);
}

static void render_totals(const struct rendering *r, struct slab_use bulk) {
    uint64_t body = 0, taken = bulk.taken, mapped = bulk.mapped, in_flight = 0;
    for (uint32_t f = 0; f < r->count; f++) {
        body += counter_get(&r->frontends[f].requests->body_bytes);
        taken += counter_get(&r->frontends[f].requests->inputs_bytes_taken);
        mapped += counter_get(&r->frontends[f].requests->inputs_bytes_mapped);
        in_flight += atomic_load_explicit(&r->frontends[f].requests->in_flight, memory_order_relaxed); /* statistics */
    }
    metric_number(r->out, "symphony_request_bytes_total", "counter", "Bytes of infer requests' bodies.", (double)body);
    metric_number(r->out, "symphony_requests_in_flight", "gauge", "Infer requests being read, run or answered.",
                  (double)in_flight);
    metric_number(r->out, "symphony_inputs_bytes", "gauge", "Memory that requests' inputs take.", (double)taken);
    metric_number(r->out, "symphony_inputs_mapped_bytes", "gauge", "Memory held for inputs, free blocks included.",
                  (double)mapped);
}

/* The steps that are shown of an ensemble; NULL: the model is none. The list is locked. */
static const struct ensemble *steps_of(const struct served_model *model, const struct ensemble_plan **plan) {
    *plan = atomic_load_explicit(&model->plan, memory_order_relaxed); /* under the lock */
    return *plan ? (*plan)->ensemble : model->ensemble;
}

struct shown_step *infer_metrics_steps(const struct frontend_counters *frontends, uint32_t count,
                                       const struct model_index *listed, uint32_t *step_count) {
    const struct ensemble_plan *plan;
    const struct ensemble *e;
    uint32_t all = 0;
    for (uint32_t i = 0; i < listed->count; i++)
        if ((e = steps_of(&listed->models[listed->listed[i]], &plan)))
            all += e->step_count;
    *step_count = all;
    struct shown_step *steps = malloc((all + 1) * sizeof(*steps)), *s = steps;
    for (const uint32_t *m = listed->listed; steps && m < listed->listed + listed->count; m++) {
        e = steps_of(&listed->models[*m], &plan);
        struct metric_model labels = e ? metric_model(&listed->models[*m]) : (struct metric_model){""};
        for (uint32_t v = 0; e && v < e->step_count; v++, s++) {
            snprintf(s->labels, sizeof(s->labels), "%s,step=\"%s\",step_model=\"%s\"", labels.text, e->steps[v].label,
                     metric_label(e->steps[v].model).text);
            s->items = s->ended = s->took_ns = 0;
            s->part_ns = plan ? atomic_load_explicit(&plan->part_ns[v], memory_order_relaxed) : -1;
            for (uint32_t f = 0; f < count; f++) {
                const struct step_counters *steps_here = infer_counters_steps_of(frontends[f].requests, *m);
                if (!steps_here)
                    continue;
                s->items += counter_get(&steps_here->items[v]);
                s->ended += counter_get(&steps_here->ended[v]);
                s->took_ns += counter_get(&steps_here->took_ns[v]);
            }
        }
    }
    return steps;
}

static void render_steps_counter(const struct shown_step *steps, uint32_t count, const char *name, const char *help,
                                 size_t offset, struct text *out) {
    metric_heading(out, name, "counter", help);
    for (const struct shown_step *s = steps; s < steps + count; s++)
        text_printf(out, "%s{%s} %llu\n", name, s->labels,
                    (unsigned long long)*(const uint64_t *)((const char *)s + offset));
}

void infer_metrics_render_steps(const struct shown_step *steps, uint32_t count, struct text *out) {
    if (count == 0)
        return;
    render_steps_counter(steps, count, "symphony_ensemble_step_items_total",
                         "Items that a step of an ensemble has asked its model for.",
                         offsetof(struct shown_step, items), out);
    render_steps_counter(steps, count, "symphony_ensemble_steps_total",
                         "Times that a step of an ensemble has run: it had something to do, and all of it ended.",
                         offsetof(struct shown_step, ended), out);
    metric_heading(out, "symphony_ensemble_step_seconds_total", "counter",
                   "From the beginning of steps to the end of their last item, of those that ran.");
    for (const struct shown_step *s = steps; s < steps + count; s++)
        text_printf(out, "symphony_ensemble_step_seconds_total{%s} %.9g\n", s->labels, (double)s->took_ns / 1e9);
    metric_heading(out, "symphony_ensemble_step_part_seconds", "gauge", "Part of the ensemble's SLO that a step has.");
    for (const struct shown_step *s = steps; s < steps + count; s++)
        if (s->part_ns >= 0)
            text_printf(out, "symphony_ensemble_step_part_seconds{%s} %.9g\n", s->labels, (double)s->part_ns / 1e9);
}

void infer_metrics_render(const struct frontend_counters *frontends, uint32_t count, const struct shown_model *models,
                          uint32_t model_count, struct slab_use bulk, struct text *out) {
    static const char *const outcomes[OUTCOME_COUNT] = {"ok", "refused", "client_error", "failed", "cancelled"};
    const char *reasons[REFUSAL_COUNT];
    for (enum refusal reason = REFUSAL_NONE; reason < REFUSAL_COUNT; reason++)
        reasons[reason] = metric_refusal(reason);
    const struct model_counters_shown counters[] = {
        {"symphony_requests_total", "Infer requests by how they ended.",
         offsetof(struct model_infer_counters, outcomes), "outcome", outcomes, OUTCOME_COUNT, false},
        {"symphony_refused_requests_total", "Infer requests that ended refused, by the reason.",
         offsetof(struct model_infer_counters, refused), "reason", reasons, REFUSAL_COUNT, false},
        {"symphony_requests_in_time_total", "Infer requests answered by their deadline.",
         offsetof(struct model_infer_counters, in_time), NULL, NULL, 1, false},
    };
    const struct rendering r = {frontends, count, models, model_count, out};
    for (unsigned i = 0; i < ARRAY_COUNT(counters); i++)
        render_counters(&r, &counters[i]);
    render_histogram(&r, REQUEST_DURATION, REQUEST_DURATION_HELP, offsetof(struct model_infer_counters, latency_ns),
                     true);
    render_histogram(&r, "symphony_queue_duration_seconds",
                     "From the first byte of a request to the start of its run, of those answered.",
                     offsetof(struct model_infer_counters, queue_ns), false);
    render_preparations(&r);
    render_totals(&r, bulk);
}

void infer_metrics_render_fine(const struct frontend_counters *frontends, uint32_t count,
                               const struct shown_model *models, uint32_t model_count, struct text *out) {
    const struct rendering r = {frontends, count, models, model_count, out};
    metric_heading(out, REQUEST_DURATION, "histogram", REQUEST_DURATION_HELP);
    for (const struct shown_model *m = models; m < models + model_count; m++) {
        /* a bucket in which something was counted is shown by both of its edges */
        uint64_t total = 0;
        int64_t shown = -1;
        for (uint32_t i = 0; i < FINE_HISTOGRAM_BUCKETS; i++) {
            uint64_t here =
                sum_of(&r, m->place, offsetof(struct model_infer_counters, latency_ns.buckets) + i * sizeof(uint64_t));
            int64_t least, greatest;
            if (!here)
                continue;
            fine_histogram_edges(i, &least, &greatest);
            if (shown < least - 1)
                bucket_row(out, REQUEST_DURATION, m, least - 1, total);
            total += here;
            bucket_row(out, REQUEST_DURATION, m, greatest, total);
            shown = greatest;
        }
        if (shown != INT64_MAX)
            bucket_row(out, REQUEST_DURATION, m, INT64_MAX, total);
        histogram_end(out, REQUEST_DURATION, m,
                      sum_of(&r, m->place, offsetof(struct model_infer_counters, latency_ns.sum)), total);
    }
}
