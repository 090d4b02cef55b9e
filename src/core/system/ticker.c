/* ticker.c - a thread with a timer. */
#include "core/system/ticker.h"

#include <string.h>

#include "core/system/clock.h"
#include "core/system/thread.h"
#include "core/util/time.h"

static void *ticker_main(void *ticker) {
    struct ticker *t = ticker;
    bool stop = false;
    thread_begin(t->name, 0, THREAD_BACKGROUND);
    for (int64_t next_ns = clock_now_ns() + t->every_ns; !stop;) {
        const struct timespec until = clock_sleep_end(next_ns);
        int rc = 0;
        pthread_mutex_lock(&t->lock);
        while (!t->stop && rc == 0)
            rc = pthread_cond_timedwait(&t->stopped, &t->lock, &until);
        stop = t->stop;
        pthread_mutex_unlock(&t->lock);
        next_ns = time_due_again(next_ns, t->every_ns, clock_now_ns());
        t->tick(t->context, stop);
    }
    return NULL;
}

int ticker_start(struct ticker *t, const char *name, int64_t every_ns, ticker_tick *tick, void *context,
                 struct sy_error *err) {
    *t = (struct ticker){.name = name, .every_ns = every_ns, .tick = tick, .context = context};
    thread_condition_init(&t->stopped);
    pthread_mutex_init(&t->lock, NULL);
    int rc = -pthread_create(&t->thread, NULL, ticker_main, t);
    if (rc == 0)
        return 0;
    pthread_cond_destroy(&t->stopped);
    pthread_mutex_destroy(&t->lock);
    return error_set(err, rc, "cannot start the thread '%s': %s", name, strerror(-rc));
}

void ticker_stop(struct ticker *t) {
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->stopped);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->stopped);
    pthread_mutex_destroy(&t->lock);
}
