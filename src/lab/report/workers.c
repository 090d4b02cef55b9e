/* workers.c - several threads do independent pieces of work. */
#include "lab/report/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/system/clock.h"
#include "core/system/thread.h"

#define TICK_NS (200 * NS_PER_MS)

struct piece {
    bool done;
    int rc;
};

struct workers {
    const struct workers_job *job;
    pthread_mutex_t lock; /* lock of the fields below */
    pthread_cond_t changed;
    struct piece *pieces; /* [count] */
    uint32_t next, done;  /* index of the next piece to begin; number of pieces done */
    bool failed;
};

static void *worker_main(void *context) {
    struct workers *w = context;
    pthread_mutex_lock(&w->lock);
    while (w->next < w->job->count && !w->failed) {
        uint32_t piece = w->next++;
        pthread_mutex_unlock(&w->lock);
        int rc = w->job->work(w->job->context, piece);
        pthread_mutex_lock(&w->lock);
        w->pieces[piece] = (struct piece){true, rc};
        w->failed |= rc != 0;
        w->done++;
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Called with the lock held; it is released while the caller's functions run. */
static int pieces_take(struct workers *w) {
    uint32_t taken = 0;
    int rc = 0;
    /* Pieces are begun in order, so all before the first that failed will be done. */
    while (taken < w->job->count && !rc) {
        if (w->pieces[taken].done) {
            rc = w->pieces[taken].rc;
            pthread_mutex_unlock(&w->lock);
            w->job->take(w->job->context, taken++, rc);
        } else {
            const struct timespec until = clock_sleep_end(clock_now_ns() + TICK_NS);
            pthread_cond_timedwait(&w->changed, &w->lock, &until);
            uint32_t done = w->done;
            pthread_mutex_unlock(&w->lock);
            w->job->tick(w->job->context, done);
        }
        pthread_mutex_lock(&w->lock);
    }
    return rc;
}

int workers_run(const struct workers_job *job) {
    struct workers w = {.job = job, .pieces = calloc(job->count, sizeof(struct piece))};
    uint32_t threads = job->threads < job->count ? job->threads : job->count, started = 0;
    pthread_t *ids = calloc(threads, sizeof(*ids));
    int rc = w.pieces && ids ? 0 : -ENOMEM;
    pthread_mutex_init(&w.lock, NULL);
    thread_condition_init(&w.changed);
    while (!rc && started < threads) {
        rc = -pthread_create(&ids[started], NULL, worker_main, &w);
        started += !rc;
    }
    if (started) {
        pthread_mutex_lock(&w.lock);
        rc = pieces_take(&w);
        pthread_mutex_unlock(&w.lock);
    }
    for (uint32_t i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    pthread_cond_destroy(&w.changed);
    pthread_mutex_destroy(&w.lock);
    free(ids);
    free(w.pieces);
    return rc;
}
