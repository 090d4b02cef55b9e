/* fine_histogram.c - log-linear histogram at 0.4 % resolution. */
#include "front/request/fine_histogram.h"

#include "core/util/counter.h"
#include "core/util/log_linear.h"

_Static_assert(FINE_HISTOGRAM_BUCKETS == LOG_LINEAR_BUCKETS(FINE_HISTOGRAM_STEP_BITS, 40), "values under 2^40");

void fine_histogram_add(struct fine_histogram *h, int64_t value) {
    uint64_t counted = value > 0 ? (uint64_t)value : 0;
    uint32_t bucket = log_linear_bucket(counted, FINE_HISTOGRAM_STEP_BITS);
    counter_add(&h->buckets[bucket < FINE_HISTOGRAM_BUCKETS ? bucket : FINE_HISTOGRAM_BUCKETS - 1], 1);
    counter_add(&h->count, 1);
    counter_add(&h->sum, counted);
}

void fine_histogram_edges(uint32_t bucket, int64_t *least, int64_t *greatest) {
    uint64_t width, from = log_linear_from(bucket, FINE_HISTOGRAM_STEP_BITS, &width);
    *least = (int64_t)from;
    *greatest = bucket < FINE_HISTOGRAM_BUCKETS - 1 ? (int64_t)(from + width - 1) : INT64_MAX;
}

void fine_histogram_count_until(const struct fine_histogram *h, const int64_t *edges, uint32_t count,
                                uint64_t *counts) {
    uint64_t seen = 0, all = counter_get(&h->count);
    uint32_t i = 0;
    for (uint32_t e = 0; e < count; e++) {
        uint32_t end = edges[e] < 0 ? 0 : log_linear_bucket((uint64_t)edges[e] + 1, FINE_HISTOGRAM_STEP_BITS);
        if (end >= FINE_HISTOGRAM_BUCKETS)
            end = edges[e] < INT64_MAX ? FINE_HISTOGRAM_BUCKETS - 1 : FINE_HISTOGRAM_BUCKETS;
        for (; i < end && seen < all; i++)
            seen += counter_get(&h->buckets[i]);
        counts[e] += seen;
    }
}
