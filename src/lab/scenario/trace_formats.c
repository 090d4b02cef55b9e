/* trace_formats.c - reads the formats of recorded arrivals. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/messages.h"
#include "core/util/decimal.h"
#include "lab/scenario/query_size.h"
#include "lab/scenario/trace_build.h"

#define SECONDS_MAX 1e9
#define RATE_MAX    1e9
#define SLO_MS_MAX  3.6e6
#define AZURE_TEXTS 4 /* columns of text, before those of minutes */
#define MINUTE_S    60
#define CALLS_MAX   1000000000

/* ---- Azure Functions 2019 ---- */

/* The number of minutes in the header, which are numbered from 1. */
static int azure_header_read(struct trace_builder *b, uint32_t *minutes, struct sy_error *err) {
    char *rest = b->lines.text;
    for (int i = 0; i < AZURE_TEXTS; i++)
        lines_field(&rest);
    *minutes = 0;
    for (char *field; (field = lines_field(&rest));) {
        double number;
        if (decimal_double(field, *minutes + 1, *minutes + 1, &number) < 0)
            return lines_error(&b->lines, err, "expected the minute %u in the header, not '%.40s'", *minutes + 1,
                               field);
        if (++*minutes > TRACE_MINUTES_MAX)
            return lines_error(&b->lines, err, "more than %d minutes", TRACE_MINUTES_MAX);
    }
    return *minutes ? 0 : lines_error(&b->lines, err, "expected HashOwner,HashApp,HashFunction,Trigger,1,2,...");
}

/* Reads a count and the comma after it, if there is one; -1 if the text is no count. */
static int64_t count_read(const char **at) {
    int64_t count = 0;
    const char *digit = *at;
    for (; *digit >= '0' && *digit <= '9' && count <= CALLS_MAX; digit++)
        count = 10 * count + (*digit - '0');
    if (digit == *at || (*digit && *digit != ',') || count > CALLS_MAX)
        return -1;
    *at = *digit ? digit + 1 : digit;
    return count;
}

