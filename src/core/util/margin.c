/* margin.c - a running 95th percentile. */
#include "core/util/margin.h"

#define DECAY_EVERY  1024
#define UPDATE_EVERY 16
#define GUESS_WEIGHT 256

/* Upper edge of a bucket: 1 us * sqrt(2)^i. */
static int64_t margin_edge(unsigned i) {
    int64_t even = 1000LL << (i / 2);
    return i % 2 ? even * 1414 / 1000 : even;
}

static void margin_update(struct margin *margin) {
    uint32_t above = 0, allowed = margin->total / 20;
    unsigned i = MARGIN_BUCKETS - 1;
    while (i > 0 && above + margin->counts[i] <= allowed)
        above += margin->counts[i--];
    atomic_store_explicit(&margin->value_ns, margin_edge(i), memory_order_relaxed); /* a number on its own */
}

static unsigned bucket_of(int64_t value_ns) {
    unsigned i = 0;
    while (i < MARGIN_BUCKETS - 1 && margin_edge(i) < value_ns)
        i++;
    return i;
}

void margin_init(struct margin *margin, int64_t guess_ns) {
    *margin = (struct margin){.guess_bucket = bucket_of(guess_ns), .total = GUESS_WEIGHT};
    margin->counts[margin->guess_bucket] = GUESS_WEIGHT;
    margin_update(margin);
}

/* Halves the counts, so that old values fade. */
static void margin_decay(struct margin *margin) {
    margin->since_decay = margin->total = 0;
    for (unsigned k = 0; k < MARGIN_BUCKETS; k++)
        margin->total += margin->counts[k] /= 2;
}

void margin_relax(struct margin *margin) {
    uint32_t weight = margin->total / 8 + 1;
    margin->counts[margin->guess_bucket] += weight;
    margin->total += weight;
    margin->since_decay += weight;
    if (margin->since_decay >= DECAY_EVERY)
        margin_decay(margin);
    margin_update(margin);
}

void margin_add(struct margin *margin, int64_t value_ns) {
    margin->counts[bucket_of(value_ns)]++;
    margin->total++;
    if (++margin->since_decay >= DECAY_EVERY)
        margin_decay(margin);
    if (value_ns > margin_ns(margin) || margin->since_decay % UPDATE_EVERY == 0)
        margin_update(margin);
}
