/* bulk.c - threads that work in slices, of which a few run at a time.
 *
 * A job whose slice is over while others wait stops at a yield_point(), and its thread sleeps until the job's next
 * slice (fair_queue.h); another thread runs meanwhile. So more threads exist than may run at a time: each one that is
 * in the middle of a job keeps its stack. */
#include "front/bulk/bulk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/thread.h"
#include "core/system/yield.h"
#include "core/util/siphash.h"
#include "front/bulk/inbox.h"
#include "front/bulk/slab.h"

#define IDLE_NS      (10 * NS_PER_S) /* idle time after which memory is given back, and surplus workers end */
#define WORKERS_MORE 126             /* most workers beyond those that run at a time; each takes some 30 KiB */
#define MEMORY_TIMES 4               /* memory of a job, about so many times its bytes */
#define MEMORY_PART  2               /* part of the memory for inputs that all begun jobs may take */
#define SLICE_NS     (4 * NS_PER_MS) /* length of a slice; a change of threads costs some 0.15 ms, for cold caches */

enum worker_life { WORKER_NONE, WORKER_LIVES, WORKER_ENDED /* and is to be joined */ };

/* Owned by the worker's thread, except for `life`, `job` and `runs`, which are under the lock. */
struct worker {
    struct bulk *bulk;
    struct list_node link; /* place in the list of idle workers */
    pthread_t thread;
    enum worker_life life;
    pthread_cond_t bell;  /* signalled when the worker gets a job, or its job a slice */
    struct bulk_job *job; /* NULL: idle */
    bool runs;            /* the job has its slice */
    int64_t until_ns;     /* end of the slice */
    int64_t cpu_ns;       /* CPU time of the thread when the slice began */
    struct bulk_tools tools;
};

struct bulk {
    struct slab *slab;
    int grpc_level;
    struct siphash_key secret; /* key of the clients' hashes: nobody can choose with whom a client shares its part */
    pthread_mutex_t lock;
    struct fair_queue queue;
    struct list_node idle;         /* workers without a job, the last that became idle first */
    uint32_t running, running_max; /* workers that run; most that may */
    bool ends;                     /* the threads are to end */
    uint32_t count, count_max;     /* workers that live; most that may */
    struct worker workers[];
};

/* The worker whose thread this is. */
static _Thread_local struct worker *own;

struct bulk_job *bulk_returned(struct inbox *home) {
    return push_list_entry(push_list_take(&home->jobs), struct bulk_job, back);
}

struct bulk_job *bulk_job_next(const struct bulk_job *job) {
    return push_list_entry(job->back.next, struct bulk_job, back);
}

uint32_t bulk_client(const struct bulk *b, const uint8_t address[16]) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    uint64_t words[2];
    memcpy(words, address, sizeof(words));
    if (memcmp(address, mapped, sizeof(mapped)) != 0)
        words[1] = 0; /* an IPv6 client has a whole network of 64 bits */
    return (uint32_t)(siphash_words(&b->secret, words, 2) % FAIR_CLIENTS);
}

/* ---- under the lock ---- */

/* Has the jobs run whose slices are next. */
static void dispatch(struct bulk *b) {
    struct fair_job *fair;
    while (b->running < b->running_max && (fair = fair_queue_next(&b->queue, !list_empty(&b->idle)))) {
        struct bulk_job *job = container_of(fair, struct bulk_job, fair);
        if (!job->worker) {
            job->worker = list_entry(b->idle.next, struct worker, link);
            job->worker->job = job;
            list_remove(&job->worker->link);
        }
        job->worker->runs = true;
        b->running++;
        pthread_cond_signal(&job->worker->bell);
    }
}

static void slice_begin(struct worker *w) {
    w->cpu_ns = thread_cpu_ns(pthread_self());
    w->until_ns = clock_now_ns() + SLICE_NS;
}

static void slice_charge(struct worker *w) {
    fair_queue_charge(&w->bulk->queue, &w->job->fair, thread_cpu_ns(pthread_self()) - w->cpu_ns);
}

static void *worker_main(void *context);

static void worker_join(struct worker *w) {
    if (w->life == WORKER_NONE)
        return;
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->bell);
    w->life = WORKER_NONE;
}

/* Starts one more worker; fewer than count_max live. */
static int worker_add(struct bulk *b) {
    struct worker *w = b->workers;
    while (w->life == WORKER_LIVES)
        w++;
    worker_join(w); /* at once: it no longer takes the lock */
    *w = (struct worker){.bulk = b, .life = WORKER_LIVES};
    list_init(&w->link);
    thread_condition_init(&w->bell);
    int rc = -pthread_create(&w->thread, NULL, worker_main, w);
    if (rc < 0) {
        pthread_cond_destroy(&w->bell);
        w->life = WORKER_NONE;
        return rc;
    }
    b->count++;
    return 0;
}

/* ---- the threads ---- */

