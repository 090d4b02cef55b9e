/* rolling.h - corrects a latency table from measured runs: the rolling 99th percentile of the last hundred runs of each
 * batch size (Clockwork, OSDI 2020, section 5.3, keeps it over its last actions). Pure; memory is bounded by the
 * table's length. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/data/profile.h"

#define ROLLING_WINDOW 100 /* runs that are kept of a batch size; the slowest of them does not count */

struct rolling;

/* Bytes of memory, aligned as malloc's, for a struct rolling: for tables up to `batch_max`, and runs on `accelerators`
 * accelerators. */
size_t rolling_bytes(uint32_t batch_max, uint32_t accelerators);
/* Starts from the table `profiled`, which is copied. */
void rolling_init(struct rolling *rolling, const struct profile *profiled, uint32_t accelerators);
/* How long a batch of `items` takes by the table as profiled. */
int64_t rolling_profiled_ns(const struct rolling *rolling, uint32_t items);
/* Counts a run of `items` that took run_ns on an accelerator. The accelerator's number serves only to tell its first
 * run of a batch size. If the run changes the expected latencies, rewrites `table` (of the same batch_max,
 * non-decreasing, with its fit) and returns true. A batch size outside the table is ignored. */
bool rolling_add(struct rolling *rolling, uint32_t accelerator, uint32_t items, int64_t run_ns, struct profile *table);
/* Takes back half of what the corrections add to the profiled table. Call it when nothing runs any more because the
 * table says that nothing can be in time. A next run that takes as long as was taken back puts it all in force again.
 * Rewrites `table`. False: there was nothing to take back. */
bool rolling_relax(struct rolling *rolling, struct profile *table);
