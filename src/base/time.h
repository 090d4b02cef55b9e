/* time.h - units of time. All times are int64 nanoseconds. The pure code is given times; only clock.h reads them. */
#pragma once

#include <stdint.h>

#define NS_PER_US  1000LL
#define NS_PER_MS  1000000LL
#define NS_PER_S   1000000000LL
#define TIME_NEVER INT64_MAX
