/* shares.h - who is admitted when a sub-cluster is asked for more than it can do. Pure; for policies of candidates.
 *
 * Each model is admitted up to a level of accelerator time. The levels are such that together they fill the cluster:
 *
 *     demand |          ####
 *            |          ####           a flood: admitted up to the level
 *      level | - - - - -#### - - -
 *            |  ##      ####  ##       the others: admitted entirely
 *            |  ##  ##  ####  ##  ##
 *
 * What is not admitted waits among the model's leftovers, and runs if an accelerator has nothing else to do. */
#pragma once

#include "sched/policy.h"

/* Accelerators that `rate` items a second of a model keep busy in batches of `batch`. */
static inline double rate_load(const struct model_rates *r, double rate, double batch) {
    return rate / 1e9 * (r->alpha_ns + r->beta_ns / batch);
}

/* The part of a rate measured over 0.1 s that may be chance, by how many arrivals it was measured on: four standard
 * errors. */
static inline double rate_chance(double arrivals) {
    return 4 / __builtin_sqrt(2 * arrivals + 1);
}

/* Sets the share of each model's arrivals that is admitted: 1 for all, unless the sub-cluster is overloaded. For the
 * rank core's thread (cluster_derive). */
void shares_derive(const struct cluster_view *c, double *admit_share);

/* Whether the next arrival is admitted: evenly so many of them as the share says. *credit is 0 at first. For the model
 * core's thread (model_admit). */
bool share_admits(double *credit, double share);
