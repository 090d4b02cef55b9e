/* kairos_latency.h - what queries take on instances of one type, learned online (Kairos, HPDC '23, section 5.1): a line
 * through what was measured, and a table of sizes as soon as they have been seen. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "table/profile.h"

struct kairos_size {
    int64_t mean_ns;
    int64_t least_ns; /* profiled or measured */
    uint32_t seen;
};

/* Of one model on one type. */
struct kairos_latency {
    uint32_t items_max;
    double runs, items, ns, items_items, items_ns; /* sums for the line */
    struct kairos_size sizes[];                    /* [items_max + 1] */
};

/* Bytes of an estimate for queries of up to items_max. */
size_t kairos_latency_bytes(uint32_t items_max);
/* Starts from a profile whose batch_max is at least items_max, or from nothing (NULL). */
void kairos_latency_init(struct kairos_latency *latency, uint32_t items_max, const struct profile *profile);
/* Counts a query of 1 to items_max that took run_ns. */
void kairos_latency_add(struct kairos_latency *latency, uint32_t items, int64_t run_ns);
/* What a query of 1 to items_max is expected to take. 0 while nothing at all is known, so that it is tried. */
int64_t kairos_latency_ns(const struct kairos_latency *latency, uint32_t items);
/* The least that a query of 1 to items_max is known to take; INT64_MAX while nothing is known of that size. */
int64_t kairos_latency_least_ns(const struct kairos_latency *latency, uint32_t items);
/* Takes back half of what the mean of a size is over its least: for when none of that size is run any more because none
 * is expected to be in time. */
void kairos_latency_relax(struct kairos_latency *latency, uint32_t items);
