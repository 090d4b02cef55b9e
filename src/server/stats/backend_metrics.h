/* backend_metrics.h - what executors count of their accelerators, as Prometheus' text. */
#pragma once

#include "back/executor/executor.h"
#include "core/util/text.h"

/* Where the executors of a wiring count. Written by them, read by any thread. */
struct backend_counters {
    const struct wiring *wiring;
    const struct executor *const *executors; /* [wiring->executors] */
    const uint8_t *accelerator_type;         /* [wiring->accelerators] */
    const char *const *types;                /* their names */
};

/* Every accelerator by itself, then how many there are and how many of them serve. */
void backend_metrics_render(const struct backend_counters *backend, struct text *out);