/* Adds a function's calls to those of its model. */
static int azure_row_read(struct trace_builder *b, uint32_t minutes, double *calls, struct sy_error *err) {
    const char *at = b->lines.text;
    for (int i = 0; i < AZURE_TEXTS && at; i++) {
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    uint32_t minute = 0;
    for (; at && *at && minute < minutes; minute++) {
        int64_t count = count_read(&at);
        if (count < 0)
            return lines_error(&b->lines, err, "expected a number of calls in minute %u, from 0 to %d", minute + 1,
                               CALLS_MAX);
        calls[minute] += (double)count;
    }
    if (!at || *at || minute < minutes)
        return lines_error(&b->lines, err, "expected %d names and the calls of %u minutes", AZURE_TEXTS, minutes);
    return 0;
}

static int azure_rows_read(struct trace_builder *b, uint32_t minutes, double *calls, struct sy_error *err) {
    int rc;
    for (uint64_t row = 0; (rc = lines_next(&b->lines, err)) > 0; row++) {
        if (b->spec->by_rows && row >= b->model_count)
            return 0;
        rc = azure_row_read(b, minutes, calls + (row % b->model_count) * minutes, err);
        if (rc)
            return rc;
    }
    return rc;
}

int trace_read_azure(struct trace_builder *b, struct sy_error *err) {
    uint32_t minutes;
    int rc = azure_header_read(b, &minutes, err);
    if (rc)
        return rc;
    uint64_t cells = (uint64_t)b->model_count * minutes;
    if (cells > TRACE_COUNTS_MAX)
        return lines_error(&b->lines, err, "%u minutes of %u models are more than %d counts", minutes, b->model_count,
                           TRACE_COUNTS_MAX);
    double *calls = calloc(cells, sizeof(*calls));
    if (!calls)
        return error_set(err, -ENOMEM, "%s: out of memory", b->lines.path);
    b->rates = true;
    b->length_s = MINUTE_S;
    rc = azure_rows_read(b, minutes, calls, err);
    for (uint64_t i = 0; !rc && i < cells; i++)
        if (calls[i] > 0)
            rc = trace_add(b,
                           (struct trace_entry){.model = (uint32_t)(i / minutes),
                                                .at_s = (double)(i % minutes) * MINUTE_S,
                                                .rate_rps = calls[i] / MINUTE_S},
                           err);
    free(calls);
    return rc;
}

/* ---- lines ---- */

/* Reads line after line, from the present line on, except a header that starts with `heading`. */
static int lines_read(struct trace_builder *b, const char *heading,
                      int (*line_read)(struct trace_builder *b, struct sy_error *err), struct sy_error *err) {
    int rc = strncmp(b->lines.text, heading, strlen(heading)) == 0 ? lines_next(&b->lines, err) : 1;
    for (; rc > 0; rc = lines_next(&b->lines, err)) {
        int failed = line_read(b, err);
        if (failed)
            return failed;
    }
    return rc;
}

/* A field that may be empty, or not there: then `absent`. */
static bool optional_number(const char *field, double least, double most, double absent, double *value) {
    *value = absent;
    return !field || !*field || decimal_double(field, least, most, value) == 0;
}

static bool priority_read(const char *field, uint32_t priorities, double *priority) {
    *priority = PRIORITY_BEST_EFFORT;
    return (field && strcmp(field, "best_effort") == 0) ||
           (optional_number(field, 0, priorities ? priorities - 1 : 0, TRACE_PRIORITY_ANY, priority) &&
            *priority == (uint32_t)*priority);
}

/* Reads the fields of a request behind its model. */
static int request_read(struct trace_builder *b, char *rest, struct trace_entry *entry, struct sy_error *err) {
    const char *items = lines_field(&rest), *slo = lines_field(&rest), *priority = lines_field(&rest);
    uint32_t priorities = b->models[entry->model].priorities;
    double number, slo_ms, level;
    if (rest || !optional_number(items, 1, QUERY_SIZE_MAX, 0, &number) || number != (uint32_t)number)
        return lines_error(&b->lines, err, "expected 'seconds,model,items,slo_ms,priority', the items from 1 to %d",
                           QUERY_SIZE_MAX);
    if (!optional_number(slo, 0.001, SLO_MS_MAX, 0, &slo_ms))
        return lines_error(&b->lines, err, "expected an SLO of %g to %g ms, not '%.40s'", 0.001, SLO_MS_MAX, slo);
    if (!priority_read(priority, priorities, &level))
        return lines_error(&b->lines, err, "expected best_effort or a priority of the model, 0 to %u, not '%.40s'",
                           priorities ? priorities - 1 : 0, priority);
    entry->items = (uint32_t)number;
    entry->slo_us = (uint32_t)(slo_ms * 1000 + 0.5);
    entry->priority = (uint32_t)level;
    b->requests |= number > 0 || slo_ms > 0 || level != TRACE_PRIORITY_ANY;
    return 0;
}

static int timestamp_read(struct trace_builder *b, struct sy_error *err) {
    struct trace_entry entry = {.at_s = 0};
    char *rest = b->lines.text, *seconds = lines_field(&rest), *model = lines_field(&rest);
    if (decimal_double(seconds, 0, SECONDS_MAX, &entry.at_s) < 0)
        return lines_error(&b->lines, err,
                           "expected 'seconds[,model[,items[,slo_ms[,priority]]]]', the seconds from 0 to %g",
                           SECONDS_MAX);
    int rc = trace_model_find(b, model, &entry.model, err);
    rc = rc ? rc : request_read(b, rest, &entry, err);
    return rc ? rc : trace_add(b, entry, err);
}

int trace_read_timestamps(struct trace_builder *b, struct sy_error *err) {
    return lines_read(b, "seconds", timestamp_read, err);
}

static int job_read(struct trace_builder *b, struct sy_error *err) {
    struct trace_entry entry = {.rate_rps = 0};
    char *rest = b->lines.text, *fields[5];
    double slo_ms;
    for (int i = 0; i < 5; i++)
        fields[i] = lines_field(&rest);
    if (rest || !fields[4] || !*fields[1] || decimal_double(fields[2], 0.001, SLO_MS_MAX, &slo_ms) < 0 ||
        decimal_double(fields[3], 0, RATE_MAX, &entry.rate_rps) < 0 ||
        decimal_double(fields[4], 0, SECONDS_MAX, &entry.at_s) < 0)
        return lines_error(&b->lines, err,
                           "expected 'job_id,model,slo,rate,arrival': milliseconds, requests per second "
                           "and seconds");
    entry.slo_us = (uint32_t)(slo_ms * 1000 + 0.5);
    int rc = trace_model_find(b, fields[1], &entry.model, err);
    return rc || entry.rate_rps == 0 ? rc : trace_add(b, entry, err);
}

int trace_read_blox(struct trace_builder *b, struct sy_error *err) {
    b->rates = true;
    b->length_s = b->spec->job_s;
    return lines_read(b, "job_id", job_read, err);
}
