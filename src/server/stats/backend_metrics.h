/* backend_metrics.h - what executors count of their accelerators, as Prometheus' text. */
#pragma once

#include "back/executor/executor.h"
#include "core/util/text.h"

/* Where the executors of a wiring count. Executors write the counts, any thread reads them. */
struct backend_counters {
    const struct wiring *wiring;
    const struct executor *const *executors; /* [wiring->executors] */
    const uint8_t *accelerator_type;         /* [wiring->accelerators] indexes in `types` */
    const char *const *types;                /* names of the types of accelerators */
};

/* Writes the counts of each accelerator, then the number of accelerators and of those that serve. */
void backend_metrics_render(const struct backend_counters *backend, struct text *out);
