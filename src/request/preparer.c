/* preparer.c - a queue under a lock, threads that take from it, and what images take. */
#include "request/preparer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/time.h"
#include "image/image_decode.h"
#include "request/inbox.h"

/* What a preparation takes beside its pixels: two wake-ups, and what is the same for images of any size. */
#define FIXED_NS (100 * NS_PER_US)
/* Guesses of what a pixel takes, until one was measured. */
#define JPEG_GUESS_NS 15
#define PNG_GUESS_NS  30
/* The time of a smaller image says little of its pixels. */
#define PIXELS_MEASURED 4096

/* What a pixel takes: the running mean and the mean deviation from it, with the weights of RFC 6298 (2.3). Promises are
 * kept if it is somewhat longer than the mean, and what is there early is told at once. */
struct pace {
    double mean_ns, deviation_ns;
    bool measured;
};
#define MEAN_WEIGHT      (1.0 / 8)
#define DEVIATION_WEIGHT (1.0 / 4)
#define DEVIATIONS       2

struct preparer {
    _Atomic uint32_t taken; /* places */
    pthread_mutex_t lock;
    pthread_cond_t bell;
    struct list_node waiting; /* the oldest first */
    int64_t ahead_ns;         /* estimates of what waits and what is under way, added up */
    struct pace paces[IMAGE_KIND_COUNT];
    bool ends;
    uint32_t begun;   /* threads that have taken their number */
    uint32_t running; /* threads; for who calls preparer_start() */
    uint32_t count;   /* threads, once a model needs them */
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
    for (uint32_t i = 0; i < preparation->image_count; i++) {
        const struct image_header *header = &preparation->images[i].header;
        const struct pace *pace = &p->paces[header->kind];
        ns += (pace->mean_ns + DEVIATIONS * pace->deviation_ns) * (double)image_pixels(header);
    }
    return (int64_t)ns;
}

static void measured(struct preparer *p, const struct image_header *header, int64_t took_ns) {
    uint64_t pixels = image_pixels(header);
    if (pixels < PIXELS_MEASURED)
        return;
    double pixel_ns = (double)took_ns / (double)pixels;
    struct pace *pace = &p->paces[header->kind];
    pthread_mutex_lock(&p->lock);
    if (!pace->measured)
        *pace = (struct pace){pixel_ns, pixel_ns / 2, true};
    double off_ns = pixel_ns - pace->mean_ns;
    pace->deviation_ns += ((off_ns < 0 ? -off_ns : off_ns) - pace->deviation_ns) * DEVIATION_WEIGHT;
    pace->mean_ns += off_ns * MEAN_WEIGHT;
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
    int64_t ahead_ns = p->ahead_ns / p->count;
    pthread_mutex_unlock(&p->lock);
    return clock_now_ns() + ahead_ns + preparation->estimate_ns;
}

void preparer_forget(struct preparer *p) {
    atomic_fetch_sub_explicit(&p->taken, 1, memory_order_relaxed);
}

void preparer_submit(struct preparer *p, struct preparation *preparation) {
    list_init(&preparation->link);
    pthread_mutex_lock(&p->lock);
    list_insert_before(&p->waiting, &preparation->link);
    p->ahead_ns += preparation->estimate_ns;
    pthread_mutex_unlock(&p->lock);
    pthread_cond_signal(&p->bell);
}

/* Waits for the next preparation. NULL: the thread is to end. */
static struct preparation *preparation_await(struct preparer *p) {
    struct preparation *preparation = NULL;
    pthread_mutex_lock(&p->lock);
    while (list_empty(&p->waiting) && !p->ends)
        pthread_cond_wait(&p->bell, &p->lock);
    if (!list_empty(&p->waiting)) {
        preparation = list_entry(p->waiting.next, struct preparation, link);
        list_remove(&preparation->link);
    }
    pthread_mutex_unlock(&p->lock);
    return preparation;
}

/* ---- the threads ---- */

static void image_prepare(struct preparer *p, struct preparation *preparation, const struct preparation_image *image) {
    struct sy_error why;
    int64_t begun_ns = clock_now_ns();
    if (image_decode(&image->header, image->data, image->bytes, image->rgb, &why) < 0) {
        preparation->end = PREPARATION_BAD;
        error_set(&preparation->error, 0, "input '%.64s': image %u %.400s", image->input, image->item, why.text);
        return;
    }
    measured(p, &image->header, clock_now_ns() - begun_ns);
}

static bool wanted(const struct preparation *preparation, int64_t now_ns) {
    return now_ns <= preparation->give_up_ns &&
           !atomic_load_explicit(&preparation->dropped, memory_order_relaxed); /* only work is saved by it */
}

static void prepare(struct preparer *p, struct preparation *preparation) {
    int64_t begun_ns = clock_now_ns();
    preparation->end = wanted(preparation, begun_ns) ? PREPARATION_DONE : PREPARATION_LATE;
    for (uint32_t i = 0; i < preparation->image_count && preparation->end == PREPARATION_DONE; i++)
        image_prepare(p, preparation, &preparation->images[i]);
    if (preparation->end == PREPARATION_DONE)
        atomic_store_explicit(preparation->unready, 0, memory_order_release); /* with request_unready() */
    preparation->took_ns = clock_now_ns() - begun_ns;
}

static void *preparer_main(void *context) {
    struct preparer *p = context;
    struct preparation *preparation;
    pthread_mutex_lock(&p->lock);
    uint32_t index = p->begun++;
    pthread_mutex_unlock(&p->lock);
    thread_begin("prepare", index, THREAD_SHARED);
    while ((preparation = preparation_await(p))) {
        struct inbox *home = preparation->home;
        prepare(p, preparation);
        pthread_mutex_lock(&p->lock);
        p->ahead_ns -= preparation->estimate_ns;
        pthread_mutex_unlock(&p->lock);
        push_list_push(&home->preparations, &preparation->back); /* it is the frontend's again */
        inbox_wake(home);
    }
    return NULL;
}

int preparer_create(struct preparer **preparer, uint32_t threads, struct sy_error *err) {
    struct preparer *p = calloc(1, sizeof(*p) + threads * sizeof(p->threads[0]));
    if (!p)
        return error_set(err, -ENOMEM, "no memory for the threads that prepare inputs");
    list_init(&p->waiting);
    p->paces[IMAGE_KIND_JPEG].mean_ns = JPEG_GUESS_NS;
    p->paces[IMAGE_KIND_PNG].mean_ns = PNG_GUESS_NS;
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
