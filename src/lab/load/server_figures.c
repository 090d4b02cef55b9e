/* server_figures.c - reads the figures that a server itself tells of latencies and deadlines. */
#include "lab/load/server_figures.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/array.h"
#include "core/util/assert.h"
#include "lab/load/prometheus.h"

void server_figures_clear(struct server_figures *f) {
    free(f->buckets);
    *f = (struct server_figures){0};
}

static void bucket_append(struct server_figures *f, const struct server_bucket *bucket) {
    f->buckets = array_room(f->buckets, f->buckets_count, sizeof(*f->buckets));
    CHECK_MEMORY(f->buckets);
    f->buckets[f->buckets_count++] = *bucket;
}

static int bucket_order(const void *a, const void *b) {
    const struct server_bucket *x = a, *y = b;
    if (x->high_s != y->high_s)
        return x->high_s < y->high_s ? -1 : 1;
    return (x->low_s > y->low_s) - (x->low_s < y->low_s);
}

/* Sorts the buckets, merges those with the same edges, and drops the empty ones. */
static void buckets_settle(struct server_figures *f) {
    uint32_t kept = 0;
    if (f->buckets_count)
        qsort(f->buckets, f->buckets_count, sizeof(*f->buckets), bucket_order);
    for (uint32_t i = 0; i < f->buckets_count; i++) {
        if (kept && bucket_order(&f->buckets[kept - 1], &f->buckets[i]) == 0)
            f->buckets[kept - 1].count += f->buckets[i].count;
        else
            f->buckets[kept++] = f->buckets[i];
    }
    f->buckets_count = 0;
    for (uint32_t i = 0; i < kept; i++)
        if (f->buckets[i].count != 0)
            f->buckets[f->buckets_count++] = f->buckets[i];
}

/* The last row read of a histogram's series. Rows of one series stand together, with rising edges. */
struct series {
    double edge_s, count;
};

/* Takes a row of a histogram. Returns whether it was the row with the count of all. */
static bool histogram_row(struct server_figures *f, struct series *series, const struct prometheus_sample *sample,
                          const char *metric) {
    bool count = prometheus_named(sample, metric, "_count");
    size_t length;
    const char *le;
    if (prometheus_named(sample, metric, "_sum")) {
        f->sum_s += sample->value;
    } else if (count) {
        f->answered += sample->value;
        *series = (struct series){0};
    } else if (prometheus_named(sample, metric, "_bucket") && (le = prometheus_label(sample, "le", &length))) {
        double edge_s = strtod(le, NULL); /* ends at the quote; "+Inf" is infinite */
        if (edge_s <= series->edge_s)     /* the next series */
            *series = (struct series){0};
        if (sample->value > series->count)
            bucket_append(f, &(struct server_bucket){
                                 .low_s = series->edge_s, .high_s = edge_s, .count = sample->value - series->count});
        *series = (struct series){.edge_s = edge_s, .count = sample->value};
    }
    return count;
}

bool server_figures_histogram(struct server_figures *f, const char *text, const char *metric, const char *label,
                              const char *value) {
    struct prometheus_sample sample;
    struct series series = {0};
    while (prometheus_next(&text, &sample)) {
        size_t length;
        const char *found = prometheus_label(&sample, label, &length);
        if (!found || (strlen(value) == length && memcmp(found, value, length) == 0))
            histogram_row(f, &series, &sample, metric);
    }
    buckets_settle(f);
    return f->answered > 0;
}

/* Adds the samples of a metric that are about the models to a field of their figures. Whether there are any. */
static bool metric_add(struct server_figures *figures, size_t field, const char *text, const char *metric,
                       const char *const *names, uint32_t count) {
    struct prometheus_sample sample;
    bool any = false;
    while (prometheus_next(&text, &sample)) {
        uint32_t model =
            prometheus_named(&sample, metric, "") ? prometheus_label_among(&sample, "model", names, count) : count;
        if (model == count)
            continue;
        *(double *)((char *)&figures[model] + field) += sample.value;
        any = true;
    }
    return any;
}

static bool triton_read(struct server_figures *figures, const char *text, const char *const *names, uint32_t count) {
    bool requests = metric_add(figures, offsetof(struct server_figures, answered), text, "nv_inference_request_success",
                               names, count);
    bool times = metric_add(figures, offsetof(struct server_figures, sum_s), text, "nv_inference_request_duration_us",
                            names, count);
    for (uint32_t i = 0; times && i < count; i++)
        figures[i].sum_s /= 1e6;
    return requests || times;
}

