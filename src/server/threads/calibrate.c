/* calibrate.c - measures wake-ups, hand-overs between threads, copies and replies at start-up. */
#include "server/threads/calibrate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/system/doorbell.h"
#include "core/system/thread.h"
#include "core/util/margin.h"

#define ROUNDS          200
#define SLEEP_NS        (200 * NS_PER_US)
#define REPLY_BYTES     512
#define COPY_BYTES      (256 << 10)
#define COPY_AREA_BYTES (16 << 20)

struct echo {
    struct doorbell there, back;
    _Atomic int64_t sent_ns; /* time at which the value was handed over; 0: no value; -1: order to stop */
    _Atomic int64_t got_ns;
};

static void *echo_main(void *argument) {
    struct echo *echo = argument;

    thread_begin("calibrate", 0, THREAD_PROMPT);
    for (;;) {
        doorbell_arm(&echo->there);
        int64_t sent = atomic_exchange_explicit(&echo->sent_ns, 0, memory_order_acq_rel); /* with hand_over() */
        if (sent == 0) {
            doorbell_sleep(&echo->there, TIME_NEVER);
            continue;
        }
        doorbell_cancel(&echo->there);
        if (sent < 0)
            return NULL;
        atomic_store_explicit(&echo->got_ns, clock_now_ns(), memory_order_release); /* with hand_over() */
        doorbell_ring(&echo->back);
    }
}

/* Gives the echo thread a value, and waits for its answer: the time at which the thread had the value. */
static int64_t hand_over(struct echo *echo, int64_t now) {
    int64_t got;

    atomic_store_explicit(&echo->got_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&echo->sent_ns, now, memory_order_release); /* with echo_main() */
    doorbell_ring(&echo->there);
    for (;;) {
        doorbell_arm(&echo->back);
        got = atomic_load_explicit(&echo->got_ns, memory_order_acquire); /* with echo_main() */
        if (got)
            break;
        doorbell_sleep(&echo->back, TIME_NEVER);
    }
    doorbell_cancel(&echo->back);
    return got;
}

/* Copies pieces of a large area one after the other, so that each comes from memory, not from the cache. */
static double measure_copy(void) {
    char *from = malloc(COPY_AREA_BYTES), *to = malloc(COPY_BYTES);
    int64_t took = 0;

    if (!from || !to)
        goto out;
    memset(from, 1, COPY_AREA_BYTES);
    memset(to, 1, COPY_BYTES);
    took = clock_now_ns();
    for (size_t at = 0; at < COPY_AREA_BYTES; at += COPY_BYTES) {
        memcpy(to, from + at, COPY_BYTES);
        __asm__ volatile("" ::"r"(to) : "memory"); /* the copy must happen */
    }
    took = clock_now_ns() - took;
out:
    free(from);
    free(to);
    return (double)(took > 0 ? took : NS_PER_MS) / COPY_AREA_BYTES;
}

static void measure_hand_overs(struct calibration *result) {
    struct margin dispatch = {.total = 0}, reply = {.total = 0};
    struct echo *echo = aligned_alloc(CACHE_LINE, sizeof(*echo));
    char bytes[REPLY_BYTES] = {0};
    pthread_t thread;
    int pair[2];

    if (!echo)
        return;
    memset(echo, 0, sizeof(*echo));
    doorbell_init(&echo->there, false, false);
    doorbell_init(&echo->back, false, false);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        goto out_echo;
    if (pthread_create(&thread, NULL, echo_main, echo) != 0)
        goto out_pair;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t start = clock_now_ns(), got = hand_over(echo, start);
        margin_add(&dispatch, got - start);
        if (write(pair[0], bytes, sizeof(bytes)) != sizeof(bytes) || read(pair[1], bytes, sizeof(bytes)) < 0)
            break;
        margin_add(&reply, clock_now_ns() - start);
    }
    atomic_store_explicit(&echo->sent_ns, -1, memory_order_release); /* with echo_main() */
    doorbell_ring(&echo->there);
    pthread_join(thread, NULL);
    result->dispatch_ns = margin_ns(&dispatch);
    result->reply_ns = margin_ns(&reply);
out_pair:
    close(pair[0]);
    close(pair[1]);
out_echo:
    free(echo);
}

void calibrate(struct calibration *result) {
    *result = (struct calibration){.dispatch_ns = 100 * NS_PER_US, .reply_ns = 200 * NS_PER_US};
    measure_hand_overs(result);
    struct margin wake = {.total = 0};
    struct doorbell bell;
    doorbell_init(&bell, false, false);
    for (int i = 0; i < ROUNDS / 2; i++) {
        int64_t until = clock_now_ns() + SLEEP_NS;
        doorbell_arm(&bell);
        doorbell_sleep(&bell, until);
        margin_add(&wake, clock_now_ns() - until);
    }
    result->wake_ns = margin_ns(&wake);
    result->copy_ns_per_byte = measure_copy();
}
