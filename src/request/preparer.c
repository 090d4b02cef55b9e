/* preparer.c - a queue under a lock, threads that take from it, and what images take. */
#include "request/preparer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/margin.h"
#include "base/thread.h"
#include "base/time.h"
#include "image/image_decode.h"
#include "request/inbox.h"

/* What a preparation takes beside its pixels: two wake-ups, and what is the same for images of any size. */
#define FIXED_NS (100 * NS_PER_US)
/* Guesses of what a million pixels take, until some were measured: a core of 2020 needs half of that. */
#define JPEG_GUESS_NS (15 * NS_PER_MS)
#define PNG_GUESS_NS  (30 * NS_PER_MS)
/* The time of a smaller image says little of its pixels. */
#define PIXELS_MEASURED 4096

struct preparer {
    _Atomic uint32_t taken; /* places */
    pthread_mutex_t lock;
    pthread_cond_t bell;
    struct list_node waiting; /* the oldest first */
    int64_t ahead_ns;         /* estimates of what waits and what is under way, added up */
    struct margin megapixel[IMAGE_KIND_COUNT]; /* what a million pixels take; written and read under the lock */
    bool ends;
    uint32_t begun; /* threads that have taken their number */
    uint32_t count;
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
        ns += (double)margin_ns(&p->megapixel[header->kind]) * (double)image_pixels(header) / 1e6;
    }
    return (int64_t)ns;
}

static void measured(struct preparer *p, const struct image_header *header, int64_t took_ns) {
    uint64_t pixels = image_pixels(header);
    if (pixels < PIXELS_MEASURED)
        return;
    pthread_mutex_lock(&p->lock);
    margin_add(&p->megapixel[header->kind], (int64_t)((double)took_ns * 1e6 / (double)pixels));
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
    int rc = 0;
    if (!p)
        return error_set(err, -ENOMEM, "no memory for the threads that prepare inputs");
    list_init(&p->waiting);
    margin_init(&p->megapixel[IMAGE_KIND_JPEG], JPEG_GUESS_NS);
    margin_init(&p->megapixel[IMAGE_KIND_PNG], PNG_GUESS_NS);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->bell, NULL);
    while (p->count < threads && (rc = -pthread_create(&p->threads[p->count], NULL, preparer_main, p)) == 0)
        p->count++;
    if (rc < 0) {
        preparer_destroy(p);
        return error_set(err, rc, "cannot start a thread that prepares inputs: %s", strerror(-rc));
    }
    *preparer = p;
    return 0;
}

void preparer_destroy(struct preparer *p) {
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->ends = true;
    pthread_mutex_unlock(&p->lock);
    pthread_cond_broadcast(&p->bell);
    for (uint32_t i = 0; i < p->count; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->bell);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
