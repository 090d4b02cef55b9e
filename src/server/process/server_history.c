/* server_history.c - the server's counts of the last minutes, second by second, for comparison with replayed
 * recordings. */
#include <errno.h>
#include <stdlib.h>

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "server/process/recording.h"
#include "server/process/server_state.h"

/* A circle of looks. The thread that calls server_look() writes, any thread reads. */
struct server_history {
    struct server_load load; /* counts up to the last look; the writer's */
    pthread_mutex_t lock;    /* lock of `looks` and `count` */
    struct recording_look looks[RECORDING_LOOKS_MAX];
    uint64_t count; /* number of looks since the start */
};

int server_history_init(struct server *s) {
    struct server_history *h = s->history = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    pthread_mutex_init(&h->lock, NULL);
    return server_load_init(s, &h->load);
}

void server_history_free(struct server *s) {
    if (!s->history)
        return;
    server_load_free(&s->history->load);
    pthread_mutex_destroy(&s->history->lock);
    free(s->history);
}

void server_look(struct server *s) {
    struct server_history *h = s->history;
    if (!h)
        return;
    int64_t now_ns = clock_now_ns(), before_ns = h->load.looked_ns;
    struct advisor_load seen;
    server_load_since(s, &h->load, now_ns, &seen);
    const struct autoscale_seen load = seen.all;
    struct recording_look look = {.at_ns = now_ns, .wanted = advice_get(&s->advice), .present = load.present};
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

struct recording_look *server_history_read(struct server *s, uint32_t *count) {
    struct server_history *h = s->history;
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
