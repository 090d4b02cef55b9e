/* latency.c - histogram of latencies at 0.2 % resolution. */
#include "lab/load/latency.h"

#include "core/util/log_linear.h"

static int64_t bucket_middle(uint32_t bucket) {
    uint64_t width, from = log_linear_from(bucket, LATENCY_STEP_BITS, &width);
    return (int64_t)(from + width / 2);
}

void latency_add(struct latency *l, int64_t ns) {
    uint32_t bucket = log_linear_bucket(ns > 0 ? (uint64_t)ns : 0, LATENCY_STEP_BITS);
    l->buckets[bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1]++;
    l->count++;
    l->sum_ns += (double)ns;
    if (ns > l->max_ns)
        l->max_ns = ns;
}

int64_t latency_quantile_ns(const struct latency *l, double q) {
    double nth = q * (double)l->count;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < LATENCY_BUCKETS && l->count; i++) {
        seen += l->buckets[i];
        if (seen && (double)seen >= nth)
            return bucket_middle(i) < l->max_ns ? bucket_middle(i) : l->max_ns;
    }
    return l->max_ns;
}

void latency_merge(struct latency *into, const struct latency *from) {
    if (!from->count)
        return;
    for (uint32_t i = 0; i < LATENCY_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    if (from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
}
