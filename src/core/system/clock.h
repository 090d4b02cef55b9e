/* clock.h - time for the live shells: int64 nanoseconds of CLOCK_MONOTONIC. The pure folders may not include this file.
 *
 * Nothing else in a server reads that clock, and code that sleeps until a time converts the time to the kernel's with
 * clock_sleep_end(). So a test can skew the clock of a process as a whole, and imitate hosts whose clocks differ on one
 * machine with one clock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/util/time.h"

/* The difference between the process's time and the kernel's. Written once, before there are threads. */
struct clock_skew {
    bool set;
    int64_t start_ns, offset_ns; /* kernel's time when the skew was set; lead of the process's time then */
    double rate;                 /* nanoseconds that the process's time gains in one of the kernel's */
};

extern struct clock_skew clock_skew;

/* For tests: from now on clock_now_ns() is ahead of the kernel's time by `offset_ns`, and gains `ppm` nanoseconds in
 * each millisecond. Call it once, before any thread starts. 0, or -EINVAL: more than 30 years, more than 100000 ppm, or
 * time would be negative. */
int clock_skew_set(int64_t offset_ns, double ppm);
/* The process's time when the kernel's is `kernel_ns`. */
int64_t clock_skewed_ns(int64_t kernel_ns);
/* The kernel's time from which on the process's is `time_ns` or later. */
int64_t clock_kernel_ns(int64_t time_ns);

static inline int64_t clock_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    int64_t kernel_ns = ts.tv_sec * NS_PER_S + ts.tv_nsec;
    return __builtin_expect(clock_skew.set, 0) ? clock_skewed_ns(kernel_ns) : kernel_ns;
}

/* Sleeps for `ns`, or less if a signal comes. */
void clock_sleep(int64_t ns);

/* Converts a time of clock_now_ns() for system calls that sleep until a time of CLOCK_MONOTONIC. */
static inline struct timespec clock_sleep_end(int64_t time_ns) {
    int64_t kernel_ns = __builtin_expect(clock_skew.set, 0) ? clock_kernel_ns(time_ns) : time_ns;
    return (struct timespec){.tv_sec = kernel_ns / NS_PER_S, .tv_nsec = kernel_ns % NS_PER_S};
}
