/* advisor.h - keeps advice on how many accelerators there should be (autoscale_parts.h), look by look, for a scheduler
 * that serves. Pure. */
#pragma once

#include <stdbool.h>

#include "core/util/time.h"
#include "sched/plan/autoscale_parts.h"

#define ADVISOR_NEEDED_LEAST 0.1 /* accelerators: without requests, less is only what is left of rates that decay */
#define ADVISOR_TICK_NS      NS_PER_S /* about how often its owner asks whether a look is due */

/* What a look sees: the whole cluster, and its sub-clusters if there are several. */
struct advisor_load {
    struct autoscale_seen all;
    struct autoscale_seen parts[AUTOSCALE_PARTS_MAX];
};

struct advisor {
    struct autoscale_parts autoscale;
    struct autoscale parts[AUTOSCALE_PARTS_MAX];
    int64_t looked_ns;
    bool advises; /* there was a look, and the following is set */
    uint32_t wanted;
    uint32_t wanted_of[AUTOSCALE_PARTS_MAX]; /* with several sub-clusters */
    double bad_rate;                         /* of the requests between the last two looks */
};

/* Begins, or begins anew, with an advisor that knows nothing. The first look is due config->every_ns later. */
void advisor_init(struct advisor *advisor, const struct autoscale_config *config, uint32_t parts, int64_t now_ns);
/* Whether a look is due, within half a tick. */
bool advisor_due(const struct advisor *advisor, int64_t now_ns);
/* Makes a look: sets wanted, wanted_of and bad_rate. */
void advisor_look(struct advisor *advisor, int64_t now_ns, const struct advisor_load *load);
/* The mean number of accelerators that were needed in passed_ns, in which the accelerator time needed grew by
 * grown_ns. */
static inline double advisor_needed(double grown_ns, int64_t passed_ns) {
    return passed_ns > 0 ? grown_ns / (double)passed_ns : 0;
}

/* How much a counter has grown since `*before`, which becomes `now`. A counter that has shrunk began anew meanwhile. */
static inline uint64_t advisor_since(uint64_t *before, uint64_t now) {
    uint64_t grown = now < *before ? now : now - *before;
    *before = now;
    return grown;
}
