/* trace.c - recorded arrivals: entries by model and time, and the cursor through them. */
#include "lab/scenario/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/array.h"
#include "core/util/time.h"
#include "lab/scenario/trace_build.h"

/* ---- names ---- */

static int name_compare(const void *a, const void *b) {
    const struct trace_name *x = a, *y = b;
    uint32_t length = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, length);
    if (order || x->length != y->length)
        return order ? order : x->length < y->length ? -1 : 1;
    return (x->count > y->count) - (x->count < y->count); /* a model comes before copies that share its name */
}

/* The length of NAME if `text` is NAME-i; else 0. */
static uint32_t copy_base(const char *text, uint32_t i) {
    char suffix[16];
    size_t length = strlen(text), tail = (size_t)snprintf(suffix, sizeof(suffix), "-%u", i);
    return length > tail && strcmp(text + length - tail, suffix) == 0 ? (uint32_t)(length - tail) : 0;
}

/* The number of models from `first` on that are the copies 1, 2, ... of one model; 0 if `first` is not the first copy.
 */
static uint32_t copies_count(const struct trace_builder *b, uint32_t first) {
    const char *text = b->models[first].name;
    uint32_t base = copy_base(text, 1), count = 0;
    while (base && first + count < b->model_count && copy_base(b->models[first + count].name, count + 1) == base &&
           strncmp(b->models[first + count].name, text, base) == 0)
        count++;
    return count;
}

static void name_add(struct trace_builder *b, uint32_t length, uint32_t first, uint32_t count) {
    b->names[b->name_count++] =
        (struct trace_name){.text = b->models[first].name, .length = length, .first = first, .count = count};
}

static uint32_t model_draw(struct trace_builder *b) {
    double u = rng_uniform(&b->rng) * b->share_sums[b->model_count - 1];
    return (uint32_t)weight_find(b->share_sums, 0, b->model_count - 1, u);
}

