/* latency.c - histogram of latencies at 0.2 % resolution. */
#include "load/latency.h"

static uint32_t bucket_of(int64_t ns) {
    if (ns < LATENCY_STEPS)
        return ns < 0 ? 0 : (uint32_t)ns;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll((uint64_t)ns) - LATENCY_STEP_BITS;
    uint64_t bucket = ((uint64_t)(shift + 1) << LATENCY_STEP_BITS) + (((uint64_t)ns >> shift) & (LATENCY_STEPS - 1));
    return bucket < LATENCY_BUCKETS ? (uint32_t)bucket : LATENCY_BUCKETS - 1;
}

static int64_t bucket_middle(uint32_t bucket) {
    if (bucket < LATENCY_STEPS)
        return bucket;
    uint32_t shift = (bucket >> LATENCY_STEP_BITS) - 1;
    int64_t from = (int64_t)(LATENCY_STEPS + (bucket & (LATENCY_STEPS - 1))) << shift;
    return from + ((1LL << shift) >> 1);
}

void latency_add(struct latency *l, int64_t ns) {
    l->buckets[bucket_of(ns)]++;
    l->count++;
    l->sum_ns += (double)ns;
    if (ns > l->max_ns)
        l->max_ns = ns;
}

int64_t latency_quantile_ns(const struct latency *l, double q) {
    double rank = q * (double)l->count;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < LATENCY_BUCKETS && l->count; i++) {
        seen += l->buckets[i];
        if (seen && (double)seen >= rank)
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
