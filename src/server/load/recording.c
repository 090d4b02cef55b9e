/* recording.c - writes a server's recorded requests as a document that can be simulated. */
#include "server/load/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/data/advice.h"
#include "core/util/conf.h"
#include "front/v2/json_put.h"

/* A row of a table is left out if the line between its neighbours is as near as this. */
#define TABLE_WITHIN   0.001
#define TABLE_LEAST_NS NS_PER_US
#define NEVER_MS       1000000    /* latency on a type that does not run the model */
#define SLO_US_MOST    3600000000 /* longest SLO in a trace */

/* ---- names ---- */

static int by_name(const void *a, const void *b) {
    const struct recording_model *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    return order ? order : ((*x)->version > (*y)->version) - ((*x)->version < (*y)->version);
}

/* Replaces characters that a scenario's names, or a trace's fields, must not have. Several versions of a model are
 * named NAME@VERSION. */
static int names_make(struct recording *r) {
    struct recording_model **sorted = calloc(r->model_count + 1, sizeof(struct recording_model *));
    if (!sorted)
        return -ENOMEM;
    for (uint32_t m = 0; m < r->model_count; m++) {
        for (char *c = r->models[m].name; *c; c++)
            if (*c <= ' ' || *c > '~' || strchr("/\\\"',#", *c))
                *c = '_';
        sorted[m] = &r->models[m];
    }
    qsort(sorted, r->model_count, sizeof(*sorted), by_name);
    for (uint32_t m = r->model_count; m-- > 1;) {
        struct recording_model *model = sorted[m];
        char end[16];
        if (strcmp(model->name, sorted[m - 1]->name) != 0)
            continue;
        int length = snprintf(end, sizeof(end), "@%u", model->version);
        size_t at = strlen(model->name), most = sizeof(model->name) - (size_t)length - 1;
        strcpy(model->name + (at < most ? at : most), end);
    }
    free(sorted);
    return 0;
}

/* ---- which requests ---- */

struct recording_model *recording_model_of(const struct recording *r, const struct recorded_request *request) {
    uint32_t m = request->model < r->served ? r->model_of[request->model] : UINT32_MAX;
    return m == UINT32_MAX || request->arrival_ns < r->models[m].since_ns ? NULL : &r->models[m];
}

/* Keeps the requests of the period whose models still exist. Returns the number of requests for other models. */
static uint64_t requests_keep(struct recording *r) {
    uint64_t kept = 0, unknown = 0;
    for (uint64_t i = 0; i < r->request_count; i++) {
        const struct recorded_request *request = &r->requests[i];
        if (request->arrival_ns < r->start_ns || request->arrival_ns >= r->end_ns)
            continue;
        struct recording_model *model = recording_model_of(r, request);
        unknown += !model;
        if (!model)
            continue;
        model->requests++;
        r->requests[kept++] = *request;
    }
    r->request_count = kept;
    return unknown;
}

/* ---- the server ---- */

static double seconds_from(const struct recording *r, int64_t at_ns) {
    return (double)(at_ns - r->start_ns) / (double)NS_PER_S;
}

/* Writes each look, with the counts since the one before: [second, requests, bad, accelerators needed, wanted, in
 * service]. */
static void looks_write(const struct recording *r, struct text *out) {
    const struct recording_look none = {.at_ns = r->start_ns - 1};
    bool any = false;
    text_put(out, "\"looks\":[");
    for (uint32_t i = 0; i < r->look_count; i++) {
        const struct recording_look *look = &r->looks[i], *before = i ? look - 1 : &none;
        if (look->at_ns < r->start_ns || look->at_ns <= before->at_ns)
            continue;
        text_printf(out, "%s[%.3f,%" PRIu64 ",%" PRIu64 ",%.4g,", any ? "," : "", seconds_from(r, look->at_ns),
                    look->requests - before->requests, look->bad - before->bad,
                    (look->needed_ns - before->needed_ns) / (double)(look->at_ns - before->at_ns));
        if (look->wanted == ADVICE_NONE)
            text_put(out, "null");
        else
            text_printf(out, "%" PRId64, look->wanted);
        text_printf(out, ",%u]", look->present);
        any = true;
    }
    text_put(out, "]");
}

/* ---- the scenario ---- */

/* The farthest row such that the line from row `from` to it passes near all rows between them. Each row allows a range
 * of slopes; their intersection is narrowed down row by row. */
static uint32_t line_end(const int64_t *latency_ns, uint32_t from, uint32_t last) {
    double least = -1e300, most = 1e300;
    uint32_t end = from + 1;
    for (uint32_t to = from + 1; to <= last; to++) {
        double run = to - from, rise = (double)(latency_ns[to] - latency_ns[from]),
               off = TABLE_WITHIN * (double)latency_ns[to];
        off = off > TABLE_LEAST_NS ? off : TABLE_LEAST_NS;
        if (rise / run >= least && rise / run <= most)
            end = to;
        least = (rise - off) / run > least ? (rise - off) / run : least;
        most = (rise + off) / run < most ? (rise + off) / run : most;
        if (least > most)
            break;
    }
    return end;
}

