/* pool_input.h - takes from a scenario what plan/pool.h needs: prices, latencies, sizes of queries. Any thread. */
#pragma once

#include "base/error.h"
#include "plan/pool.h"
#include "scenario/scenario.h"
#include "sim/cluster.h"

/* For a scenario with one model, and its cluster; `input` points into both. `budget` is in dollars an hour; 0: what the
 * scenario's accelerators cost. -EINVAL with a sentence that begins with `path`. */
int pool_input_make(const struct scenario *scenario, const struct cluster *cluster, const char *path, double budget,
                    struct pool_input *input, struct sy_error *err);
