/* margin.c - a running 99th percentile. */
#include "base/margin.h"

#define DECAY_EVERY  1024
#define UPDATE_EVERY 16

/* Upper edge of a bucket: 1 us * sqrt(2)^i. */
static int64_t margin_edge(unsigned i) {
    int64_t even = 1000LL << (i / 2);
    return i % 2 ? even * 1414 / 1000 : even;
}

static void margin_update(struct margin *margin) {
    uint32_t above = 0, allowed = margin->total / 100;
    unsigned i = MARGIN_BUCKETS - 1;
    while (i > 0 && above + margin->counts[i] <= allowed)
        above += margin->counts[i--];
    atomic_store_explicit(&margin->p99_ns, margin_edge(i), memory_order_relaxed); /* a number on its own */
}

void margin_add(struct margin *margin, int64_t value_ns) {
    unsigned i = 0;
    while (i < MARGIN_BUCKETS - 1 && margin_edge(i) < value_ns)
        i++;
    margin->counts[i]++;
    margin->total++;
    if (++margin->since_decay >= DECAY_EVERY) {
        margin->since_decay = margin->total = 0;
        for (unsigned k = 0; k < MARGIN_BUCKETS; k++)
            margin->total += margin->counts[k] /= 2;
    }
    if (margin->total < 64 || margin->since_decay % UPDATE_EVERY == 0)
        margin_update(margin);
}
