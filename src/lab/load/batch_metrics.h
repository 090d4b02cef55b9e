/* batch_metrics.h - reads the sizes of a server's batches from its Prometheus text: Symphony's histogram
 * symphony_batch_size, else Triton's counters nv_inference_count and nv_inference_exec_count.
 *
 * Pure; one thread. */
#pragma once

#include <stdint.h>

struct batch_count {
    double items, batches; /* counts since the server started; callers take the difference of two readings */
};

/* Sums over all series whose label model="..." is one of names[count]: counts[i] for names[i]. Returns the number of
 * series found; with 0 the counts stay zero. */
uint32_t batch_metrics_read(const char *text, const char *const *names, uint32_t count, struct batch_count *counts);
