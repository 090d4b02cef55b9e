/* bulk.c - a queue under a lock, and threads that take from it. */
#include "request/bulk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "request/inbox.h"
#include "request/slab.h"

#define IDLE_BEFORE_TRIM_S 10
#define NS_A_BYTE          10 /* a job's time for each byte: the most that usual jobs take */

struct bulk {
    struct slab *slab;
    int grpc_level;
    pthread_mutex_t lock;
    pthread_cond_t bell;
    struct list_node jobs; /* by turn_ns */
    bool ends;
    uint32_t begun; /* threads that have taken their number */
    uint32_t count;
    pthread_t threads[];
};

struct bulk_job *bulk_returned(struct inbox *home) {
    return push_list_entry(push_list_take(&home->jobs), struct bulk_job, back);
}

struct bulk_job *bulk_job_next(const struct bulk_job *job) {
    return push_list_entry(job->back.next, struct bulk_job, back);
}

void bulk_submit(struct bulk *b, struct bulk_job *job) {
    job->turn_ns = clock_now_ns() + (int64_t)job->bytes * NS_A_BYTE;
    list_init(&job->link);
    pthread_mutex_lock(&b->lock);
    struct list_node *at = &b->jobs;
    while (at->prev != &b->jobs && list_entry(at->prev, struct bulk_job, link)->turn_ns > job->turn_ns)
        at = at->prev;
    list_insert_before(at, &job->link);
    pthread_mutex_unlock(&b->lock);
    pthread_cond_signal(&b->bell);
}

/* Sleeps until a job comes. Gives back memory that nobody has used for a while. */
static void job_await(struct bulk *b) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until); /* what pthread_cond_timedwait() goes by */
    until.tv_sec += IDLE_BEFORE_TRIM_S;
    if (slab_bytes_mapped(b->slab) == 0)
        pthread_cond_wait(&b->bell, &b->lock);
    else if (pthread_cond_timedwait(&b->bell, &b->lock, &until) == ETIMEDOUT)
        slab_trim(b->slab);
}

/* Waits for the next job. NULL: the thread is to end. */
static struct bulk_job *job_next(struct bulk *b) {
    struct bulk_job *job = NULL;
    pthread_mutex_lock(&b->lock);
    while (list_empty(&b->jobs) && !b->ends)
        job_await(b);
    if (!list_empty(&b->jobs)) {
        job = list_entry(b->jobs.next, struct bulk_job, link);
        list_remove(&job->link);
    }
    pthread_mutex_unlock(&b->lock);
    return job;
}

static void *bulk_main(void *context) {
    struct bulk *b = context;
    struct bulk_tools tools = {.inflater = {.ready = false}};
    struct bulk_job *job;
    pthread_mutex_lock(&b->lock);
    uint32_t index = b->begun++;
    pthread_mutex_unlock(&b->lock);
    thread_begin("bulk", index, THREAD_SHARED);
    deflater_init(&tools.http_deflater, Z_BEST_SPEED);
    deflater_init(&tools.grpc_deflater, b->grpc_level);
    while ((job = job_next(b))) {
        job->run(job, &tools);
        struct inbox *home = job->home;
        push_list_push(&home->jobs, &job->back);
        inbox_wake(home);
    }
    inflater_destroy(&tools.inflater);
    deflater_destroy(&tools.http_deflater);
    deflater_destroy(&tools.grpc_deflater);
    return NULL;
}

int bulk_create(struct bulk **bulk, uint32_t threads, uint64_t inputs_bytes_max, bool visible, bool pinned,
                int grpc_level, struct sy_error *err) {
    struct bulk *b = calloc(1, sizeof(*b) + threads * sizeof(b->threads[0]));
    int rc = 0;
    if (!b || !(b->slab = visible ? slab_create_visible(inputs_bytes_max, true, pinned)
                                  : slab_create_shared(inputs_bytes_max))) {
        free(b);
        return error_set(err, -ENOMEM, "no memory for large bodies");
    }
    b->grpc_level = grpc_level;
    list_init(&b->jobs);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->bell, NULL);
    while (b->count < threads && (rc = -pthread_create(&b->threads[b->count], NULL, bulk_main, b)) == 0)
        b->count++;
    if (rc < 0) {
        bulk_destroy(b);
        return error_set(err, rc, "cannot start a thread for large bodies: %s", strerror(-rc));
    }
    *bulk = b;
    return 0;
}

void bulk_stop(struct bulk *b) {
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->ends = true;
    pthread_mutex_unlock(&b->lock);
    pthread_cond_broadcast(&b->bell);
    while (b->count > 0)
        pthread_join(b->threads[--b->count], NULL);
}

void bulk_destroy(struct bulk *b) {
    if (!b)
        return;
    bulk_stop(b);
    pthread_cond_destroy(&b->bell);
    pthread_mutex_destroy(&b->lock);
    slab_destroy(b->slab);
    free(b);
}

struct slab *bulk_slab(const struct bulk *b) {
    return b->slab;
}
