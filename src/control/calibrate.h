/* calibrate.h - first values of the timing margins, measured before the server serves. */
#pragma once

#include <stdint.h>

struct calibration {
    int64_t wake_ns;     /* 95th percentile of how late a sleeping thread wakes */
    int64_t dispatch_ns; /* 95th percentile of a hand-over to a sleeping thread */
    int64_t gather_ns;   /* copying the given bytes */
    int64_t reply_ns;    /* 95th percentile of handing a reply to the kernel after such a hand-over */
};

/* Measures for about a tenth of a second; `item_bytes` is what an item's inputs weigh. */
void calibrate(struct calibration *result, int64_t item_bytes);
