/* yield.h - points at which long work may let other work go first. Work that takes longer than some 0.1 ms calls
 * yield_point() about every 0.1 ms. On a thread that works for many clients (front/bulk/bulk.c) the work of other
 * clients may run before yield_point() returns. On all other threads yield_point() does nothing. */
#pragma once

/* What yield_point() calls on this thread; NULL: nothing. */
extern _Thread_local void (*yield_here)(void);

static inline void yield_point(void) {
    if (yield_here)
        yield_here();
}
