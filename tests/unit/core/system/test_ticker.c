/* test_ticker.c - ticks come again and again, and a last one when the ticker is stopped. */
/* Starts threads. */
#include "unit/test.h"

#include <poll.h>
#include <stdatomic.h>

#include "core/system/clock.h"
#include "core/system/ticker.h"
#include "core/util/time.h"

struct counts {
    _Atomic int ticks, last;
};

static void count(void *context, bool last) {
    struct counts *counts = context;
    assert_int_equal(atomic_load(&counts->last), 0);
    atomic_fetch_add(last ? &counts->last : &counts->ticks, 1);
}

TEST(it_ticks_until_it_is_stopped) {
    struct ticker ticker;
    struct counts counts = {0};
    struct sy_error err;
    int64_t began_ns = clock_now_ns();
    assert_int_equal(ticker_start(&ticker, "ticker", NS_PER_MS, count, &counts, &err), 0);
    while (atomic_load(&counts.ticks) < 20)
        poll(NULL, 0, 1);
    assert_true(clock_now_ns() - began_ns >= 20 * NS_PER_MS);
    ticker_stop(&ticker);
    assert_int_equal(atomic_load(&counts.last), 1);
}

TEST(a_stop_does_not_wait_for_the_next_tick) {
    struct ticker ticker;
    struct counts counts = {0};
    struct sy_error err;
    assert_int_equal(ticker_start(&ticker, "ticker", 100000 * NS_PER_S, count, &counts, &err), 0);
    ticker_stop(&ticker);
    assert_int_equal(atomic_load(&counts.ticks), 0);
    assert_int_equal(atomic_load(&counts.last), 1);
}