static void table_write(const int64_t *latency_ns, uint32_t batch_max, struct text *out) {
    text_printf(out, "{latency_ms: [[1, %.6g]", (double)latency_ns[1] / 1e6);
    for (uint32_t b = 1; b < batch_max;) {
        b = line_end(latency_ns, b, batch_max);
        text_printf(out, ", [%u, %.6g]", b, (double)latency_ns[b] / 1e6);
    }
    text_put(out, "]}");
}

static int64_t slo_least(const struct recording *r, const struct recording_model *model) {
    int64_t fastest_ns = INT64_MAX;
    for (uint32_t t = 0; t < r->type_count; t++)
        if (r->types[t].count && model->latency_ns[t] && model->latency_ns[t][1] < fastest_ns)
            fastest_ns = model->latency_ns[t][1];
    return fastest_ns;
}

/* A scenario's model must be able to meet its SLO, but a server's model may have become too slow for its own. */
static void model_write(const struct recording *r, const struct recording_model *model, struct text *out) {
    int64_t least_ns = slo_least(r, model) + 2 * NS_PER_US;
    bool any = false;
    text_put(out, "  - {name: ");
    json_put_string(out, model->name);
    text_printf(out, ", slo_ms: %.9g, batch_max: %u",
                (double)(model->slo_ns > least_ns ? model->slo_ns : least_ns) / 1e6, model->batch_max);
    if (model->weight > 0 && (model->weight < 1 || model->weight > 1))
        text_printf(out, ", weight: %.9g", model->weight);
    if (r->memory_bytes)
        text_printf(out, ", weights_mb: %.9g, load_ms: %.9g", (double)model->weights_bytes / 1e6,
                    (double)model->load_ns / 1e6);
    if (r->memory_bytes && model->pinned)
        text_put(out, ", pinned: true");
    for (uint32_t p = 0; p < model->priorities; p++)
        text_put(out, p ? ", 1" : ", priorities: [1");
    text_put(out, model->priorities ? "], types: {" : ", types: {");
    for (uint32_t t = 0; t < r->type_count; t++) {
        if (r->types[t].count == 0)
            continue;
        text_put(out, any ? ", " : "");
        json_put_string(out, r->types[t].name);
        text_put(out, ": ");
        if (model->latency_ns[t])
            table_write(model->latency_ns[t], model->batch_max, out);
        else
            text_printf(out, "{latency_ms: {1: %d}}", NEVER_MS);
        any = true;
    }
    text_put(out, "}}\n");
}

/* Whether the scenario has the model. */
static bool model_shown(const struct recording *r, const struct recording_model *model) {
    return model->requests > 0 && slo_least(r, model) < INT64_MAX;
}

static void policy_write(const struct recording *r, struct text *out) {
    text_printf(out, "policy: {name: %s", r->policy->name);
    for (uint32_t i = 0; r->policy->options && r->policy->options[i].key; i++) {
        const struct policy_option *option = &r->policy->options[i];
        double value = r->options.value[i];
        text_printf(out, ", %s: ", option->key);
        if (option->flag)
            text_put(out, value > 0 ? "true" : "false");
        else if (option->words)
            text_put(out, option->words[(uint32_t)value]);
        else
            text_printf(out, "%.17g", value);
    }
    text_put(out, "}\n");
}

/* The period in which requests count: after a warm-up, and from one look to another, so that the server's own counts
 * are of the same period. */
static void counted_time(const struct recording *r, double *from_s, double *until_s) {
    double seconds = seconds_from(r, r->end_ns), warmup = seconds / RECORDING_WARMUP_PART;
    *from_s = warmup < RECORDING_WARMUP_MOST_S ? warmup : RECORDING_WARMUP_MOST_S;
    *until_s = seconds;
    uint32_t first = 0;
    while (first < r->look_count && seconds_from(r, r->looks[first].at_ns) < *from_s)
        first++;
    if (first + 1 >= r->look_count) /* too short for that */
        return;
    int64_t from_ns = r->looks[first].at_ns, until_ns = r->looks[r->look_count - 1].at_ns;
    for (uint64_t i = 0; i < r->request_count; i++)
        if (r->requests[i].arrival_ns >= from_ns && r->requests[i].arrival_ns < until_ns) {
            *from_s = seconds_from(r, from_ns);
            *until_s = seconds_from(r, until_ns);
            return;
        }
    /* else all have come since the last look, or in the warm-up */
}

