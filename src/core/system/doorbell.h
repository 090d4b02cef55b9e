/* doorbell.h - wakes a thread that sleeps until a message or a time comes.
 *
 * The consumer announces that it will sleep, looks at its rings once more, and sleeps. A producer publishes first and
 * then looks whether the consumer sleeps. Both orders are sequentially consistent, so one of the two sees the other,
 * and a producer whose consumer is awake makes no system call. A thread that waits in epoll uses an eventfd, the others
 * a futex (no descriptor, an absolute deadline). The eventfd is watched edge-triggered and never read. The reason: a
 * producer may be delayed between clearing the word and writing, and then write when the consumer has long been awake.
 * Edge-triggered, that costs one needless wake-up. Level-triggered, a consumer that reads the eventfd only when the
 * word was cleared would find it readable for ever.
 *
 * Waking a thread takes 5 to 50 us, a turn of a scheduling thread about one. So a consumer may lend its turns: while it
 * sleeps, a producer that would wake it takes turns instead, until there is nothing to do, and lets it sleep on.
 * Whoever has the turns owns all that the consumer owns; the bell's word hands it over:
 *
 *     AWAKE --consumer sleeps--> LENT --producer helps--> HELPED --nothing left to do--> LENT
 *       ^--------- wakes it ------'                         | another producer rings: HELPED_AGAIN, one turn more
 *       '----- helper wakes it: too much to do, or due earlier than it would wake; or RECLAIMED: its time has come */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/container.h"
#include "core/util/margin.h"

enum doorbell_state {
    DOORBELL_AWAKE,
    DOORBELL_ASLEEP,  /* or about to be */
    DOORBELL_NAPPING, /* the same, but it will look by itself soon: news that can wait need not wake it */
    DOORBELL_LENT,    /* asleep, and a producer may take its turns */
    DOORBELL_LENT_NAPPING,
    DOORBELL_HELPED,       /* a producer takes the turns */
    DOORBELL_HELPED_AGAIN, /* the same, and something has come since its turn began */
    DOORBELL_RECLAIMED,    /* the same, and the producer is to wake the consumer after its turn */
};

/* One turn of a consumer. 0 if there was something to do, else until when it may sleep. */
typedef int64_t doorbell_turn(void *consumer);

struct doorbell {
    _Alignas(CACHE_LINE) _Atomic uint32_t sleeping; /* enum doorbell_state; producers that wake the consumer clear it */
    int event_fd;                                   /* to be watched with EPOLLIN | EPOLLET; -1: futex */
    bool busy_poll;                                 /* never sleeps: doorbell_sleep() returns at once */
    doorbell_turn *turn;                            /* NULL: its turns are not lent */
    void *consumer;
    /* owned by whoever has the turns */
    uint32_t lent_as;
    int64_t until_ns; /* when the consumer wakes by itself */
};

/* A futex doorbell, or with `event_fd` one that writes to its eventfd. 0 or -errno. */
int doorbell_init(struct doorbell *bell, bool event_fd, bool busy_poll);
void doorbell_destroy(struct doorbell *bell);
/* Lets others take the consumer's turns while it sleeps. Call it before the consumer's thread starts. */
void doorbell_lend(struct doorbell *bell, doorbell_turn *turn, void *consumer);

/* Consumer: whether it never sleeps; then this pauses the core for a moment, and replaces arming, sleeping and
 * cancelling. */
static inline bool doorbell_keeps_awake(const struct doorbell *bell) {
#ifdef __x86_64__
    if (bell->busy_poll)
        __builtin_ia32_pause();
#endif
    return bell->busy_poll;
}

/* Consumer: announces sleep. Look at every source once more before doorbell_sleep() or epoll_wait(); if one has
 * something, call doorbell_cancel() instead. */
static inline void doorbell_arm_as(struct doorbell *bell, enum doorbell_state state) {
    /* seq_cst, with the fence in doorbell_ring() */
    atomic_store_explicit(&bell->sleeping, state, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
}

static inline void doorbell_arm(struct doorbell *bell) {
    doorbell_arm_as(bell, DOORBELL_ASLEEP);
}

/* Consumer: says that it is awake. Call it also after epoll_wait(), whatever that returned. */
static inline void doorbell_cancel(struct doorbell *bell) {
    atomic_store_explicit(&bell->sleeping, 0, memory_order_relaxed);
}

/* Consumer, futex doorbells: sleeps until rung or until `until_ns` of clock_now_ns() (INT64_MAX: for ever). */
void doorbell_sleep(struct doorbell *bell, int64_t until_ns);
/* The same; if it wakes after `until_ns`, adds the delay to `late`. */
void doorbell_sleep_timed(struct doorbell *bell, int64_t until_ns, struct margin *late);

/* Consumer that waits in epoll and lends its turns, between doorbell_arm() and epoll_wait(): lends them, and will wake
 * at `until_ns` by itself. */
void doorbell_lend_out(struct doorbell *bell, int64_t until_ns);
/* After epoll_wait(), instead of doorbell_cancel(): the consumer has the turns again when this returns. */
void doorbell_take_back(struct doorbell *bell);

/* The slow path of ringing: wakes the consumer, or with `help` takes its turns if they are lent. */
void doorbell_wake(struct doorbell *bell, bool help);

/* Producer, after ring_publish(). */
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

/* The same for news that can wait: does not wake a napping consumer. */
static inline void doorbell_ring_sleeper(struct doorbell *bell, bool help) {
    if (bell->busy_poll)
        return;
    atomic_thread_fence(memory_order_seq_cst); /* as above */
    uint32_t state = atomic_load_explicit(&bell->sleeping, memory_order_relaxed);
    if (state != DOORBELL_AWAKE && state != DOORBELL_NAPPING && state != DOORBELL_LENT_NAPPING)
        doorbell_wake(bell, help);
}
