/* preparer.c - a queue of preparations under a lock, the threads that take from it, and the measured times of steps. */
#include "front/request/preparer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/image_decode.h"
#include "core/system/clock.h"
#include "core/system/thread.h"
#include "core/util/pace.h"
#include "core/util/time.h"
#include "front/bulk/inbox.h"

/* Time of a preparation beside its steps: two wake-ups, and the part of decoding that does not depend on the image's
 * size. */
#define FIXED_NS (100 * NS_PER_US)
/* Time for a unit of image_work(), until one was measured. */
static const double guesses_ns[IMAGE_KIND_COUNT] = {
    [IMAGE_KIND_JPEG] = 6, [IMAGE_KIND_JPEG_PROGRESSIVE] = 15, [IMAGE_KIND_PNG] = 12};
/* The measured time of an image with less work than this counts less, in proportion: a small image's time is mostly
 * what any image takes, and a client that sends many of them must not lengthen the estimates for larger ones. */
#define WORK_COUNTED 262144

struct preparer {
    _Atomic uint32_t taken; /* places taken, of PREPARATIONS_MAX */
    pthread_mutex_t lock;
    pthread_cond_t bell;
    /* arrays by `best_effort` */
    struct list_node waiting[2];         /* preparations that wait for a thread, the oldest first */
    int64_t ahead_ns[2];                 /* sum of the estimates of preparations that wait or are under way */
    struct list_node gaps;               /* best-effort preparations that are under way and were not told to give way */
    uint32_t busy;                       /* threads that prepare something */
    struct pace paces[IMAGE_KIND_COUNT]; /* measured times for a unit of image_work() */
    bool ends;                           /* the threads are to end */
    uint32_t begun;                      /* threads that have taken their numbers */
    uint32_t running;                    /* threads started; for the caller of preparer_start() */
    uint32_t count;                      /* threads that preparer_start() starts */
    pthread_t threads[];
};

struct preparation *preparations_returned(struct inbox *home) {
    return push_list_entry(push_list_take(&home->preparations), struct preparation, back);
}

struct preparation *preparation_next(const struct preparation *preparation) {
    return push_list_entry(preparation->back.next, struct preparation, back);
}

/* ---- what it takes ---- */

static int64_t estimate_ns(const struct preparer *p, const struct preparation *preparation) {
    double ns = FIXED_NS;
    for (const struct preparation_item *item = preparation->items; item < preparation->items + preparation->item_count;
         item++) {
        if (item->file)
            ns += pace_promise_ns(&p->paces[item->header.kind]) * image_work(&item->header, item->file_bytes);
        if (item->transform)
            ns += pace_promise_ns(&item->transform->pace) * transform_elements(&item->given);
    }
    return (int64_t)ns;
}

/* Notes what `units` of a step took, to their end or until they were given up. The paces of models that prepare are
 * under the lock, too. */
static void measured(struct preparer *p, struct pace *pace, int64_t begun_ns, double units, double share,
                     bool to_the_end) {
    int64_t now_ns = clock_now_ns();
    double took_ns = (double)(now_ns - begun_ns) / units;
    pthread_mutex_lock(&p->lock);
    if (to_the_end)
        pace_add(pace, took_ns, share, now_ns);
    else
        pace_doubt(pace, took_ns, now_ns);
    pthread_mutex_unlock(&p->lock);
}

/* ---- the queue ---- */

int64_t preparer_promise(struct preparer *p, struct preparation *preparation) {
    /* relaxed: a number on its own */
    if (atomic_fetch_add_explicit(&p->taken, 1, memory_order_relaxed) >= PREPARATIONS_MAX) {
        preparer_forget(p);
        return 0;
    }
    pthread_mutex_lock(&p->lock);
    preparation->estimate_ns = estimate_ns(p, preparation);
    int64_t ahead_ns = (p->ahead_ns[false] + (preparation->best_effort ? p->ahead_ns[true] : 0)) / p->count;
    pthread_mutex_unlock(&p->lock);
    return clock_now_ns() + ahead_ns + preparation->estimate_ns;
}

void preparer_forget(struct preparer *p) {
    atomic_fetch_sub_explicit(&p->taken, 1, memory_order_relaxed);
}

/* Gives the preparation back to its frontend. */
static void hand_back(struct preparation *preparation) {
    struct inbox *home = preparation->home;
    push_list_push(&home->preparations, &preparation->back);
    inbox_wake(home);
}

/* Makes the step that runs for it end soon. Under the lock. */
static void halt(struct preparation *preparation) {
    /* relaxed: it only saves work */
    atomic_store_explicit(&preparation->halt, true, memory_order_relaxed);
    if (preparation->stop)
        preparation->stop_ops->stop(preparation->stop, true);
}

