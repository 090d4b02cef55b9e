/* assert_near.h - compares real numbers. */
#pragma once

#include "unit/cmocka_all.h"

/* That x differs from y by less than `within`. */
#define assert_near(x, y, within)                                                                                      \
    do {                                                                                                               \
        double x_ = (x), y_ = (y);                                                                                     \
        if (!(x_ > y_ - (within) && x_ < y_ + (within)))                                                               \
            fail_msg("%s is %.9g, not %.9g", #x, x_, y_);                                                              \
    } while (0)
