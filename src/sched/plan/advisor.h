/* advisor.h - keeps the advice on how many accelerators there should be (autoscale_subclusters.h) up to date, look by
 * look, for a live scheduler. Pure. */
#pragma once

#include <stdbool.h>

#include "core/util/time.h"
#include "sched/plan/autoscale_subclusters.h"

#define ADVISOR_NEEDED_LEAST 0.1      /* accelerators; a smaller need without requests is a rest of decaying rates */
#define ADVISOR_TICK_NS      NS_PER_S /* time between calls of advisor_due(), about */

/* What a look sees: the whole cluster, and its sub-clusters if there are several. */
struct advisor_load {
    struct autoscale_seen all;
    struct autoscale_seen subclusters[AUTOSCALE_SUBCLUSTERS_MAX];
};

struct advisor {
    struct autoscale_subclusters autoscale;
    struct autoscale subclusters[AUTOSCALE_SUBCLUSTERS_MAX];
    int64_t looked_ns; /* time of the last look */
    bool advises;      /* a look has been made: the fields below are set */
    uint32_t wanted;   /* accelerators that there should be */
    uint32_t
        wanted_of[AUTOSCALE_SUBCLUSTERS_MAX]; /* accelerators that each sub-cluster should have, if there are several */
    double bad_rate;                          /* share of bad requests between the last two looks */
};

/* Sets up an advisor that knows nothing; may be called again. The first look is due config->every_ns later. */
void advisor_init(struct advisor *advisor, const struct autoscale_config *config, uint32_t subclusters, int64_t now_ns);
/* Whether a look is due, within half a tick. */
bool advisor_due(const struct advisor *advisor, int64_t now_ns);
/* Makes a look: sets wanted, wanted_of and bad_rate. */
void advisor_look(struct advisor *advisor, int64_t now_ns, const struct advisor_load *load);
/* The mean number of accelerators that were needed in passed_ns, in which the accelerator time needed grew by
 * grown_ns. */
static inline double advisor_needed(double grown_ns, int64_t passed_ns) {
    return passed_ns > 0 ? grown_ns / (double)passed_ns : 0;
}

/* How much a counter has grown since it was `*before`; sets `*before` to `now`. A counter that has shrunk was reset. */
static inline uint64_t advisor_since(uint64_t *before, uint64_t now) {
    uint64_t grown = now < *before ? now : now - *before;
    *before = now;
    return grown;
}