/* A preparation for which nobody waits must not lengthen the promises to others, nor keep its place and its memory. */
void preparer_drop(struct preparer *p, struct preparation *preparation) {
    pthread_mutex_lock(&p->lock);
    bool waits = preparation->waits;
    /* relaxed: it only saves work */
    atomic_store_explicit(&preparation->dropped, true, memory_order_relaxed);
    halt(preparation);
    if (waits) {
        preparation->waits = false;
        list_remove(&preparation->link);
        p->ahead_ns[preparation->best_effort] -= preparation->estimate_ns;
        /* no step of the preparation began: paces that are too long may be why (pace_doubt()) */
        int64_t now_ns = clock_now_ns();
        for (uint32_t i = 0; i < preparation->item_count; i++) {
            const struct preparation_item *item = &preparation->items[i];
            if (item->file)
                pace_doubt(&p->paces[item->header.kind], 0, now_ns);
            if (item->transform)
                pace_doubt(&item->transform->pace, 0, now_ns);
        }
    }
    pthread_mutex_unlock(&p->lock);
    if (!waits)
        return;
    preparation->end = PREPARATION_LATE;
    hand_back(preparation);
}

void preparer_submit(struct preparer *p, struct preparation *preparation) {
    list_init(&preparation->link);
    pthread_mutex_lock(&p->lock);
    list_append(&p->waiting[preparation->best_effort], &preparation->link);
    preparation->waits = true;
    p->ahead_ns[preparation->best_effort] += preparation->estimate_ns;
    if (!preparation->best_effort && p->busy == p->count && !list_empty(&p->gaps)) {
        struct preparation *gap = list_entry(p->gaps.next, struct preparation, link);
        list_remove(&gap->link);
        halt(gap);
    }
    pthread_mutex_unlock(&p->lock);
    pthread_cond_signal(&p->bell);
}

/* Under the lock. NULL: nothing waits. */
static struct preparation *next_waiting(struct preparer *p) {
    struct list_node *list = &p->waiting[list_empty(&p->waiting[false])];
    if (list_empty(list))
        return NULL;
    struct preparation *preparation = list_entry(list->next, struct preparation, link);
    preparation->waits = false;
    list_remove(&preparation->link);
    if (preparation->best_effort)
        list_append(&p->gaps, &preparation->link);
    return preparation;
}

/* Waits for the next preparation. NULL: the thread is to end. */
static struct preparation *preparation_await(struct preparer *p) {
    struct preparation *preparation = NULL;
    pthread_mutex_lock(&p->lock);
    while (!(preparation = next_waiting(p)) && !p->ends)
        pthread_cond_wait(&p->bell, &p->lock);
    p->busy += preparation != NULL;
    pthread_mutex_unlock(&p->lock);
    return preparation;
}

/* A thread leaves a preparation: it is done with it or, if `to_the_end` is false, the preparation has given way, and
 * waits as the next one of best effort. */
static void preparation_leave(struct preparer *p, struct preparation *preparation, bool to_the_end) {
    pthread_mutex_lock(&p->lock);
    p->busy--;
    list_remove(&preparation->link);                                                 /* from `gaps`, or from nothing */
    to_the_end |= atomic_load_explicit(&preparation->dropped, memory_order_relaxed); /* set under the lock */
    if (to_the_end) {
        p->ahead_ns[preparation->best_effort] -= preparation->estimate_ns;
    } else {
        atomic_store_explicit(&preparation->halt, false, memory_order_relaxed); /* read by who takes it next */
        list_insert_before(p->waiting[true].next, &preparation->link);
        preparation->waits = true;
    }
    pthread_mutex_unlock(&p->lock);
    if (to_the_end)
        hand_back(preparation);
}

/* ---- the threads ---- */

/* The state of one thread. */
struct worker {
    struct preparer *preparer;
    const struct transform_ops *stop_ops;
    struct transform_stop *stop; /* handle to stop the models that the thread runs; NULL: it has run none */
};

static void image_prepare(struct preparer *p, struct preparation *preparation, const struct preparation_item *item) {
    struct sy_error why;
    int64_t begun_ns = clock_now_ns();
    double work = image_work(&item->header, item->file_bytes);
    int rc = image_decode(&item->header, item->file, item->file_bytes, item->rgb, &preparation->halt, &why);
    if (rc == -ECANCELED) {
        preparation->end = PREPARATION_LATE;
    } else if (rc < 0) {
        preparation->end = PREPARATION_BAD;
        error_set(&preparation->error, 0, "input '%.64s': image %u %.400s", item->input, item->number, why.text);
    }
    if (rc == 0 || rc == -ECANCELED)
        measured(p, &p->paces[item->header.kind], begun_ns, work, work < WORK_COUNTED ? work / WORK_COUNTED : 1,
                 rc == 0);
}

static bool is_halted(const struct preparation *preparation) {
    return atomic_load_explicit(&preparation->halt, memory_order_relaxed); /* it only saves work */
}

/* From now on halt() can stop the run. False: the preparation is to end already. */
static bool stop_show(struct worker *w, struct preparation *preparation) {
    pthread_mutex_lock(&w->preparer->lock);
    bool wanted = !is_halted(preparation);
    preparation->stop_ops = w->stop_ops;
    preparation->stop = wanted ? w->stop : NULL;
    pthread_mutex_unlock(&w->preparer->lock);
    return wanted;
}

