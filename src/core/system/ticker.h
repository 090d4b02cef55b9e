/* ticker.h - a thread in the background that does the same thing again and again until it is stopped. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"

/* What is done at each tick. `last`: once more when the ticker is being stopped, and then never again. The ticker's
 * thread. */
typedef void ticker_tick(void *context, bool last);

struct ticker {
    const char *name;
    int64_t every_ns;
    ticker_tick *tick;
    void *context;
    pthread_t thread;
    pthread_mutex_t lock; /* lock of `stop` */
    pthread_cond_t stopped;
    bool stop;
};

/* Starts the thread `name`, which must stay in place; the first tick comes after every_ns. A tick that takes longer
 * than that is followed by the next one that is due. 0 or -errno with a sentence; then there is nothing to stop. */
int ticker_start(struct ticker *ticker, const char *name, int64_t every_ns, ticker_tick *tick, void *context,
                 struct sy_error *err);
/* Has the last tick done, and waits for it. */
void ticker_stop(struct ticker *ticker);
