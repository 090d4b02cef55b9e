/* batch_metrics.c - how large a server's batches are, read off its Prometheus text. */
#include "load/batch_metrics.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Finds label="value" between the braces at `labels`; the value's start and length. Values with escapes do not match a
 * model's name anyway. */
static bool label_find(const char *labels, const char *end, const char *label, const char **value, size_t *length) {
    size_t label_length = strlen(label);
    for (const char *at = labels + 1; at < end;) {
        const char *quote = memchr(at, '"', (size_t)(end - at));
        const char *close = quote ? memchr(quote + 1, '"', (size_t)(end - quote - 1)) : NULL;
        if (!close)
            return false;
        while (at < quote && (*at == ',' || *at == ' '))
            at++;
        if ((size_t)(quote - at) == label_length + 1 && memcmp(at, label, label_length) == 0) {
            *value = quote + 1;
            *length = (size_t)(close - quote - 1);
            return true;
        }
        at = close + 1;
    }
    return false;
}

/* The model the series belongs to: an index into names, or count. */
static uint32_t series_model(const char *labels, const char *end, const char *const *names, uint32_t count) {
    const char *value;
    size_t length;
    uint32_t i = count;
    if (label_find(labels, end, "model", &value, &length))
        for (i = 0; i < count; i++)
            if (strlen(names[i]) == length && memcmp(names[i], value, length) == 0)
                break;
    return i;
}

/* Adds up the metric's series into counts[].items or, with `batches`, counts[].batches. */
static uint32_t metric_sum(const char *text, const char *metric, const char *const *names, uint32_t count,
                           struct batch_count *counts, bool batches) {
    uint32_t found = 0;
    size_t metric_length = strlen(metric);
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        const char *labels = line + metric_length;
        if (length > metric_length && memcmp(line, metric, metric_length) == 0 && *labels == '{') {
            const char *end = memchr(labels, '}', length - metric_length);
            uint32_t model = end ? series_model(labels, end, names, count) : count;
            if (model < count) {
                double value = strtod(end + 1, NULL);
                if (batches)
                    counts[model].batches += value;
                else
                    counts[model].items += value;
                found++;
            }
        }
        line += length + (line[length] == '\n');
    }
    return found;
}

uint32_t batch_metrics_read(const char *text, const char *const *names, uint32_t count, struct batch_count *counts) {
    static const char *const metrics[][2] = {
        {"symphony_batch_size_sum", "symphony_batch_size_count"},
        {"nv_inference_count", "nv_inference_exec_count"},
    };
    for (uint32_t i = 0; i < count; i++)
        counts[i] = (struct batch_count){0};
    for (uint32_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        uint32_t found = metric_sum(text, metrics[i][0], names, count, counts, false);
        if (found)
            return found + metric_sum(text, metrics[i][1], names, count, counts, true);
    }
    return 0;
}