/* From now on halt() can no longer stop the run. Returns whether halt() was called, and clears the stop, so that the
 * thread's next run is not stopped. */
static bool stop_hide(struct worker *w, struct preparation *preparation) {
    pthread_mutex_lock(&w->preparer->lock);
    bool stopped = is_halted(preparation);
    preparation->stop = NULL;
    if (stopped && w->stop)
        w->stop_ops->stop(w->stop, false);
    pthread_mutex_unlock(&w->preparer->lock);
    return stopped;
}

static void transform_prepare(struct worker *w, struct preparation *preparation, const struct preparation_item *item) {
    const struct transform_ops *ops = item->transform->ops;
    struct sy_error why;
    if (w->stop && w->stop_ops != ops) {
        w->stop_ops->stop_free(w->stop);
        w->stop = NULL;
    }
    if (!w->stop)
        w->stop = ops->stop_new(); /* without memory for it, runs cannot be stopped */
    w->stop_ops = ops;
    if (!stop_show(w, preparation)) {
        preparation->end = PREPARATION_LATE;
        return;
    }
    int64_t begun_ns = clock_now_ns();
    int rc = ops->run(item->transform, w->stop, &item->given, &item->made, &why);
    bool stopped = stop_hide(w, preparation);
    if (rc == 0 || stopped)
        measured(w->preparer, &item->transform->pace, begun_ns, transform_elements(&item->given), 1, rc == 0);
    if (rc < 0 && stopped) {
        preparation->end = PREPARATION_LATE;
    } else if (rc < 0) {
        preparation->end = PREPARATION_FAILED;
        error_set(&preparation->error, 0, "input '%.64s': item %u: %.100s failed: %.250s", item->input, item->number,
                  item->transform_name, why.text);
    }
}

/* Runs the steps of a preparation. False: it was halted before its end. */
static bool prepare(struct worker *w, struct preparation *preparation) {
    int64_t begun_ns = clock_now_ns();
    bool in_time = begun_ns <= preparation->give_up_ns;
    preparation->end = in_time && !is_halted(preparation) ? PREPARATION_DONE : PREPARATION_LATE;
    while (preparation->next_item < preparation->item_count && preparation->end == PREPARATION_DONE) {
        const struct preparation_item *item = &preparation->items[preparation->next_item];
        if (item->file)
            image_prepare(w->preparer, preparation, item);
        if (item->transform && preparation->end == PREPARATION_DONE)
            transform_prepare(w, preparation, item);
        preparation->next_item += preparation->end == PREPARATION_DONE;
    }
    preparation->took_ns += clock_now_ns() - begun_ns;
    if (preparation->end == PREPARATION_DONE)
        atomic_store_explicit(preparation->unready, 0, memory_order_release); /* with request_unready() */
    return preparation->end != PREPARATION_LATE || !in_time;
}

static void *preparer_main(void *context) {
    struct preparer *p = context;
    struct worker worker = {.preparer = p};
    struct preparation *preparation;
    pthread_mutex_lock(&p->lock);
    uint32_t index = p->begun++;
    pthread_mutex_unlock(&p->lock);
    /* No nice value: promises count on these threads, and beside two busy processes on two cores with it (10) 40 % of
     * the requests were in time, without it 80 %. Prompt threads go first by their slices: their p99 was the same. */
    thread_begin("prepare", index, THREAD_COMPUTE);
    while ((preparation = preparation_await(p))) {
        bool to_the_end = prepare(&worker, preparation);
        preparation_leave(p, preparation, to_the_end);
    }
    if (worker.stop)
        worker.stop_ops->stop_free(worker.stop);
    return NULL;
}

int preparer_create(struct preparer **preparer, uint32_t threads, struct sy_error *err) {
    struct preparer *p = calloc(1, sizeof(*p) + threads * sizeof(p->threads[0]));
    if (!p)
        return error_set(err, -ENOMEM, "no memory for the threads that prepare inputs");
    list_init(&p->waiting[false]);
    list_init(&p->waiting[true]);
    list_init(&p->gaps);
    for (int kind = 0; kind < IMAGE_KIND_COUNT; kind++)
        p->paces[kind].mean_ns = guesses_ns[kind];
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->bell, NULL);
    p->count = threads;
    *preparer = p;
    return 0;
}

int preparer_start(struct preparer *p, struct sy_error *err) {
    int rc = 0;
    while (p->running < p->count && (rc = -pthread_create(&p->threads[p->running], NULL, preparer_main, p)) == 0)
        p->running++;
    return rc < 0 ? error_set(err, rc, "cannot start a thread that prepares inputs: %s", strerror(-rc)) : 0;
}

void preparer_destroy(struct preparer *p) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->ends = true;
    pthread_mutex_unlock(&p->lock);
    pthread_cond_broadcast(&p->bell);
    for (uint32_t i = 0; i < p->running; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->bell);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
