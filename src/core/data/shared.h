/* shared.h - what batches of models take that share a prefix: their first layers, which run once for all items of a
 * batch. Then each model's suffix, the rest of it, runs for its own items, one after the other:
 *
 *     | prefix, 8 items | A's suffix, 5 | B's, 2 | C's, 1 |        l = p(8) + s_A(5) + s_B(2) + s_C(1)
 *
 * (Nexus, SOSP 2019, section 6.3). When a batch is formed its number of items is known before whose they are, so the
 * table in force has, for each number of items, the slowest way to divide them. Pure. */
#pragma once

#include "core/data/profile.h"

#define SHARED_MODELS_MAX 1000

/* Models whose suffixes take the same. */
struct shared_suffixes {
    const struct profile *profile;
    uint32_t models; /* 1 to SHARED_MODELS_MAX */
};

/* Fills the table of their batches up to `batch_max`, which no profile's batch_max may be under: the prefix's latency,
 * and the most that the suffixes of so many items can take. batch_max^2 steps for every doubling of the models: some
 * 10 ms for 1000 models and batches of 1024. */
void shared_profile_set(struct profile *profile, uint32_t batch_max, const struct profile *prefix,
                        const struct shared_suffixes *suffixes, uint32_t count);
