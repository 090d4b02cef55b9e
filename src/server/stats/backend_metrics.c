/* backend_metrics.c - writes the metrics of accelerators, one row each. */
#include "server/stats/backend_metrics.h"

#include <stddef.h>

#include "core/util/container.h"
#include "core/util/counter.h"
#include "front/net/metric_text.h"

static void render_memory(const struct accelerator_row *rows, uint32_t count, struct text *out) {
    static const struct {
        const char *name, *help;
        size_t offset;
    } gauges[] = {
        {"symphony_accelerator_memory_bytes", "Memory that loaded models take, where it is limited.",
         offsetof(struct timeline_head, bytes)},
        {"symphony_accelerator_models", "Models that are loaded there.", offsetof(struct timeline_head, models)},
    };
    for (unsigned g = 0; g < ARRAY_COUNT(gauges) && count && rows[0].memory; g++) {
        metric_heading(out, gauges[g].name, "gauge", gauges[g].help);
        for (const struct accelerator_row *row = rows; row < rows + count; row++)
            text_printf(out, "%s{accelerator=\"%u\",type=\"%s\"} %llu\n", gauges[g].name, row->accelerator,
                        metric_label(row->type).text,
                        (unsigned long long)counter_get(
                            (const _Atomic uint64_t *)((const char *)row->memory + gauges[g].offset)));
    }
}

void backend_metrics_render(const struct accelerator_row *rows, uint32_t count, uint32_t serving, struct text *out) {
    static const struct {
        const char *name, *help;
        size_t offset;
        double unit;
    } columns[] = {
        {"symphony_accelerator_busy_seconds_total", "Time spent on batches.",
         offsetof(struct executor_counters, busy_ns), 1e9},
        {"symphony_accelerator_batches_total", "Batches taken.", offsetof(struct executor_counters, batches), 1},
        {"symphony_accelerator_items_total", "Items in them.", offsetof(struct executor_counters, items), 1},
        {"symphony_accelerator_failed_batches_total", "Batches that the engine failed.",
         offsetof(struct executor_counters, failed_batches), 1},
        {"symphony_accelerator_lost_batches_total", "Batches not run because the accelerator had failed.",
         offsetof(struct executor_counters, lost_batches), 1},
        {"symphony_accelerator_absent_batches_total", "Batches not run because their model was not resident.",
         offsetof(struct executor_counters, absent_batches), 1},
        {"symphony_accelerator_expired_batches_total",
         "Batches not run because every deadline in them had passed at the start.",
         offsetof(struct executor_counters, expired_batches), 1},
    };
    for (unsigned c = 0; c < ARRAY_COUNT(columns); c++) {
        metric_heading(out, columns[c].name, "counter", columns[c].help);
        for (const struct accelerator_row *row = rows; row < rows + count; row++) {
            uint64_t value = counter_get((const _Atomic uint64_t *)((const char *)row->counters + columns[c].offset));
            text_printf(out, "%s{accelerator=\"%u\",type=\"%s\"} %.12g\n", columns[c].name, row->accelerator,
                        metric_label(row->type).text, (double)value / columns[c].unit);
        }
    }
    metric_heading(out, "symphony_accelerator_state", "gauge",
                   "0: in service; 1: leaving, and ends what it has; 2: gone, drained or failed.");
    for (const struct accelerator_row *row = rows; row < rows + count; row++)
        text_printf(out, "symphony_accelerator_state{accelerator=\"%u\",type=\"%s\"} %d\n", row->accelerator,
                    metric_label(row->type).text, row->state);
    render_memory(rows, count, out);
    metric_number(out, "symphony_accelerators", "gauge", "Accelerators of the server.", count);
    metric_number(out, "symphony_accelerators_serving", "gauge", "Of these, the ones that are in service.", serving);
    uint64_t failed = 0;
    for (const struct accelerator_row *row = rows; row < rows + count; row++)
        failed += counter_get(&row->counters->failed);
    metric_number(out, "symphony_accelerators_failed", "gauge",
                  "Accelerators that have failed by themselves and are not back; if all have, the process is not live.",
                  (double)failed);
}
