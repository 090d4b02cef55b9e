/* calibrate.h - initial values of the timing margins, measured before the server serves. */
#pragma once

#include <stdint.h>

struct calibration {
    int64_t wake_ns;         /* 95th percentile of how late a sleeping thread wakes */
    int64_t dispatch_ns;     /* 95th percentile of a hand-over to a sleeping thread */
    double copy_ns_per_byte; /* time to copy a byte of inputs of some 256 KiB that are not in the cache */
    int64_t reply_ns;        /* 95th percentile of handing a reply to the kernel, by a thread that was asleep */
};

/* Measures for about a tenth of a second. */
void calibrate(struct calibration *result);
