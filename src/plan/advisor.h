/* advisor.h - keeps advice on how many accelerators there should be (autoscale.h), look by look, for a scheduler that
 * serves. Pure. */
#pragma once

#include <stdbool.h>

#include "base/time.h"
#include "plan/autoscale.h"

#define ADVISOR_NEEDED_LEAST 0.1      /* without any request: less is what is left of rates that decay */
#define ADVISOR_TICK_NS      NS_PER_S /* so often who owns it asks whether a look is due, roughly */

struct advisor {
    struct autoscale autoscale;
    int64_t looked_ns;
    bool advises; /* after the first look; then: */
    uint32_t wanted;
    double bad_rate; /* of the requests between the last two looks */
};

/* It knows nothing; the first look is due `every_ns` later. Again: it forgets everything. */
void advisor_init(struct advisor *advisor, const struct autoscale_config *config, int64_t now_ns);
/* Whether a look is due, within half a tick. */
bool advisor_due(const struct advisor *advisor, int64_t now_ns);
void advisor_look(struct advisor *advisor, int64_t now_ns, const struct autoscale_seen *load);

/* How much a counter has grown since `*before`, which becomes `now`. One that has shrunk began anew meanwhile. */
static inline uint64_t advisor_since(uint64_t *before, uint64_t now) {
    uint64_t grown = now < *before ? now : now - *before;
    *before = now;
    return grown;
}
