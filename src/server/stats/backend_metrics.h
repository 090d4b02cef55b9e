/* backend_metrics.h - what executors count of their accelerators, as Prometheus' text. */
#pragma once

#include <stdint.h>

#include "core/data/running.h"
#include "core/data/timeline.h"
#include "core/util/text.h"

struct accelerator_row {
    uint32_t accelerator; /* number of the accelerator */
    char type[64];
    const struct executor_counters *counters;
    int state;                          /* enum accelerator_state */
    const struct timeline_head *memory; /* what its memory holds; NULL: its memory is not limited, or it is not known */
};

/* Writes the counts of each accelerator, then the number of accelerators, and of those in service. */
void backend_metrics_render(const struct accelerator_row *rows, uint32_t count, uint32_t serving, struct text *out);
