/* pace.h - how long a piece of work takes: the running mean and the mean deviation from it, with the weights of RFC
 * 6298 (2.3). Pure; threads that share one lock it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/time.h"

struct pace {
    double mean_ns, deviation_ns; /* mean_ns may be set to a guess */
    double least_ns;              /* the least that was measured; 0: nothing was */
    int64_t known_ns;             /* when it was last measured, or last corrected by pace_doubt() */
    bool measured;
};

#define PACE_MEAN_WEIGHT      (1.0 / 8)
#define PACE_DEVIATION_WEIGHT (1.0 / 4)
#define PACE_DEVIATIONS       2
#define PACE_DOUBT_NS         (100 * NS_PER_MS)

/* Adds a measured time. `share`, up to 1, is how much it counts: the time of a small piece of work says little. */
static inline void pace_add(struct pace *pace, double ns, double share, int64_t now_ns) {
    if (!pace->measured && share >= 1)
        *pace = (struct pace){.mean_ns = ns, .deviation_ns = ns / 2, .least_ns = ns, .measured = true};
    double off_ns = ns - pace->mean_ns;
    pace->deviation_ns += ((off_ns < 0 ? -off_ns : off_ns) - pace->deviation_ns) * share * PACE_DEVIATION_WEIGHT;
    pace->mean_ns += off_ns * share * PACE_MEAN_WEIGHT;
    pace->least_ns = pace->least_ns > 0 && pace->least_ns < ns ? pace->least_ns : ns;
    pace->known_ns = now_ns;
}

/* What to promise: somewhat longer than the mean, so that it is mostly kept. */
static inline double pace_promise_ns(const struct pace *pace) {
    return pace->mean_ns + PACE_DEVIATIONS * pace->deviation_ns;
}

/* Work was given up after `after_ns` (0: before it began), since nobody waits for it any more. If a promise is too
 * long, all work may be given up early, and nothing is ever measured that would correct it. So a pace that was not
 * measured for PACE_DOUBT_NS is halved, once in that time, down to the least that was measured. */
static inline void pace_doubt(struct pace *pace, double after_ns, int64_t now_ns) {
    if (after_ns > pace_promise_ns(pace)) {
        pace->mean_ns = after_ns; /* it takes longer than that */
    } else if (now_ns - pace->known_ns > PACE_DOUBT_NS) {
        pace->mean_ns = pace->mean_ns / 2 > pace->least_ns ? pace->mean_ns / 2 : pace->least_ns;
        pace->deviation_ns /= 2;
    } else {
        return;
    }
    pace->known_ns = now_ns;
}