int trace_model_find(struct trace_builder *b, const char *name, uint32_t *model, struct sy_error *err) {
    if (!name || !*name) {
        *model = model_draw(b);
        return 0;
    }
    struct trace_name key = {.text = name, .length = (uint32_t)strlen(name)};
    uint32_t low = 0, high = b->name_count; /* the first that is not before the key */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (name_compare(&b->names[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    struct trace_name *found = &b->names[low];
    if (low == b->name_count || found->length != key.length || memcmp(found->text, name, key.length) != 0)
        return lines_error(&b->lines, err, "the scenario has no model '%.60s'", name);
    *model = found->first + found->next;
    found->next = found->count && found->next + 1 < found->count ? found->next + 1 : 0;
    return 0;
}

/* ---- entries ---- */

int trace_add(struct trace_builder *b, struct trace_entry entry, struct sy_error *err) {
    entry.at_s -= b->spec->start_s;
    if (b->rates ? entry.at_s + b->length_s <= 0 : entry.at_s < 0)
        return 0;
    if (b->count == TRACE_ENTRIES_MAX)
        return lines_error(&b->lines, err, "more than %d %s", TRACE_ENTRIES_MAX,
                           b->rates ? "minutes with calls, or jobs" : "arrivals");
    struct trace_entry *grown = array_room(b->entries, b->count, sizeof(*grown));
    if (!grown)
        return error_set(err, -ENOMEM, "%s: out of memory", b->lines.path);
    b->entries = grown;
    b->entries[b->count++] = entry;
    return 0;
}

/* Orders by model and time. The callers order equal times by the rest, so that the order depends on the file alone. */
static int entry_compare_time(const struct trace_entry *x, const struct trace_entry *y) {
    if (x->model != y->model)
        return x->model < y->model ? -1 : 1;
    return (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

static int piece_compare(const void *a, const void *b) {
    const struct trace_entry *x = a, *y = b;
    int order = entry_compare_time(x, y);
    if (order || x->rate_rps != y->rate_rps)
        return order ? order : x->rate_rps < y->rate_rps ? -1 : 1;
    return (x->slo_us > y->slo_us) - (x->slo_us < y->slo_us);
}

static int arrival_compare(const void *a, const void *b) {
    const struct trace_entry *x = a, *y = b;
    int order = entry_compare_time(x, y);
    if (order || x->slo_us != y->slo_us)
        return order ? order : x->slo_us < y->slo_us ? -1 : 1;
    if (x->items != y->items)
        return x->items < y->items ? -1 : 1;
    return (x->priority > y->priority) - (x->priority < y->priority);
}

/* The requests of an entry that are expected in [0, run_s). */
static double entry_requests(const struct trace_builder *b, const struct trace_entry *entry, double run_s) {
    if (!b->rates)
        return entry->at_s < run_s;
    double from_s = entry->at_s > 0 ? entry->at_s : 0, to_s = entry->at_s + b->length_s;
    to_s = to_s < run_s ? to_s : run_s;
    return to_s > from_s ? entry->rate_rps * (to_s - from_s) : 0;
}

static int trace_fill(struct trace *trace, struct trace_builder *b, double run_s) {
    if (b->count)
        qsort(b->entries, b->count, sizeof(*b->entries), b->rates ? piece_compare : arrival_compare);
    trace->models = b->model_count;
    trace->length_s = b->length_s;
    size_t bytes = (b->count + 1) * sizeof(double);
    trace->first = calloc(b->model_count + 1, sizeof(*trace->first));
    trace->model_rps = calloc(b->model_count, sizeof(*trace->model_rps));
    trace->at_s = malloc(bytes);
    trace->rate_sum = b->rates ? malloc(bytes) : NULL;
    trace->slo_ns = b->rates ? malloc(bytes) : NULL;
    trace->requests = b->requests ? malloc((b->count + 1) * sizeof(*trace->requests)) : NULL;
    if (!trace->first || !trace->model_rps || !trace->at_s || (b->rates && (!trace->rate_sum || !trace->slo_ns)) ||
        (b->requests && !trace->requests))
        return -ENOMEM;
    for (uint64_t i = 0; i < b->count; i++) {
        const struct trace_entry *entry = &b->entries[i];
        bool same = i && entry->model == entry[-1].model;
        trace->first[entry->model + 1]++;
        trace->model_rps[entry->model] += entry_requests(b, entry, run_s) / run_s;
        trace->at_s[i] = entry->at_s;
        if (b->rates) {
            trace->rate_sum[i] = entry->rate_rps + (same ? trace->rate_sum[i - 1] : 0);
            trace->slo_ns[i] = (int64_t)entry->slo_us * NS_PER_US;
        }
        if (b->requests)
            trace->requests[i] = (struct trace_request){
                .slo_us = entry->slo_us, .items = (uint16_t)entry->items, .priority = (uint8_t)entry->priority};
    }
    for (uint32_t m = 0; m < b->model_count; m++) {
        trace->first[m + 1] += trace->first[m];
        trace->mean_rps += trace->model_rps[m];
    }
    return 0;
}

/* ---- reading ---- */

static enum trace_format format_detect(const char *line) {
    int commas = 0;
    for (const char *c = line; *c; c++)
        commas += *c == ',';
    if (strncmp(line, "HashOwner,", 10) == 0)
        return TRACE_AZURE;
    if (commas <= 1 || strncmp(line, "seconds", 7) == 0)
        return TRACE_TIMESTAMPS;
    return commas == 4 ? TRACE_BLOX : TRACE_DETECT;
}

static int lines_parse(struct trace_builder *b, struct sy_error *err) {
    int rc = lines_next(&b->lines, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return error_set(err, -EINVAL, "%s: the trace is empty", b->lines.path);
    switch (b->spec->format ? b->spec->format : format_detect(b->lines.text)) {
    case TRACE_AZURE:
        return trace_read_azure(b, err);
    case TRACE_TIMESTAMPS:
        return trace_read_timestamps(b, err);
    case TRACE_BLOX:
        return trace_read_blox(b, err);
    case TRACE_DETECT:
        break;
    }
    return lines_error(&b->lines, err,
                       "expected 'HashOwner,...' (Azure Functions), 'seconds[,model,...]' or "
                       "'job_id,model,slo,rate,arrival'");
}

static int file_parse(struct trace_builder *b, struct sy_error *err) {
    b->share_sums = malloc(b->model_count * sizeof(*b->share_sums));
    b->names = malloc(2 * (size_t)b->model_count * sizeof(*b->names));
    if (!b->share_sums || !b->names)
        return error_set(err, -ENOMEM, "%s: out of memory", b->spec->path);
    double sum = 0;
    for (uint32_t m = 0; m < b->model_count; m++)
        b->share_sums[m] = sum += b->models[m].share;
    for (uint32_t m = 0; m < b->model_count; m++) {
        uint32_t copies = copies_count(b, m);
        name_add(b, (uint32_t)strlen(b->models[m].name), m, 0);
        if (copies)
            name_add(b, copy_base(b->models[m].name, 1), m, copies);
    }
    qsort(b->names, b->name_count, sizeof(*b->names), name_compare);
    int rc = lines_open(&b->lines, b->spec->path, err);
    if (rc)
        return rc;
    rc = lines_parse(b, err);
    lines_close(&b->lines);
    return rc;
}

int trace_read(const struct trace_spec *spec, const struct trace_model *models, uint32_t count, double run_s,
               uint64_t seed, struct trace *trace, struct sy_error *err) {
    *trace = (struct trace){.models = 0};
    struct trace_builder *b = calloc(1, sizeof(*b));
    if (!b)
        return error_set(err, -ENOMEM, "%s: out of memory", spec->path);
    b->spec = spec;
    b->models = models;
    b->model_count = count;
    rng_seed(&b->rng, seed);
    int rc = file_parse(b, err);
    if (!rc && trace_fill(trace, b, run_s))
        rc = error_set(err, -ENOMEM, "%s: out of memory", spec->path);
    if (!rc && trace->mean_rps <= 0)
        rc = error_set(err, -EINVAL, "%.400s: no requests in the %g s of the run", spec->path, run_s);
    free(b->share_sums);
    free(b->names);
    free(b->entries);
    free(b);
    if (rc)
        trace_free(trace);
    return rc;
}

void trace_free(struct trace *trace) {
    free(trace->first);
    free(trace->at_s);
    free(trace->rate_sum);
    free(trace->slo_ns);
    free(trace->requests);
    free(trace->model_rps);
    *trace = (struct trace){.models = 0};
}

/* ---- the cursor ---- */

struct trace_cursor trace_cursor_at_start(const struct trace *trace, uint32_t model) {
    uint64_t first = trace->first[model];
    return (struct trace_cursor){.first = first, .from = first, .to = first, .end = trace->first[model + 1]};
}

bool trace_arrival(const struct trace *trace, struct trace_cursor *cursor, double *at_s) {
    if (cursor->to == cursor->end)
        return false;
    *at_s = trace->at_s[cursor->to++];
    return true;
}

struct trace_request trace_request_taken(const struct trace *trace, const struct trace_cursor *cursor) {
    if (!trace->requests)
        return (struct trace_request){.priority = TRACE_PRIORITY_ANY};
    return trace->requests[cursor->to - 1];
}

/* The rates of the model's pieces before `i`. */
static double sum_before(const struct trace *trace, const struct trace_cursor *cursor, uint64_t i) {
    return i > cursor->first ? trace->rate_sum[i - 1] : 0;
}

double trace_rate(const struct trace *trace, struct trace_cursor *cursor, double at_s, double *until_s) {
    while (cursor->to < cursor->end && trace->at_s[cursor->to] <= at_s)
        cursor->to++;
    while (cursor->from < cursor->to && trace->at_s[cursor->from] + trace->length_s <= at_s)
        cursor->from++;
    bool any = cursor->from < cursor->to;
    *until_s = cursor->to < cursor->end ? trace->at_s[cursor->to] : 1e18;
    if (any && trace->at_s[cursor->from] + trace->length_s < *until_s)
        *until_s = trace->at_s[cursor->from] + trace->length_s;
    return any ? trace->rate_sum[cursor->to - 1] - sum_before(trace, cursor, cursor->from) : 0;
}

int64_t trace_slo_ns(const struct trace *trace, const struct trace_cursor *cursor, double u) {
    double before = sum_before(trace, cursor, cursor->from);
    double target = before + u * (trace->rate_sum[cursor->to - 1] - before);
    return trace->slo_ns[weight_find(trace->rate_sum, cursor->from, cursor->to - 1, target)];
}
