/* server_history.c - keeps the counts of the last looks in a circle. */
#include "server/load/server_history.h"

#include <errno.h>
#include <stdlib.h>

#include "core/system/clock.h"

/* A circle of looks. The thread that looks writes, any thread reads. */
struct server_history {
    struct server_load load; /* counts up to the last look; the writer's */
    const struct advice *wanted;
    pthread_mutex_t lock; /* lock of `looks` and `count` */
    struct recording_look looks[RECORDING_LOOKS_MAX];
    uint64_t count; /* number of looks since the start */
};

int server_history_create(struct server_history **history, const struct scheduling *scheduling,
                          struct model_list *models, const struct advice *wanted) {
    struct server_history *h = *history = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    h->wanted = wanted;
    pthread_mutex_init(&h->lock, NULL);
    return server_load_init(&h->load, scheduling, models);
}

void server_history_free(struct server_history *h) {
    if (!h)
        return;
    server_load_free(&h->load);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

void server_history_look(struct server_history *h) {
    if (!h)
        return;
    int64_t now_ns = clock_now_ns(), before_ns = h->load.looked_ns;
    struct advisor_load seen;
    server_load_since(&h->load, now_ns, &seen);
    const struct autoscale_seen load = seen.all;
    struct recording_look look = {.at_ns = now_ns, .wanted = advice_get(h->wanted), .present = load.present};
    pthread_mutex_lock(&h->lock);
    if (h->count) { /* the first look stays 0: its counts are of all time before it */
        const struct recording_look *last = &h->looks[(h->count - 1) % RECORDING_LOOKS_MAX];
        look.requests = last->requests + load.requests;
        look.bad = last->bad + load.bad;
        look.needed_ns = last->needed_ns + load.needed * (double)(now_ns - before_ns);
    }
    h->looks[h->count++ % RECORDING_LOOKS_MAX] = look;
    pthread_mutex_unlock(&h->lock);
}

struct recording_look *server_history_read(struct server_history *h, uint32_t *count) {
    struct recording_look *looks = calloc(RECORDING_LOOKS_MAX, sizeof(*looks));
    if (!looks)
        return NULL;
    pthread_mutex_lock(&h->lock);
    uint64_t held = h->count < RECORDING_LOOKS_MAX ? h->count : RECORDING_LOOKS_MAX;
    for (uint64_t i = 0; i < held; i++)
        looks[i] = h->looks[(h->count - held + i) % RECORDING_LOOKS_MAX];
    pthread_mutex_unlock(&h->lock);
    *count = (uint32_t)held;
    return looks;
}
