/* balance.c - moves a model from the fullest sub-cluster to the emptiest. */
#include "control/balance.h"

#include "sched/wiring.h"

#define WORTH_FULL 0.05 /* a move must lower the load of the fuller of the two by this part of its accelerators */

bool balance_choose(const struct balance *b, uint32_t *model, uint32_t *part) {
    double load[RANK_THREADS_MAX] = {0};
    uint32_t fullest = 0, emptiest = 0;

    for (uint32_t m = 0; m < b->models; m++)
        load[b->part[m]] += b->load[m];
    for (uint32_t k = 0; k < b->parts; k++) {
        if (load[k] * b->capacity[fullest] > load[fullest] * b->capacity[k])
            fullest = k;
        if (load[k] * b->capacity[emptiest] < load[emptiest] * b->capacity[k])
            emptiest = k;
    }
    double least = load[fullest] / b->capacity[fullest] - WORTH_FULL;
    bool any = false;
    for (uint32_t m = 0; m < b->models; m++) {
        if (b->part[m] != fullest)
            continue;
        double from = (load[fullest] - b->load[m]) / b->capacity[fullest];
        double to = (load[emptiest] + b->load[m]) / b->capacity[emptiest];
        double fuller = from > to ? from : to;
        if (fuller < least) {
            least = fuller;
            *model = m;
            *part = emptiest;
            any = true;
        }
    }
    return any;
}
