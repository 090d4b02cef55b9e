/* histogram.c - log-linear histogram. */
#include "core/util/histogram.h"

#include "core/util/counter.h"
#include "core/util/log_linear.h"

#define STEP_BITS 4

_Static_assert(HISTOGRAM_STEPS == 1 << STEP_BITS, "steps are a power of two");

static unsigned bucket_of(int64_t value) {
    unsigned bucket = log_linear_bucket(value > 0 ? (uint64_t)value : 0, STEP_BITS);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The greatest value that falls into the bucket. */
static int64_t bucket_edge(unsigned bucket) {
    uint64_t width, from = log_linear_from(bucket, STEP_BITS, &width);
    return (int64_t)(from + width - 1);
}

void histogram_add_times(struct histogram *h, int64_t value, uint64_t times) {
    counter_add(&h->buckets[bucket_of(value)], times);
    counter_add(&h->count, times);
    counter_add(&h->sum, value > 0 ? (uint64_t)value * times : 0);
}

void histogram_add(struct histogram *h, int64_t value) {
    histogram_add_times(h, value, 1);
}

void histogram_prefetch(const struct histogram *h, int64_t value) {
    __builtin_prefetch(h, 1);
    __builtin_prefetch((const void *)&h->buckets[bucket_of(value)], 1);
}

int64_t histogram_quantile(const struct histogram *h, double q) {
    uint64_t total = 0, seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        total += counter_get(&h->buckets[i]);
    if (!total)
        return 0;
    double nth = q * (double)total;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += counter_get(&h->buckets[i]);
        if (seen && (double)seen >= nth)
            return bucket_edge(i);
    }
    return bucket_edge(HISTOGRAM_BUCKETS - 1);
}

void histogram_count_until(const struct histogram *h, const int64_t *edges, uint32_t count, uint64_t *counts) {
    uint64_t seen = 0, all = counter_get(&h->count);
    uint32_t i = 0;
    for (uint32_t e = 0; e < count; e++) {
        uint32_t end = edges[e] < 0 ? 0 : log_linear_bucket((uint64_t)edges[e] + 1, STEP_BITS);
        for (end = end < HISTOGRAM_BUCKETS ? end : HISTOGRAM_BUCKETS; i < end && seen < all; i++)
            seen += counter_get(&h->buckets[i]);
        counts[e] += seen;
    }
}

void histogram_merge(struct histogram *into, const struct histogram *from) {
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        counter_add(&into->buckets[i], counter_get(&from->buckets[i]));
    counter_add(&into->count, counter_get(&from->count));
    counter_add(&into->sum, counter_get(&from->sum));
}

void histogram_subtract(struct histogram *from, const struct histogram *earlier) {
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        counter_add(&from->buckets[i], -counter_get(&earlier->buckets[i]));
    counter_add(&from->count, -counter_get(&earlier->count));
    counter_add(&from->sum, -counter_get(&earlier->sum));
}
