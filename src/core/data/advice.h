/* advice.h - how many accelerators there should be, as the scheduler says (sched/plan/advisor.h). One thread writes,
 * any may read. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define ADVICE_NONE ((int64_t)-1) /* nobody has said anything yet */

/* All zeros: ADVICE_NONE. */
struct advice {
    _Atomic int64_t wanted_and_one; /* advised number of accelerators, plus 1; 0: no advice */
};

static inline void advice_set(struct advice *advice, int64_t wanted) {
    atomic_store_explicit(&advice->wanted_and_one, wanted + 1, memory_order_relaxed); /* a lone number */
}

/* The advised number of accelerators. ADVICE_NONE if there is none yet, or if `advice` is NULL (nobody gives
 * advice). */
static inline int64_t advice_get(const struct advice *advice) {
    return advice ? atomic_load_explicit(&advice->wanted_and_one, memory_order_relaxed) - 1 : ADVICE_NONE;
}