static int scenario_write(const struct recording *r, struct text *out, struct sy_error *err) {
    uint32_t accelerators = 0, models = 0;
    size_t from = out->length;
    for (uint32_t t = 0; t < r->type_count; t++)
        accelerators += r->types[t].count;
    if (accelerators == 0)
        return error_set(err, -ENOENT, "no accelerator is in service");
    bool any = false;
    text_put(out, "cluster:\n  accelerators: [");
    for (uint32_t t = 0; t < r->type_count; t++) {
        if (r->types[t].count == 0)
            continue;
        text_put(out, any ? ", {type: " : "{type: ");
        json_put_string(out, r->types[t].name);
        text_printf(out, ", count: %u}", r->types[t].count);
        any = true;
    }
    text_put(out, "]\n");
    if (r->memory_bytes)
        text_printf(out, "  memory_gib: %.9g\n", (double)r->memory_bytes / (1 << 30));
    text_put(out, "models:\n");
    for (uint32_t m = 0; m < r->model_count; m++) {
        if (!model_shown(r, &r->models[m]))
            continue;
        model_write(r, &r->models[m], out);
        models++;
    }
    if (models == 0)
        return error_set(err, -ENOENT, "no request was recorded in the last %.0f s", seconds_from(r, r->end_ns));
    double warmup, until;
    counted_time(r, &warmup, &until);
    text_put(out, "workload: {arrivals: {trace: trace.csv, format: timestamps}}\n");
    policy_write(r, out);
    text_printf(out, "network: {ctrl_us: %.3f, reply_margin_us: %.3f}\n", (double)r->ctrl_ns / 1e3,
                (double)r->reply_margin_ns / 1e3);
    text_printf(out, "run: {seconds: %.6f, warmup_seconds: %.6f, seed: 1}\n", until - warmup, warmup);
    if (out->length - from > CONF_BYTES_MAX)
        return error_set(err, -EFBIG, "the tables of %u models are larger than the %d bytes that a scenario may have",
                         models, CONF_BYTES_MAX);
    return 0;
}

/* ---- the trace ---- */

/* Writes `value`, in thousandths or billionths, as a decimal number: "12.005". */
static size_t decimal_put(char *out, uint64_t value, uint64_t unit) {
    size_t n = json_digits(out, value / unit);
    out[n++] = '.';
    for (uint64_t digit = unit / 10; digit > 0; digit /= 10)
        out[n++] = (char)('0' + value / digit % 10);
    return n;
}

/* Writes a line without printf(), with which a million lines would take the metrics thread a second. */
static void request_write(const struct recording *r, const struct recorded_request *request, struct text *out) {
    const struct recording_model *model = recording_model_of(r, request);
    uint64_t slo_us = request->left_us + (uint64_t)(r->reply_margin_ns / NS_PER_US);
    slo_us = slo_us < 1 ? 1 : slo_us < SLO_US_MOST ? slo_us : SLO_US_MOST;
    uint32_t items = request->items < PROFILE_BATCH_MAX ? request->items : PROFILE_BATCH_MAX;
    if (!text_reserve(out, sizeof(model->name) + 100))
        return;
    char *at = out->data + out->length;
    at += decimal_put(at, (uint64_t)(request->arrival_ns - r->start_ns), NS_PER_S);
    *at++ = ',';
    size_t length = strlen(model->name);
    memcpy(at, model->name, length);
    at += length;
    *at++ = ',';
    at += json_digits(at, items ? items : 1);
    *at++ = ',';
    at += decimal_put(at, slo_us, 1000);
    *at++ = ',';
    if (request->priority == PRIORITY_BEST_EFFORT) {
        memcpy(at, "best_effort", 11);
        at += 11;
    } else if (request->priority < model->priorities) {
        at += json_digits(at, request->priority);
    }
    *at++ = '\n';
    out->length = (size_t)(at - out->data);
}

int recording_head_write(struct recording *r, struct text *out, struct sy_error *err) {
    if (names_make(r))
        return error_set(err, -ENOMEM, "no memory for the names of %u models", r->model_count);
    uint64_t unknown = requests_keep(r);
    text_printf(
        out,
        "symphony recording 1\n--- server\n{\"version\":\"%s\",\"cluster\":%s,\"seconds\":%.3f,\"requests\":%" PRIu64
        ",\"overwritten\":%" PRIu64 ",\"unknown\":%" PRIu64 ",",
        SYMPHONY_VERSION, r->cluster ? "true" : "false", seconds_from(r, r->end_ns), r->request_count, r->overwritten,
        unknown);
    looks_write(r, out);
    text_put(out, "}\n--- scenario\n");
    int rc = scenario_write(r, out, err);
    if (rc)
        return rc;
    text_put(out, "--- trace\nseconds,model,items,slo_ms,priority\n");
    return out->failed ? error_set(err, -ENOMEM, "no memory for %" PRIu64 " requests", r->request_count) : 0;
}

uint64_t recording_trace_write(const struct recording *r, uint64_t next, size_t bytes, struct text *out) {
    for (; next < r->request_count && out->length < bytes; next++)
        if (model_shown(r, recording_model_of(r, &r->requests[next])))
            request_write(r, &r->requests[next], out);
    return next;
}

void recording_free(struct recording *r) {
    for (uint32_t m = 0; r->models && m < r->model_count; m++)
        for (uint32_t t = 0; t < ACCELERATOR_TYPES_MAX; t++)
            free(r->models[m].latency_ns[t]);
    free(r->models);
    free(r->model_of);
    free(r->requests);
    free(r->looks);
    *r = (struct recording){.models = NULL};
}
