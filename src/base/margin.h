/* margin.h - a running 99th percentile of small times, for timing margins: what wake-ups, dispatch, gathering and
 * replies take on this machine now.
 *
 * Counts in half-octave buckets from 1 us to 4 s, halved every 1024 values, so that the last few thousand count. One
 * writer; others read the percentile. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define MARGIN_BUCKETS 45

struct margin {
    uint32_t counts[MARGIN_BUCKETS];
    uint32_t total, since_decay;
    _Atomic int64_t p99_ns; /* upper edge of the bucket; 0 without values */
};

/* Adds a value. The writer's thread. */
void margin_add(struct margin *margin, int64_t value_ns);

static inline int64_t margin_p99_ns(const struct margin *margin) {
    return atomic_load_explicit(&margin->p99_ns, memory_order_relaxed); /* a number on its own: no order needed */
}
