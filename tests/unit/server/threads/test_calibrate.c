/* test_calibrate.c - the margins measured at start-up are there and plausible. */
/* Starts threads. */
#include "core/util/time.h"
#include "server/threads/calibrate.h"
#include "unit/test.h"

TEST(test_measures_something) {
    struct calibration c;
    calibrate(&c);
    assert_in_range(c.wake_ns, 1, 5 * NS_PER_S);
    assert_in_range(c.dispatch_ns, 1, 5 * NS_PER_S);
    assert_true(c.copy_ns_per_byte > 0.001 && c.copy_ns_per_byte < 1000); /* a terabyte and a megabyte a second */
    assert_true(c.reply_ns >= c.dispatch_ns / 2);                         /* a reply comes after a hand-over */
}
