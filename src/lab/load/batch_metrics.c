/* batch_metrics.c - reads the sizes of a server's batches from its Prometheus text. */
#include "lab/load/batch_metrics.h"

#include <stdbool.h>

#include "lab/load/prometheus.h"

/* Adds up the metric's series into counts[].items or, with `batches`, counts[].batches. */
static uint32_t metric_sum(const char *text, const char *metric, const char *const *names, uint32_t count,
                           struct batch_count *counts, bool batches) {
    uint32_t found = 0;
    struct prometheus_sample sample;
    while (prometheus_next(&text, &sample)) {
        uint32_t model =
            prometheus_named(&sample, metric, "") ? prometheus_label_among(&sample, "model", names, count) : count;
        if (model == count)
            continue;
        if (batches)
            counts[model].batches += sample.value;
        else
            counts[model].items += sample.value;
        found++;
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
