/* latency.h - histogram of latencies at 0.2 % resolution, for the client's side of a measurement.
 *
 * Finer than core/util/histogram.h (6 %), which is small enough for a server to have many: a client that measures what
 * a server adds to an 8 ms model must see 20 us. One thread. A histogram takes 64 KiB or more; pages that are not
 * touched cost nothing. */
#pragma once

#include <stdint.h>

#define LATENCY_STEP_BITS 9
#define LATENCY_STEPS     (1 << LATENCY_STEP_BITS) /* buckets per power of two */
#define LATENCY_BUCKETS   (LATENCY_STEPS * 36)     /* buckets up to 2^44 ns, almost five hours */

struct latency {
    uint64_t count;
    int64_t max_ns;
    double sum_ns;
    uint32_t buckets[LATENCY_BUCKETS];
};

/* Adds a latency; a negative one counts as 0. */
void latency_add(struct latency *latency, int64_t ns);
/* The value at quantile q in [0, 1]: the middle of its bucket, never over the maximum; 0 when empty. */
int64_t latency_quantile_ns(const struct latency *latency, double q);
void latency_merge(struct latency *into, const struct latency *from);
