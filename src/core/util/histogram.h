/* histogram.h - log-linear histogram of non-negative int64 values: 16 steps per power of two, so 6 % resolution.
 *
 * One writer, any readers: counts are relaxed atomics (a reader may see a sum a few values behind its counts). */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_STEPS   16                     /* steps per power of two */
#define HISTOGRAM_BUCKETS (HISTOGRAM_STEPS * 45) /* values up to 2^48 (ns: 3 days); larger ones: the last */

struct histogram {
    _Atomic uint64_t count, sum;
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Add a value once, or `times` times; a negative value counts as 0. The writer's thread only. */
void histogram_add(struct histogram *h, int64_t value);
void histogram_add_times(struct histogram *h, int64_t value, uint64_t times);
/* Prefetches the cache lines that adding `value` touches. A hint. */
void histogram_prefetch(const struct histogram *h, int64_t value);
/* The value at quantile q in [0, 1]: the upper edge of the value's bucket; 0: the histogram is empty. Any thread. */
int64_t histogram_quantile(const struct histogram *h, double q);
/* Adds to counts[i] how many values were at most edges[i], to the resolution of a bucket. The edges must rise. Any
 * thread. */
void histogram_count_until(const struct histogram *h, const int64_t *edges, uint32_t count, uint64_t *counts);
/* Adds the counts of `from` to `into`. Only on the thread that writes `into`. */
void histogram_merge(struct histogram *into, const struct histogram *from);
/* Subtracts from `from` its earlier copy `earlier`. Only on the thread that writes `from`. */
void histogram_subtract(struct histogram *from, const struct histogram *earlier);
