/* slices.c - finds the slices that a pause disturbs. */
#include "lab/stress/slices.h"

struct slicing slicing_of(int64_t slo_ns, int64_t run_ns) {
    struct slicing s = {.slice_ns = slo_ns > SLICE_NS_MIN ? slo_ns : SLICE_NS_MIN};

    if (s.slice_ns < run_ns / SLICES_MOST + 1)
        s.slice_ns = run_ns / SLICES_MOST + 1;
    s.count = (uint32_t)(run_ns / s.slice_ns) + 1;
    return s;
}

void slices_disturb(const struct slicing *slicing, const struct pause *pause, bool *disturbed) {
    uint32_t first = slice_at(slicing, pause->from_ns), last = slice_at(slicing, pause->to_ns);

    first = first > SLICES_AFTER ? first - SLICES_AFTER : 0;
    for (uint32_t i = first; i <= last + SLICES_BEFORE && i < slicing->count; i++)
        disturbed[i] = true;
}
