/* histogram.c - log-linear histogram. */
#include "base/histogram.h"

#include "base/log_linear.h"

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

static uint64_t load(const _Atomic uint64_t *word) {
    return atomic_load_explicit(word, memory_order_relaxed); /* statistics: no order needed */
}

static void add(_Atomic uint64_t *word, uint64_t n) {
    atomic_store_explicit(word, load(word) + n, memory_order_relaxed); /* one writer, so no read-modify-write */
}

void histogram_add_times(struct histogram *h, int64_t value, uint64_t times) {
    add(&h->buckets[bucket_of(value)], times);
    add(&h->count, times);
    add(&h->sum, value > 0 ? (uint64_t)value * times : 0);
}

void histogram_add(struct histogram *h, int64_t value) {
    histogram_add_times(h, value, 1);
}

int64_t histogram_quantile(const struct histogram *h, double q) {
    uint64_t total = 0, seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        total += load(&h->buckets[i]);
    if (!total)
        return 0;
    double rank = q * (double)total;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += load(&h->buckets[i]);
        if (seen && (double)seen >= rank)
            return bucket_edge(i);
    }
    return bucket_edge(HISTOGRAM_BUCKETS - 1);
}

uint64_t histogram_count_until(const struct histogram *h, int64_t edge) {
    uint64_t seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS && bucket_edge(i) <= edge; i++)
        seen += load(&h->buckets[i]);
    return seen;
}

void histogram_merge(struct histogram *into, const struct histogram *from) {
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        add(&into->buckets[i], load(&from->buckets[i]));
    add(&into->count, load(&from->count));
    add(&into->sum, load(&from->sum));
}

void histogram_subtract(struct histogram *from, const struct histogram *earlier) {
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        add(&from->buckets[i], -load(&earlier->buckets[i]));
    add(&from->count, -load(&earlier->count));
    add(&from->sum, -load(&earlier->sum));
}
