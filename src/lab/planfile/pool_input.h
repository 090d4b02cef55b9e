/* pool_input.h - makes the input of sched/plan/pool.h from a scenario: prices, latencies, sizes of queries. Any thread.
 */
#pragma once

#include "core/util/error.h"
#include "lab/scenario/scenario.h"
#include "lab/sim/cluster.h"
#include "sched/plan/pool.h"

/* Fills `input`, which points into the scenario, with one model, and its cluster. `budget` is in dollars an hour; 0:
 * the price of the scenario's accelerators. 0, or -EINVAL with a sentence that begins with `path`. */
int pool_input_make(const struct scenario *scenario, const struct cluster *cluster, const char *path, double budget,
                    struct pool_input *input, struct sy_error *err);
