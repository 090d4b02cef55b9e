/* batch_metrics.h - how large a server's batches are, read off its Prometheus text: Symphony's histogram
 * symphony_batch_size, else Triton's counters nv_inference_count and nv_inference_exec_count.
 *
 * Pure; one thread. */
#pragma once

#include <stdint.h>

struct batch_count {
    double items, batches; /* since the server started; the difference of two readings is what counts */
};

/* Sums over all series whose label model="..." is one of names[count]: counts[i] for names[i]. Returns how many series
 * were found; 0 leaves the counts at zero. */
uint32_t batch_metrics_read(const char *text, const char *const *names, uint32_t count, struct batch_count *counts);
