/* doorbell.c - the sleeping side of a thread's message loop. */
#include "base/doorbell.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"

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

void doorbell_sleep(struct doorbell *bell, int64_t until_ns) {
    if (!bell->busy_poll) {
        struct timespec ts = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
        /* FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC time. Returning early or late is for the caller's loop.
         */
        uint32_t state =
            atomic_load_explicit(&bell->sleeping, memory_order_relaxed); /* own word, or cleared: returns */
        if (state != DOORBELL_AWAKE)
            syscall(SYS_futex, &bell->sleeping, FUTEX_WAIT_BITSET_PRIVATE, state, until_ns == TIME_NEVER ? NULL : &ts,
                    NULL, FUTEX_BITSET_MATCH_ANY);
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

void doorbell_drain(struct doorbell *bell) {
    uint64_t count;
    if (atomic_exchange_explicit(&bell->sleeping, 0, memory_order_acquire)) /* with doorbell_wake(): nobody rang */
        return;
    while (read(bell->event_fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}

void doorbell_wake(struct doorbell *bell) {
    /* Only the producer that clears the flag pays for the system call. */
    if (!atomic_exchange_explicit(&bell->sleeping, 0, memory_order_acq_rel))
        return;
    if (bell->event_fd >= 0) {
        uint64_t one = 1;
        while (write(bell->event_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
        }
    } else {
        syscall(SYS_futex, &bell->sleeping, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}
