/* infer_counters.c - the frontends' counters as Prometheus text. */
#include "frontend/infer_counters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "base/counter.h"
#include "base/time.h"

int infer_counters_init(struct infer_counters *counters, uint32_t model_count) {
    memset(counters, 0, sizeof(*counters));
    counters->model_count = model_count;
    counters->models = calloc(model_count ? model_count : 1, sizeof(*counters->models));
    return counters->models ? 0 : -ENOMEM;
}

void infer_counters_destroy(struct infer_counters *counters) {
    free(counters->models);
    counters->models = NULL;
}

/* Everything below sums one counter over the frontends. */
struct rendering {
    const struct infer_counters *const *counters;
    uint32_t count;
    const struct v2_models *models; /* as they are now: those listed are shown */
    struct text *out;
};

void metric_heading(struct text *out, const char *name, const char *type, const char *help) {
    text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

struct metric_label metric_label(const char *name) {
    struct metric_label label;
    char *out = label.text;
    for (; *name && out < label.text + sizeof(label.text) - 2; name++) {
        if (*name == '\\' || *name == '"' || *name == '\n')
            *out++ = '\\';
        *out++ = *name == '\n' ? 'n' : *name;
    }
    *out = '\0';
    return label;
}

struct metric_model metric_model(const struct served_model *model) {
    struct metric_model labels;
    snprintf(labels.text, sizeof(labels.text), "model=\"%s\",version=\"%u\"", metric_label(model->name).text,
             model->version);
    return labels;
}

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
                sum += counter_get(&r->counters[f]->models[*m].outcomes[o]);
            row_begin(r, "symphony_requests_total", *m);
            text_printf(r->out, ",outcome=\"%s\"} %llu\n", names[o], (unsigned long long)sum);
        }
    metric_heading(r->out, "symphony_requests_in_time_total", "counter", "Infer requests answered by their deadline.");
    for (const uint32_t *m = r->models->listed; m < r->models->listed + r->models->count; m++) {
        uint64_t sum = 0;
        for (uint32_t f = 0; f < r->count; f++)
            sum += counter_get(&r->counters[f]->models[*m].in_time);
        row_begin(r, "symphony_requests_in_time_total", *m);
        text_printf(r->out, "} %llu\n", (unsigned long long)sum);
    }
}

static void render_histogram(const struct rendering *r, const char *name, const char *help, size_t offset) {
    static const int64_t edges_us[] = {100,   200,   500,   1000,   2000,   5000,   10000,  15000,   20000,   25000,
                                       30000, 50000, 75000, 100000, 150000, 200000, 500000, 1000000, 2000000, 5000000};
    metric_heading(r->out, name, "histogram", help);
    char suffixed[96];
    for (const uint32_t *m = r->models->listed; m < r->models->listed + r->models->count; m++) {
        uint64_t total = 0, sum = 0;
        strcat(strcpy(suffixed, name), "_bucket");
        for (unsigned e = 0; e <= ARRAY_COUNT(edges_us); e++) {
            bool last = e == ARRAY_COUNT(edges_us);
            uint64_t until = 0;
            for (uint32_t f = 0; f < r->count; f++) {
                const void *h = (const char *)&r->counters[f]->models[*m] + offset;
                until += histogram_count_until(h, last ? INT64_MAX : edges_us[e] * NS_PER_US);
            }
            row_begin(r, suffixed, *m);
            if (last)
                text_printf(r->out, ",le=\"+Inf\"} %llu\n", (unsigned long long)until);
            else
                text_printf(r->out, ",le=\"%g\"} %llu\n", (double)edges_us[e] / 1e6, (unsigned long long)until);
            total = until;
        }
        for (uint32_t f = 0; f < r->count; f++) {
            const struct histogram *h = (const void *)((const char *)&r->counters[f]->models[*m] + offset);
            sum += counter_get(&h->sum);
        }
        strcat(strcpy(suffixed, name), "_sum");
        row_begin(r, suffixed, *m);
        text_printf(r->out, "} %.9g\n", (double)sum / NS_PER_S);
        strcat(strcpy(suffixed, name), "_count");
        row_begin(r, suffixed, *m);
        text_printf(r->out, "} %llu\n", (unsigned long long)total);
    }
}

static void render_totals(const struct rendering *r, struct slab_use bulk) {
    uint64_t body = 0, taken = bulk.taken, mapped = bulk.mapped, in_flight = 0;
    for (uint32_t f = 0; f < r->count; f++) {
        body += counter_get(&r->counters[f]->body_bytes);
        taken += counter_get(&r->counters[f]->inputs_bytes_taken);
        mapped += counter_get(&r->counters[f]->inputs_bytes_mapped);
        in_flight += atomic_load_explicit(&r->counters[f]->in_flight, memory_order_relaxed); /* statistics */
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

void infer_counters_render(const struct infer_counters *const *counters, uint32_t count, const struct v2_models *models,
                           struct slab_use bulk, struct text *out) {
    const struct rendering r = {counters, count, models, out};
    render_outcomes(&r);
    render_histogram(&r, "symphony_request_duration_seconds",
                     "From the first byte of a request to its answer, of those answered.",
                     offsetof(struct model_infer_counters, latency_ns));
    render_histogram(&r, "symphony_queue_duration_seconds",
                     "From the first byte of a request to the start of its run, of those answered.",
                     offsetof(struct model_infer_counters, queue_ns));
    render_totals(&r, bulk);
}
