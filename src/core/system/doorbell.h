/* doorbell.h - wakes a thread that sleeps until a message or a time comes.
 *
 * The consumer announces that it will sleep, looks at its rings once more, and sleeps. A producer publishes first and
 * then looks whether the consumer sleeps. Both orders are sequentially consistent, so one of the two sees the other,
 * and a producer whose consumer is awake makes no system call. A thread that waits in epoll uses an eventfd, the others
 * a futex (no descriptor, an absolute deadline). The eventfd is watched edge-triggered and never read. The reason: a
 * producer may be delayed between clearing `sleeping` and writing to the eventfd, and write when the consumer has long
 * been awake. Edge-triggered, such a write costs one needless wake-up. Level-triggered, a consumer that reads the
 * eventfd only when `sleeping` was cleared would find the eventfd readable for ever.
 *
 * Waking a thread takes 5 to 50 us, a turn of a scheduling thread about one. So a consumer may lend its turns: while it
 * sleeps, a producer that would wake it takes turns in its place, until there is nothing to do, and lets it sleep on.
 * Whoever has the turns owns all that the consumer owns. `sleeping` hands the turns over:
 *
 *     AWAKE --consumer sleeps--> LENT --producer helps--> HELPED --nothing left to do--> LENT
 *       ^--------- wakes it ------'                         | another producer rings: HELPED_AGAIN, one turn more
 *       '----- helper wakes the consumer: there is too much to do, or something is due before the consumer would
 *              wake, or the consumer's time has come and it wants its turns back (RECLAIMED) */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/container.h"
#include "core/util/margin.h"

enum doorbell_state {
    DOORBELL_AWAKE,
    DOORBELL_ASLEEP,       /* the consumer sleeps, or is about to */
    DOORBELL_NAPPING,      /* asleep, but the consumer looks at its rings soon: news that can wait need not wake it */
    DOORBELL_LENT,         /* asleep, and a producer may take the consumer's turns */
    DOORBELL_LENT_NAPPING, /* napping, and a producer may take the consumer's turns */
    DOORBELL_HELPED,       /* asleep, and a producer takes the consumer's turns */
    DOORBELL_HELPED_AGAIN, /* as HELPED, and another producer has rung since the turn began */
    DOORBELL_RECLAIMED,    /* as HELPED, and the producer must wake the consumer after the turn */
};

/* Takes one turn of a consumer. Returns 0 if there was something to do, else the time until which the consumer may
 * sleep. */
typedef int64_t doorbell_turn(void *consumer);

struct doorbell {
    _Alignas(CACHE_LINE) _Atomic uint32_t sleeping; /* enum doorbell_state; cleared by who wakes the consumer */
    int event_fd;                                   /* eventfd, to be watched with EPOLLIN | EPOLLET; -1: futex */
    bool busy_poll;      /* whether the consumer never sleeps: doorbell_sleep() returns at once */
    doorbell_turn *turn; /* turn of the consumer; NULL: its turns are not lent */
    void *consumer;      /* argument of turn() */
    /* owned by whoever has the turns */
    uint32_t lent_as; /* state while the turns are lent: LENT or LENT_NAPPING */
    int64_t until_ns; /* time at which the consumer wakes by itself */
};

/* Makes a futex doorbell or, with `event_fd`, a doorbell that writes to its eventfd. 0 or -errno. */
int doorbell_init(struct doorbell *bell, bool event_fd, bool busy_poll);
void doorbell_destroy(struct doorbell *bell);
/* Lets producers take the consumer's turns while it sleeps. Call it before the consumer's thread starts. */
void doorbell_lend(struct doorbell *bell, doorbell_turn *turn, void *consumer);

/* Consumer: whether the consumer never sleeps. If so, pauses the core for a moment; the consumer then does not arm,
 * sleep or cancel. */
static inline bool doorbell_keeps_awake(const struct doorbell *bell) {
#ifdef __x86_64__
    if (bell->busy_poll)
        __builtin_ia32_pause();
#endif
    return bell->busy_poll;
}

/* Consumer: announces sleep. Look at every source once more before doorbell_sleep() or epoll_wait(); if a source has
 * something, call doorbell_cancel() and do not sleep. */
static inline void doorbell_arm_as(struct doorbell *bell, enum doorbell_state state) {
    /* seq_cst, with the fence in doorbell_ring() */
    atomic_store_explicit(&bell->sleeping, state, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
}

static inline void doorbell_arm(struct doorbell *bell) {
    doorbell_arm_as(bell, DOORBELL_ASLEEP);
}

/* Consumer: announces that it is awake. Call it also after epoll_wait(), whatever epoll_wait() returned. */
static inline void doorbell_cancel(struct doorbell *bell) {
    atomic_store_explicit(&bell->sleeping, 0, memory_order_relaxed);
}

/* Consumer, futex doorbells: sleeps until rung or until `until_ns` of clock_now_ns() (INT64_MAX: for ever). */
void doorbell_sleep(struct doorbell *bell, int64_t until_ns);
/* As doorbell_sleep(); if the consumer wakes after `until_ns`, adds the delay to `late`. */
void doorbell_sleep_timed(struct doorbell *bell, int64_t until_ns, struct margin *late);

/* For a consumer that waits in epoll and lends its turns; call it between doorbell_arm() and epoll_wait(). Lends the
 * turns. The consumer will wake at `until_ns` by itself. */
void doorbell_lend_out(struct doorbell *bell, int64_t until_ns);
/* For a consumer that waits in epoll and lends its turns; call it after epoll_wait(), in place of doorbell_cancel().
 * When the call returns, the consumer has its turns again. */
void doorbell_take_back(struct doorbell *bell);

/* The slow path of ringing: wakes the consumer or, with `help`, takes the consumer's turns if they are lent. */
void doorbell_wake(struct doorbell *bell, bool help);

/* Producer: rings the bell; call it after ring_publish(). With `help`, the producer takes the consumer's turns where
 * they are lent. */
static inline void doorbell_ring_or_help(struct doorbell *bell, bool help) {
    if (bell->busy_poll)
        return;
    atomic_thread_fence(memory_order_seq_cst); /* with doorbell_arm_as(), and with the helper's turn */
    if (atomic_load_explicit(&bell->sleeping, memory_order_relaxed) != DOORBELL_AWAKE)
        doorbell_wake(bell, help);
}

static inline void doorbell_ring(struct doorbell *bell) {
    doorbell_ring_or_help(bell, false);
}

/* As doorbell_ring_or_help(), for news that can wait: does not wake a napping consumer. */
static inline void doorbell_ring_sleeper(struct doorbell *bell, bool help) {
    if (bell->busy_poll)
        return;
    atomic_thread_fence(memory_order_seq_cst); /* with doorbell_arm_as(), and with the helper's turn */
    uint32_t state = atomic_load_explicit(&bell->sleeping, memory_order_relaxed);
    if (state != DOORBELL_AWAKE && state != DOORBELL_NAPPING && state != DOORBELL_LENT_NAPPING)
        doorbell_wake(bell, help);
}
