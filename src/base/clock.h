/* clock.h - time for the live shells: int64 nanoseconds of CLOCK_MONOTONIC. The pure folders may not include it. */
#pragma once

#include <stdint.h>
#include <time.h>

#include "base/time.h"

static inline int64_t clock_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}
