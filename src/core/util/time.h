/* time.h - units of time. All times are int64 nanoseconds. The pure code is given times; only clock.h reads them. */
#pragma once

#include <stdint.h>

#define NS_PER_US  1000LL
#define NS_PER_MS  1000000LL
#define NS_PER_S   1000000000LL
#define TIME_NEVER INT64_MAX

static inline int64_t time_earlier(int64_t a_ns, int64_t b_ns) {
    return a_ns < b_ns ? a_ns : b_ns;
}
static inline int64_t time_later(int64_t a_ns, int64_t b_ns) {
    return a_ns > b_ns ? a_ns : b_ns;
}

/* A job that takes the longer the more models there are is done again only after a rest, so that it takes at most one
 * part in so many of the time. */
#define TIME_REST_PARTS 20

/* The end of the rest after such a job. */
static inline int64_t time_rested(int64_t began_ns, int64_t ended_ns) {
    return ended_ns + (TIME_REST_PARTS - 1) * (ended_ns - began_ns);
}

/* Whole microseconds from one time to another: 0 if `to` is earlier, at most UINT32_MAX, which is 71 minutes. */
static inline uint32_t time_us_between(int64_t from_ns, int64_t to_ns) {
    uint64_t us = to_ns > from_ns ? ((uint64_t)to_ns - (uint64_t)from_ns) / NS_PER_US : 0;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

/* The time at which a job that is done every `every_ns` is due again: the first after now_ns of the times due_ns,
 * due_ns + every_ns and so on. Times that were missed are left out. */
static inline int64_t time_due_again(int64_t due_ns, int64_t every_ns, int64_t now_ns) {
    return now_ns < due_ns ? due_ns : due_ns + ((now_ns - due_ns) / every_ns + 1) * every_ns;
}
