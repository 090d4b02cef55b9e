/* slices.h - a stress run cut into slices of time: how the requests that arrived in each ended, and which slices no
 * pause of a thread touched.
 *
 *     |<- catching up ->|<- catching up ->|<--- slice --->|<- its requests live ->|
 *
 * A slice is no shorter than the SLO. It is undisturbed if no thread paused in it, in the slice after it, in which
 * its requests may still wait, nor in the two before it, whose backlog it may have to work off.
 *
 * Times are nanoseconds since the run's epoch, as those of handles. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/time.h"

#define SLICE_NS_MIN  (10 * NS_PER_MS)
#define SLICES_MOST   16384 /* of a run: longer ones have longer slices */
#define SLICES_AFTER  1     /* slices after an undisturbed one that have no pause either */
#define SLICES_BEFORE 2     /* and before it */

/* The requests that arrived in it. Each world has counts of its own, owned by the thread that takes its turns. */
struct slice {
    uint32_t offered, bad;
};

struct slicing {
    int64_t slice_ns;
    uint32_t count;
};

/* The time in which a thread did not run. */
struct pause {
    int64_t from_ns, to_ns;
};

/* For a run of this length; requests that arrive later count with the last slice. */
struct slicing slicing_of(int64_t slo_ns, int64_t run_ns);

static inline uint32_t slice_at(const struct slicing *slicing, int64_t ns) {
    int64_t index = ns / slicing->slice_ns;
    return index < slicing->count ? (uint32_t)index : slicing->count - 1;
}

/* Marks the slices that a pause disturbs. */
void slices_disturb(const struct slicing *slicing, const struct pause *pause, bool *disturbed);