/* The job's slice is over, if it is: lets others have theirs. */
static void slice_end(void) {
    struct worker *w = own;
    struct bulk *b = w->bulk;
    if (clock_now_ns() < w->until_ns)
        return;
    pthread_mutex_lock(&b->lock);
    slice_charge(w);
    bool idle = !list_empty(&b->idle);
    if (!idle && b->count < b->count_max && fair_queue_yields(&b->queue, &w->job->fair, true))
        worker_add(b); /* which is there at the next slice's end, or, if the system refuses it, not */
    if (fair_queue_yields(&b->queue, &w->job->fair, idle)) {
        fair_queue_wait(&b->queue, &w->job->fair);
        w->runs = false;
        b->running--;
        dispatch(b);
        while (!w->runs)
            pthread_cond_wait(&w->bell, &b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    slice_begin(w);
}

static void tools_init(struct bulk_tools *tools, int grpc_level) {
    tools->inflater = (struct inflater){.ready = false};
    deflater_init(&tools->http_deflater, Z_BEST_SPEED);
    deflater_init(&tools->grpc_deflater, grpc_level);
}

static void tools_destroy(struct bulk_tools *tools) {
    inflater_destroy(&tools->inflater);
    deflater_destroy(&tools->http_deflater);
    deflater_destroy(&tools->grpc_deflater);
}

/* Sleeps until there is a job. Gives back memory that nobody has used for a while. False: the thread is to end. */
static bool job_await(struct worker *w, bool extra) {
    struct bulk *b = w->bulk;
    list_insert_before(b->idle.next, &w->link);
    dispatch(b);
    while (!w->job && !b->ends) {
        const struct timespec until = clock_sleep_end(clock_now_ns() + IDLE_NS);
        if (!extra && slab_bytes_mapped(b->slab) == 0)
            pthread_cond_wait(&w->bell, &b->lock);
        else if (pthread_cond_timedwait(&w->bell, &b->lock, &until) == ETIMEDOUT) {
            slab_trim(b->slab);
            if (extra && !w->job)
                break;
        }
    }
    return w->job;
}

static void *worker_main(void *context) {
    struct worker *w = own = context;
    struct bulk *b = w->bulk;
    bool extra = w - b->workers >= b->running_max;
    thread_begin("bulk", (uint32_t)(w - b->workers), THREAD_SHARED);
    tools_init(&w->tools, b->grpc_level);
    yield_here = slice_end;
    pthread_mutex_lock(&b->lock);
    while (job_await(w, extra)) {
        struct bulk_job *job = w->job;
        pthread_mutex_unlock(&b->lock);
        slice_begin(w);
        job->run(job, &w->tools);
        if (extra) { /* seldom needed, and many */
            tools_destroy(&w->tools);
            tools_init(&w->tools, b->grpc_level);
        }
        pthread_mutex_lock(&b->lock);
        slice_charge(w);
        fair_queue_end(&b->queue, &job->fair);
        w->job = NULL;
        pthread_mutex_unlock(&b->lock);
        struct inbox *home = job->home;
        push_list_push(&home->jobs, &job->back);
        inbox_wake(home);
        pthread_mutex_lock(&b->lock);
        w->runs = false;
        b->running--;
    }
    list_remove(&w->link);
    tools_destroy(&w->tools);
    if (!b->ends) { /* bulk_stop() reads it without the lock */
        w->life = WORKER_ENDED;
        b->count--;
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

void bulk_submit(struct bulk *b, struct bulk_job *job) {
    pthread_mutex_lock(&b->lock);
    job->worker = NULL;
    fair_queue_add(&b->queue, &job->fair, job->client, MEMORY_TIMES * job->bytes);
    dispatch(b);
    pthread_mutex_unlock(&b->lock);
}

/* ---- start and end ---- */

int bulk_create(struct bulk **bulk, uint32_t threads, uint64_t inputs_bytes_max, bool visible, bool pinned,
                int grpc_level, struct sy_error *err) {
    uint32_t count_max = threads + WORKERS_MORE;
    struct bulk *b = calloc(1, sizeof(*b) + count_max * sizeof(b->workers[0]));
    int rc = 0;
    if (!b || !(b->slab = visible ? slab_create_visible(inputs_bytes_max, true, pinned)
                                  : slab_create_shared(inputs_bytes_max))) {
        free(b);
        return error_set(err, -ENOMEM, "no memory for large bodies");
    }
    b->grpc_level = grpc_level;
    b->running_max = threads;
    b->count_max = count_max;
    fair_queue_init(&b->queue, count_max, inputs_bytes_max / MEMORY_PART);
    list_init(&b->idle);
    pthread_mutex_init(&b->lock, NULL);
    if ((rc = siphash_key_draw(&b->secret)) < 0) {
        bulk_destroy(b);
        return error_set(err, rc, "no randomness for a secret: %s", strerror(-rc));
    }
    pthread_mutex_lock(&b->lock);
    while (b->count < threads && rc == 0)
        rc = worker_add(b);
    pthread_mutex_unlock(&b->lock);
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
    for (uint32_t i = 0; i < b->count_max; i++)
        if (b->workers[i].life == WORKER_LIVES)
            pthread_cond_signal(&b->workers[i].bell);
    pthread_mutex_unlock(&b->lock);
    for (uint32_t i = 0; i < b->count_max; i++)
        worker_join(&b->workers[i]);
}

void bulk_destroy(struct bulk *b) {
    if (!b)
        return;
    bulk_stop(b);
    pthread_mutex_destroy(&b->lock);
    slab_destroy(b->slab);
    free(b);
}

struct slab *bulk_slab(const struct bulk *b) {
    return b->slab;
}
