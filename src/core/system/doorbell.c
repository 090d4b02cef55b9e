/* doorbell.c - the sleeping side of a thread's message loop. */
#include "core/system/doorbell.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/util/time.h"

#define HELP_TURNS_MAX 8 /* turns that a helper takes; then the consumer goes on, on its own core */

int doorbell_init(struct doorbell *bell, bool event_fd, bool busy_poll) {
    memset(bell, 0, sizeof(*bell));
    bell->busy_poll = busy_poll;
    bell->event_fd = event_fd ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
    return event_fd && bell->event_fd < 0 ? -errno : 0;
}

void doorbell_destroy(struct doorbell *bell) {
    if (bell->event_fd >= 0)
        close(bell->event_fd);
    bell->event_fd = -1;
}

void doorbell_lend(struct doorbell *bell, doorbell_turn *turn, void *consumer) {
    bell->turn = turn;
    bell->consumer = consumer;
}

/* Sleeps on the futex until `until_ns`. FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time. False: the time has
 * come. */
static bool futex_wait(struct doorbell *bell, uint32_t state, int64_t until_ns) {
    struct timespec ts = clock_sleep_end(until_ns);
    return syscall(SYS_futex, &bell->sleeping, FUTEX_WAIT_BITSET_PRIVATE, state, until_ns == TIME_NEVER ? NULL : &ts,
                   NULL, FUTEX_BITSET_MATCH_ANY) == 0 ||
           errno == EAGAIN || errno == EINTR;
}

static bool state_change(struct doorbell *bell, uint32_t *from, uint32_t to) {
    /* release and acquire: the exchange hands over all that the consumer owns */
    return atomic_compare_exchange_strong_explicit(&bell->sleeping, from, to, memory_order_acq_rel,
                                                   memory_order_acquire);
}

void doorbell_lend_out(struct doorbell *bell, int64_t until_ns) {
    uint32_t state = atomic_load_explicit(&bell->sleeping, memory_order_relaxed); /* own word, or cleared: returns */
    if (state == DOORBELL_AWAKE)
        return;
    bell->lent_as = state == DOORBELL_NAPPING ? DOORBELL_LENT_NAPPING : DOORBELL_LENT;
    bell->until_ns = until_ns;
    state_change(bell, &state, bell->lent_as);
}

void doorbell_take_back(struct doorbell *bell) {
    for (;;) {
        uint32_t state = atomic_load_explicit(&bell->sleeping, memory_order_acquire); /* with doorbell_wake() */
        if (state == DOORBELL_AWAKE)
            return;
        if (state == DOORBELL_RECLAIMED) {
            futex_wait(bell, state, TIME_NEVER);
        } else if (state == DOORBELL_HELPED || state == DOORBELL_HELPED_AGAIN) {
            state_change(bell, &state, DOORBELL_RECLAIMED);
        } else if (state_change(bell, &state, DOORBELL_AWAKE)) {
            return;
        }
    }
}

void doorbell_sleep(struct doorbell *bell, int64_t until_ns) {
    uint32_t state;
    if (!bell->busy_poll && bell->turn) {
        doorbell_lend_out(bell, until_ns);
        do {
            state = atomic_load_explicit(&bell->sleeping, memory_order_acquire); /* with doorbell_wake() */
        } while (state != DOORBELL_AWAKE && futex_wait(bell, state, until_ns));
        doorbell_take_back(bell);
        return;
    }
    if (!bell->busy_poll) {
        state = atomic_load_explicit(&bell->sleeping, memory_order_relaxed); /* own word, or cleared: returns */
        if (state != DOORBELL_AWAKE)
            futex_wait(bell, state, until_ns); /* the caller's loop handles early and late returns */
    }
    doorbell_cancel(bell);
}

void doorbell_sleep_timed(struct doorbell *bell, int64_t until_ns, struct margin *late) {
    doorbell_sleep(bell, until_ns);
    if (bell->busy_poll || until_ns == TIME_NEVER)
        return;
    int64_t late_ns = clock_now_ns() - until_ns;
    if (late_ns >= 0)
        margin_add(late, late_ns);
}

static void futex_wake(struct doorbell *bell) {
    syscall(SYS_futex, &bell->sleeping, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wake_now(struct doorbell *bell) {
    if (bell->event_fd >= 0) {
        uint64_t one = 1;
        while (write(bell->event_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
        }
    } else {
        futex_wake(bell);
    }
}

/* Takes turns until there is nothing to do. Wakes the consumer after too many turns, when something is due before the
 * consumer would wake, or when the consumer has reclaimed its turns. */
static void take_turns(struct doorbell *bell) {
    for (int turns = 0; turns < HELP_TURNS_MAX; turns++) {
        uint32_t state = DOORBELL_HELPED_AGAIN;
        state_change(bell, &state, DOORBELL_HELPED);
        atomic_thread_fence(memory_order_seq_cst); /* with doorbell_ring_or_help(): before the rings are looked at */
        int64_t until_ns = bell->turn(bell->consumer);
        if (until_ns == 0)
            continue;
        if (until_ns < bell->until_ns)
            break;
        state = DOORBELL_HELPED;
        if (state_change(bell, &state, bell->lent_as))
            return;
        if (state == DOORBELL_RECLAIMED)
            break;
    }
    /* release, with doorbell_take_back() */
    if (atomic_exchange_explicit(&bell->sleeping, DOORBELL_AWAKE, memory_order_release) == DOORBELL_RECLAIMED)
        futex_wake(bell); /* the consumer waits on the futex in doorbell_take_back(), even if it slept in epoll */
    else
        wake_now(bell);
}

void doorbell_wake(struct doorbell *bell, bool help) {
    uint32_t state = atomic_load_explicit(&bell->sleeping, memory_order_relaxed);
    for (;;) {
        bool lent = state == DOORBELL_LENT || state == DOORBELL_LENT_NAPPING;
        if (state == DOORBELL_AWAKE || state == DOORBELL_HELPED_AGAIN || state == DOORBELL_RECLAIMED)
            return;
        if (state == DOORBELL_HELPED) {
            if (state_change(bell, &state, DOORBELL_HELPED_AGAIN))
                return;
        } else if (lent && help) {
            if (state_change(bell, &state, DOORBELL_HELPED)) {
                take_turns(bell);
                return;
            }
        } else if (state_change(bell, &state, DOORBELL_AWAKE)) { /* whoever clears `sleeping` makes the system call */
            wake_now(bell);
            return;
        }
    }
}
