/* test_executors.c - orders to an accelerator come from several threads, and none is lost. */
/* Starts threads. */
#include "server/threads/executors.h"

#include <sched.h>
#include <stdatomic.h>

#include "core/data/running.h"
#include "unit/sched/threads/smallest_wiring.h"
#include "unit/test.h"

#define ORDERS 20000 /* of each kind */

static struct {
    struct wiring wiring;
    struct executors executors;
    struct running running;
    struct running *runs[1];
    struct server_cluster cluster;
    _Atomic int ended; /* threads that have sent all their orders */
} the;

/* As the thread that waits for signals: passes on whether the accelerator is to leave. */
static void *obey(void *context) {
    for (int i = 0; i < ORDERS; i++) {
        bool drained = i % 2 == 0;
        atomic_store_explicit(&the.running.drained, drained, memory_order_relaxed);
        while (the.executors.drained != drained)
            executors_obey(&the.executors, &the.cluster);
    }
    atomic_fetch_add_explicit(&the.ended, 1, memory_order_release); /* with the test */
    return NULL;
}

/* As the thread of the repository: models come and go. */
static void *load(void *context) {
    for (uint32_t i = 1; i <= ORDERS; i++)
        while (executors_model_command(&the.executors, 0, 0, i, true) < 0)
            sched_yield();
    atomic_fetch_add_explicit(&the.ended, 1, memory_order_release); /* with the test */
    return NULL;
}

TEST(orders_of_several_threads_all_arrive) {
    pthread_t threads[2];
    struct sy_error err;
    uint32_t loads = 0, states = 0;
    the.wiring = smallest_wiring(1);
    assert_int_equal(wiring_init(&the.wiring, false, &err), 0);
    the.executors.wiring = &the.wiring;
    pthread_mutex_init(&the.executors.lock, NULL);
    the.runs[0] = &the.running;
    the.cluster = (struct server_cluster){.role = LINK_BACKEND, .running = the.runs, .running_count = 1};
    assert_int_equal(pthread_create(&threads[0], NULL, obey, NULL), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, load, NULL), 0);
    for (;;) {
        bool all_sent = atomic_load_explicit(&the.ended, memory_order_acquire) == 2; /* before the look at the ring */
        const struct accelerator_command *command = ring_peek(&the.wiring.commands[0]);
        if (!command && all_sent)
            break;
        if (!command) {
            sched_yield();
            continue;
        }
        if (command->order == EXECUTOR_MODEL)
            assert_int_equal(command->version, ++loads);
        else
            assert_int_equal(command->order, states++ % 2 == 0 ? ACCELERATOR_DRAIN : ACCELERATOR_JOIN);
        ring_pop(&the.wiring.commands[0]);
        ring_release(&the.wiring.commands[0]);
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_int_equal(loads, ORDERS);
    assert_int_equal(states, ORDERS);
    pthread_mutex_destroy(&the.executors.lock);
    wiring_destroy(&the.wiring);
}
