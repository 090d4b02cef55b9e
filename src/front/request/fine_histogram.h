/* fine_histogram.h - log-linear histogram of non-negative int64 values at 0.4 % resolution: 256 steps per power of two.
 *
 * For the few quantities that are compared with somebody else's measurement: at a latency of 37 ms a bucket is 0.13 ms
 * wide, in histogram.h 2.1 ms. 66 KiB each, but pages never touched cost nothing.
 *
 * One writer, any readers: counts are relaxed atomics (a reader may see a sum a few values behind its counts). */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define FINE_HISTOGRAM_STEP_BITS 8
#define FINE_HISTOGRAM_BUCKETS   (33u << FINE_HISTOGRAM_STEP_BITS) /* up to 2^40 ns, 18 minutes; the rest in the last */

struct fine_histogram {
    _Atomic uint64_t count, sum; /* number and sum of all values */
    _Atomic uint64_t buckets[FINE_HISTOGRAM_BUCKETS];
};

/* Negative counts as 0. The writer's thread only. */
void fine_histogram_add(struct fine_histogram *h, int64_t value);
/* Adds to counts[i] the number of values that were at most edges[i], to the resolution of a bucket. The edges must
 * rise. Any thread. */
void fine_histogram_count_until(const struct fine_histogram *h, const int64_t *edges, uint32_t count, uint64_t *counts);
/* The least and the greatest value that fall into the bucket (the last: INT64_MAX). Pure. */
void fine_histogram_edges(uint32_t bucket, int64_t *least, int64_t *greatest);
