/* slices.h - a stress run cut into slices of time: counts of the requests that arrived in each slice, and the slices
 * that no pause of a thread disturbed.
 *
 *     |<- catching up ->|<- catching up ->|<--- slice --->|<- its requests live ->|
 *
 * A slice is no shorter than the SLO. A slice is undisturbed if no thread paused in the slice, in the slice after it,
 * in which its requests may still wait, nor in the two slices before it, whose backlog may last into it.
 *
 * Times are nanoseconds since the run's epoch, as in handles. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/time.h"

#define SLICE_NS_MIN  (10 * NS_PER_MS)
#define SLICES_MOST   16384 /* slices of a run; longer runs have longer slices */
#define SLICES_AFTER  1     /* slices after an undisturbed one that have no pause either */
#define SLICES_BEFORE 2     /* slices before an undisturbed one that have no pause either */

/* The counts of requests that arrived in a slice. Each world has counts of its own, owned by the thread that takes its
 * turns. */
struct slice {
    uint32_t offered, bad;
};

struct slicing {
    int64_t slice_ns;
    uint32_t count;
};

/* A time in which a thread did not run. */
struct pause {
    int64_t from_ns, to_ns;
};

/* The slices for a run of length run_ns; requests that arrive later count with the last slice. */
struct slicing slicing_of(int64_t slo_ns, int64_t run_ns);

static inline uint32_t slice_at(const struct slicing *slicing, int64_t ns) {
    int64_t index = ns / slicing->slice_ns;
    return index < slicing->count ? (uint32_t)index : slicing->count - 1;
}

/* Marks the slices that a pause disturbs. */
void slices_disturb(const struct slicing *slicing, const struct pause *pause, bool *disturbed);
