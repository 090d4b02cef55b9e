/* pool_input.h - takes from a scenario what sched/plan/pool.h needs: prices, latencies, sizes of queries. Any thread.
 */
#pragma once

#include "core/util/error.h"
#include "lab/scenario/scenario.h"
#include "lab/sim/cluster.h"
#include "sched/plan/pool.h"

/* For a scenario with one model, and its cluster; `input` points into both. `budget` is in dollars an hour; 0: what the
 * scenario's accelerators cost. -EINVAL with a sentence that begins with `path`. */
int pool_input_make(const struct scenario *scenario, const struct cluster *cluster, const char *path, double budget,
                    struct pool_input *input, struct sy_error *err);
