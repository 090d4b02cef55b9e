/* driver.c - takes turn after turn, with a look at the clock after each. */
#include "lab/stress/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/system/clock.h"
#include "core/system/thread.h"
#include "core/util/counter.h"

struct driver {
    struct driver_config config;
    struct pause *pauses; /* [PAUSES_MAX] untouched pages cost nothing */
    uint32_t pause_count;
    uint32_t slice; /* index of the present slice */
    pthread_t thread;
    _Atomic bool stop;
};

static void pause_note(struct driver *d, int64_t from_ns, int64_t to_ns) {
    struct pause pause = {from_ns - d->config.epoch_ns, to_ns - d->config.epoch_ns};

    if (d->pause_count < PAUSES_MAX)
        d->pauses[d->pause_count++] = pause;
    else
        d->pauses[PAUSES_MAX - 1].to_ns = pause.to_ns;
}

/* Keeps the times as of the end of slices that are over. */
static void slices_follow(struct driver *d, int64_t now_ns) {
    const struct slicing *slicing = &d->config.slicing;

    for (; d->slice < slicing->count && (d->slice + 1) * slicing->slice_ns <= now_ns - d->config.epoch_ns; d->slice++)
        for (uint32_t i = 0; i < d->config.seat_count; i++)
            if (d->config.seats[i].times)
                histogram_merge(&d->config.seats[i].times_until[d->slice], d->config.seats[i].times);
}

static int64_t rest_until(const struct driver *d, int64_t now_ns, int64_t until_ns) {
    struct timespec ts = clock_sleep_end(until_ns);

    if (!d->config.sleeps) {
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
        return now_ns;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
    return clock_now_ns();
}

static void *driver_main(void *argument) {
    struct driver *d = argument;

    thread_begin("stress", d->config.index, THREAD_PROMPT);
    int64_t now_ns = clock_now_ns();
    while (!atomic_load_explicit(&d->stop, memory_order_acquire)) { /* with driver_stop() */
        int64_t rest_ns = INT64_MAX;
        for (uint32_t i = 0; i < d->config.seat_count; i++) {
            struct driver_seat *seat = &d->config.seats[i];
            int64_t until_ns = seat->turn(seat->passenger), before_ns = now_ns;
            now_ns = clock_now_ns();
            if (now_ns - before_ns > PAUSE_NS && !d->config.sleeps)
                pause_note(d, before_ns, now_ns);
            else if (until_ns == 0)
                counter_add(&seat->work_ns, (uint64_t)(now_ns - before_ns));
            rest_ns = until_ns < rest_ns ? until_ns : rest_ns;
        }
        slices_follow(d, now_ns);
        if (rest_ns > now_ns)
            now_ns = rest_until(d, now_ns, rest_ns);
    }
    slices_follow(d, clock_now_ns()); /* those that ended in the last rest */
    return NULL;
}

int driver_start(struct driver **driver, const struct driver_config *config, struct sy_error *err) {
    struct driver *d = calloc(1, sizeof(*d));
    pthread_attr_t attributes;

    if (!d || !(d->pauses = calloc(PAUSES_MAX, sizeof(*d->pauses)))) {
        driver_free(d);
        return error_set(err, -ENOMEM, "no memory for a thread");
    }
    d->config = *config;
    pthread_attr_init(&attributes);
    if (CPU_COUNT(&config->cores))
        pthread_attr_setaffinity_np(&attributes, sizeof(config->cores), &config->cores);
    int rc = -pthread_create(&d->thread, &attributes, driver_main, d);
    pthread_attr_destroy(&attributes);
    if (rc < 0) {
        driver_free(d);
        return error_set(err, rc, "cannot start a thread: %s", strerror(-rc));
    }
    *driver = d;
    return 0;
}

void driver_stop(struct driver *d) {
    atomic_store_explicit(&d->stop, true, memory_order_release); /* with driver_main() */
    pthread_join(d->thread, NULL);
}

void driver_free(struct driver *d) {
    if (d)
        free(d->pauses);
    free(d);
}

int64_t driver_cpu_ns(const struct driver *d) {
    return thread_cpu_ns(d->thread);
}

const struct pause *driver_pauses(const struct driver *d, uint32_t *count) {
    *count = d->pause_count;
    return d->pauses;
}
