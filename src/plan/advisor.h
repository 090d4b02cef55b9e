/* advisor.h - keeps advice on how many accelerators there should be (autoscale_parts.h), look by look, for a scheduler
 * that serves. Pure. */
#pragma once

#include <stdbool.h>

#include "base/time.h"
#include "plan/autoscale_parts.h"

#define ADVISOR_NEEDED_LEAST 0.1      /* without any request: less is what is left of rates that decay */
#define ADVISOR_TICK_NS      NS_PER_S /* so often who owns it asks whether a look is due, roughly */

/* What a look sees: the whole cluster, and its sub-clusters if there are several. */
struct advisor_load {
    struct autoscale_seen all;
    struct autoscale_seen parts[AUTOSCALE_PARTS_MAX];
};

struct advisor {
    struct autoscale_parts autoscale;
    struct autoscale parts[AUTOSCALE_PARTS_MAX];
    int64_t looked_ns;
    bool advises; /* after the first look; then: */
    uint32_t wanted;
    uint32_t wanted_of[AUTOSCALE_PARTS_MAX]; /* with several sub-clusters */
    double bad_rate;                         /* of the requests between the last two looks */
};

/* It knows nothing; the first look is due `every_ns` later. Again: it forgets everything. */
void advisor_init(struct advisor *advisor, const struct autoscale_config *config, uint32_t parts, int64_t now_ns);
/* Whether a look is due, within half a tick. */
bool advisor_due(const struct advisor *advisor, int64_t now_ns);
void advisor_look(struct advisor *advisor, int64_t now_ns, const struct advisor_load *load);
/* The mean number of accelerators that were needed, if the time that they were needed for grew by so much. */
static inline double advisor_needed(double grown_ns, int64_t passed_ns) {
    return passed_ns > 0 ? grown_ns / (double)passed_ns : 0;
}

/* How much a counter has grown since `*before`, which becomes `now`. One that has shrunk began anew meanwhile. */
static inline uint64_t advisor_since(uint64_t *before, uint64_t now) {
    uint64_t grown = now < *before ? now : now - *before;
    *before = now;
    return grown;
}
