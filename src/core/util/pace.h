/* pace.h - how long a piece of work takes: the running mean and the mean deviation from it, with the weights of RFC
 * 6298 (2.3). Pure; threads that share one lock it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/time.h"

struct pace {
    double mean_ns, deviation_ns; /* running mean, which may start as a guess; mean deviation from it */
    double least_ns;              /* shortest measured time; 0: nothing was measured */
    int64_t known_ns;             /* time of the last measurement, or of the last correction by pace_doubt() */
    bool measured;                /* whether a time was measured with the full share of 1 */
};

#define PACE_MEAN_WEIGHT      (1.0 / 8)
#define PACE_DEVIATION_WEIGHT (1.0 / 4)
#define PACE_DEVIATIONS       2 /* mean deviations by which a promise exceeds the mean */
#define PACE_DOUBT_NS         (100 * NS_PER_MS)

/* Adds a measured time. `share`, up to 1, is the weight of this time: the time of a small piece of work says little. */
static inline void pace_add(struct pace *pace, double ns, double share, int64_t now_ns) {
    if (!pace->measured && share >= 1)
        *pace = (struct pace){.mean_ns = ns, .deviation_ns = ns / 2, .least_ns = ns, .measured = true};
    double off_ns = ns - pace->mean_ns;
    pace->deviation_ns += ((off_ns < 0 ? -off_ns : off_ns) - pace->deviation_ns) * share * PACE_DEVIATION_WEIGHT;
    pace->mean_ns += off_ns * share * PACE_MEAN_WEIGHT;
    pace->least_ns = pace->least_ns > 0 && pace->least_ns < ns ? pace->least_ns : ns;
    pace->known_ns = now_ns;
}

/* The time to promise for the work: somewhat longer than the mean, so that most promises are kept. */
static inline double pace_promise_ns(const struct pace *pace) {
    return pace->mean_ns + PACE_DEVIATIONS * pace->deviation_ns;
}

/* Notes that work was given up after `after_ns` (0: before it began), since nobody waits for it any more. If a promise
 * is too long, all work may be given up early, and then no measurement ever corrects the promise. So a pace that was
 * not measured for PACE_DOUBT_NS is halved, but not below the shortest measured time, and only once in
 * PACE_DOUBT_NS. */
static inline void pace_doubt(struct pace *pace, double after_ns, int64_t now_ns) {
    if (after_ns > pace_promise_ns(pace)) {
        pace->mean_ns = after_ns; /* the work takes longer than after_ns */
    } else if (now_ns - pace->known_ns > PACE_DOUBT_NS) {
        pace->mean_ns = pace->mean_ns / 2 > pace->least_ns ? pace->mean_ns / 2 : pace->least_ns;
        pace->deviation_ns /= 2;
    } else {
        return;
    }
    pace->known_ns = now_ns;
}
