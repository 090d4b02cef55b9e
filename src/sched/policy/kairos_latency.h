/* kairos_latency.h - how long queries take on instances of one type, learned online (Kairos, HPDC '23, section 5.1): a
 * line through the measurements, and a table for the sizes that have been seen. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/data/profile.h"

struct kairos_size {
    int64_t mean_ns;
    int64_t least_ns; /* shortest time, profiled or measured */
    uint32_t seen;    /* runs of the size, up to a limit */
};

/* The estimate for one model on one type. */
struct kairos_latency {
    uint32_t items_max;
    double runs, items, ns, items_items, items_ns; /* sums over runs, for the least-squares line */
    struct kairos_size sizes[];                    /* [items_max + 1] by items of a query */
};

/* Bytes of an estimate for queries of up to items_max. */
size_t kairos_latency_bytes(uint32_t items_max);
/* Starts from a profile whose batch_max is at least items_max, or from nothing (NULL). */
void kairos_latency_init(struct kairos_latency *latency, uint32_t items_max, const struct profile *profile);
/* Counts a query of 1 to items_max that took run_ns. */
void kairos_latency_add(struct kairos_latency *latency, uint32_t items, int64_t run_ns);
/* How long a query of 1 to items_max is expected to take; 0: nothing is known yet, so that the query is tried. */
int64_t kairos_latency_ns(const struct kairos_latency *latency, uint32_t items);
/* The shortest known time of a query of 1 to items_max; INT64_MAX: nothing is known of that size. */
int64_t kairos_latency_least_ns(const struct kairos_latency *latency, uint32_t items);
/* Halves the distance between the mean and the shortest time of a size. Called when queries of that size no longer run,
 * because none is expected to be in time. */
void kairos_latency_relax(struct kairos_latency *latency, uint32_t items);
