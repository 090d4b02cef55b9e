/* yield.h - points at which long work may let other work go first. Work that takes longer than some 0.1 ms calls
 * yield_point() about as often. On a thread that works for many clients (front/bulk/bulk.c) others may have their turn
 * before it returns; on all others it does nothing. */
#pragma once

/* What happens there on this thread; NULL: nothing. */
extern _Thread_local void (*yield_here)(void);

static inline void yield_point(void) {
    if (yield_here)
        yield_here();
}
