/* balance.h - decides which model moves to which sub-cluster, so that none is much fuller than the others. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct balance {
    const double *load;       /* [models] accelerators that the model keeps busy */
    const uint32_t *part;     /* [models] where it is */
    const uint32_t *capacity; /* [parts] accelerators, each at least 1 */
    uint32_t models, parts;
};

/* Chooses the model whose move from the fullest sub-cluster (by load divided by accelerators) to the emptiest leaves
 * the fuller of the two least full. False if no move is worth it: a move costs the model a moment without a candidate.
 */
bool balance_choose(const struct balance *balance, uint32_t *model, uint32_t *part);
