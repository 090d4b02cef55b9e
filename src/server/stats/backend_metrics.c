/* backend_metrics.c - writes the metrics of accelerators, one row each. */
#include "server/stats/backend_metrics.h"

#include <stddef.h>

#include "core/util/container.h"
#include "core/util/counter.h"
#include "front/net/metric_text.h"

void backend_metrics_render(const struct backend_counters *b, struct text *out) {
    static const struct {
        const char *name, *help;
        size_t offset;
        double unit;
    } rows[] = {
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
    const struct wiring *w = b->wiring;
    uint32_t serving = 0;

    for (unsigned r = 0; r < ARRAY_COUNT(rows); r++) {
        metric_heading(out, rows[r].name, "counter", rows[r].help);
        for (uint32_t a = 0; a < w->accelerators; a++) {
            const char *base = (const char *)executor_counters(b->executors[w->executor_of[a]], a);
            uint64_t value = counter_get((const _Atomic uint64_t *)(base + rows[r].offset));
            text_printf(out, "%s{accelerator=\"%u\",type=\"%s\"} %.12g\n", rows[r].name, a,
                        b->types[b->accelerator_type[a]], (double)value / rows[r].unit);
        }
    }
    metric_heading(out, "symphony_accelerator_state", "gauge",
                   "0: in service; 1: leaving, and ends what it has; 2: gone, drained or failed.");
    for (uint32_t a = 0; a < w->accelerators; a++) {
        enum accelerator_state state = wiring_accelerator_state(w, a);
        serving += state == ACCELERATOR_SERVING;
        text_printf(out, "symphony_accelerator_state{accelerator=\"%u\",type=\"%s\"} %d\n", a,
                    b->types[b->accelerator_type[a]], state);
    }
    metric_heading(out, "symphony_accelerators", "gauge", "Accelerators of the server.");
    text_printf(out, "symphony_accelerators %u\n", w->accelerators);
    metric_heading(out, "symphony_accelerators_serving", "gauge", "Of these, the ones that are in service.");
    text_printf(out, "symphony_accelerators_serving %u\n", serving);
}
