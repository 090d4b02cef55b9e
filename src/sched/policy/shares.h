/* shares.h - which requests are admitted when a sub-cluster is overloaded. Pure; for policies that are not central.
 *
 * Each model is admitted up to a level of accelerator time, so that all models together fill the cluster:
 *
 *     demand |          ####
 *            |          ####           a flood: admitted up to the level
 *      level | - - - - -#### - - -
 *            |  ##      ####  ##       the others: admitted entirely
 *            |  ##  ##  ####  ##  ##
 *
 * Other requests are refused. */
#pragma once

#include "sched/core/policy.h"

/* How many accelerators `rate` items a second of a model keep busy, in batches of `batch`. */
static inline double rate_load(const struct model_rates *r, double rate, double batch) {
    return rate / 1e9 * (r->alpha_ns + r->beta_ns / batch);
}

/* The part of a rate measured over 0.1 s that may be chance: four standard errors of a count of `arrivals`. */
static inline double rate_chance(double arrivals) {
    return 4 / __builtin_sqrt(2 * arrivals + 1);
}

/* Sets the share of each model's arrivals that is admitted: 1 for all, unless the sub-cluster is overloaded. `rising`:
 * more arrives now than over the last 2 s, so the accelerators may not be busy yet. For the rank core's thread
 * (cluster_derive). */
void shares_derive(const struct cluster_view *c, bool rising, double *admit_share);

/* Whether the next arrival is admitted. Admits the part `share` of all arrivals, evenly spread. *credit is 0 at first.
 * For the model core's thread (model_admit). */
bool share_admits(double *credit, double share);