bool server_figures_in_time(struct server_figures *figures, const char *text, const char *const *names,
                            uint32_t count) {
    struct prometheus_sample sample;
    bool any = false;
    while (prometheus_next(&text, &sample)) {
        uint32_t model = prometheus_named(&sample, "symphony_requests_in_time_total", "")
                             ? prometheus_label_among(&sample, "model", names, count)
                             : count;
        if (model == count)
            continue;
        figures[model].in_time += sample.value;
        figures[model].tells_in_time = any = true;
    }
    return any;
}

bool server_figures_latency(struct server_figures *figures, const char *text, const char *const *names,
                            uint32_t count) {
    struct prometheus_sample sample;
    struct series series = {0};
    const char *at = text;
    uint32_t last = count;
    bool any = false;
    while (prometheus_next(&at, &sample)) {
        uint32_t model = prometheus_label_among(&sample, "model", names, count);
        if (model != last)
            series = (struct series){0};
        last = model;
        if (model == count)
            continue;
        any |= histogram_row(&figures[model], &series, &sample, "symphony_request_duration_seconds");
    }
    for (uint32_t i = 0; i < count; i++)
        buckets_settle(&figures[i]);
    return any || triton_read(figures, text, names, count);
}

bool server_figures_batches(struct server_figures *figures, const char *text, const char *const *names,
                            uint32_t count) {
    static const char *const metrics[][2] = {
        {"symphony_batch_size_sum", "symphony_batch_size_count"},
        {"nv_inference_count", "nv_inference_exec_count"},
    };
    bool any = false;
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]) && !any; i++) {
        any = metric_add(figures, offsetof(struct server_figures, items), text, metrics[i][0], names, count);
        metric_add(figures, offsetof(struct server_figures, batches), text, metrics[i][1], names, count);
    }
    return any;
}

bool server_figures_stats(struct server_figures *figures, const char *text, size_t length, const char *const *names,
                          uint32_t count) {
    json_t *json = json_loadb(text, length, 0, NULL), *model;
    bool any = false;
    size_t index;
    json_array_foreach(json_object_get(json, "model_stats"), index, model) {
        const char *name = json_string_value(json_object_get(model, "name"));
        const json_t *success = json_object_get(json_object_get(model, "inference_stats"), "success");
        for (uint32_t i = 0; name && success && i < count; i++) {
            if (strcmp(names[i], name) != 0)
                continue;
            figures[i].answered += json_number_value(json_object_get(success, "count"));
            figures[i].sum_s += json_number_value(json_object_get(success, "ns")) / 1e9;
            any = true;
        }
    }
    json_decref(json);
    return any;
}

bool server_figures_subtract(struct server_figures *f, const struct server_figures *earlier) {
    bool sound = f->answered >= earlier->answered && f->in_time >= earlier->in_time;
    f->answered -= earlier->answered;
    f->sum_s -= earlier->sum_s;
    f->in_time -= earlier->in_time;
    f->items -= earlier->items;
    f->batches -= earlier->batches;
    for (uint32_t i = 0; i < earlier->buckets_count; i++) {
        struct server_bucket less = earlier->buckets[i];
        less.count = -less.count;
        bucket_append(f, &less);
    }
    buckets_settle(f);
    for (uint32_t i = 0; i < f->buckets_count; i++)
        sound &= f->buckets[i].count > 0;
    if (!sound)
        server_figures_clear(f);
    return sound;
}

void server_figures_add(struct server_figures *into, const struct server_figures *from) {
    if (from->answered > 0)
        into->tells_in_time = from->tells_in_time && (into->tells_in_time || into->answered == 0);
    into->answered += from->answered;
    into->sum_s += from->sum_s;
    into->in_time += from->in_time;
    into->items += from->items;
    into->batches += from->batches;
    for (uint32_t i = 0; i < from->buckets_count; i++)
        bucket_append(into, &from->buckets[i]);
    buckets_settle(into);
}

bool server_figures_quantile(const struct server_figures *f, double q, struct server_quantile *found) {
    double total = 0, seen = 0;
    for (uint32_t i = 0; i < f->buckets_count; i++)
        total += f->buckets[i].count;
    for (uint32_t i = 0; i < f->buckets_count; i++) {
        const struct server_bucket *b = &f->buckets[i];
        seen += b->count;
        if (seen < q * total)
            continue;
        double part = (q * total - (seen - b->count)) / b->count;
        *found = (struct server_quantile){.low_s = b->low_s, .high_s = b->high_s, .at_s = b->low_s};
        if (!isinf(b->high_s))
            found->at_s += fmax(part, 0) * (b->high_s - b->low_s);
        return true;
    }
    return false;
}
