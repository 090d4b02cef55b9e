/* balance.h - which model should move to which sub-cluster, so that none is much fuller than the others. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct balance {
    const double *load;       /* [models] accelerators that each keeps busy */
    const uint32_t *part;     /* [models] where it is */
    const uint32_t *capacity; /* [parts] accelerators, each at least 1 */
    uint32_t models, parts;
};

/* The move from the fullest sub-cluster (by load over accelerators) to the emptiest that makes the fuller of the two
 * the least full. False if none is worth it: moving a model costs it a moment without a candidate. */
bool balance_choose(const struct balance *balance, uint32_t *model, uint32_t *part);
