/* shared.h - the latency of batches of models that share a prefix: their first layers, which run once for all items of
 * a batch. Then the models' suffixes, the rest of their layers, run one after the other, each for its own items:
 *
 *     | prefix, 8 items | A's suffix, 5 | B's, 2 | C's, 1 |        l = p(8) + s_A(5) + s_B(2) + s_C(1)
 *
 * (Nexus, SOSP 2019, section 6.3). When a batch is formed, its number of items is known before the models that they
 * belong to. So the table has, for each number of items, the latency of the slowest way to divide them. Pure. */
#pragma once

#include "core/data/profile.h"

#define SHARED_MODELS_MAX 1000

/* Models whose suffixes have the same latencies. */
struct shared_suffixes {
    const struct profile *profile; /* latencies of each of these suffixes */
    uint32_t models;               /* number of these models, 1 to SHARED_MODELS_MAX */
};

/* Fills the table of batches of models that share a prefix: the prefix's latency, and the most that suffixes of as many
 * items can take. The batch_max of every profile is at least `batch_max`. Takes batch_max^2 steps for every doubling of
 * the models: some 10 ms for 1000 models and batches of 1024. */
void shared_profile_set(struct profile *profile, uint32_t batch_max, const struct profile *prefix,
                        const struct shared_suffixes *suffixes, uint32_t count);
