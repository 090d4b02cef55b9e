/* frontend_loop.h - what the threads of all frontends have in common: where they wait, and how they are started, woken
 * and ended. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/container.h"
#include "base/error.h"
#include "base/histogram.h"
#include "net/frontend.h"
#include "request/inbox.h"
#include "v2/v2.h"

struct frontend_loop {
    int epoll_fd; /* waits for the port, the inbox and what the protocol adds */
    pthread_t thread;
    const struct model_index *models; /* as of this turn */
    /* read by other threads */
    _Atomic(const struct model_index *) models_seen;
    struct histogram waited_ns; /* bytes, from their arrival until they were read */
    /* written by other threads */
    _Alignas(CACHE_LINE) _Atomic bool quiesce_wanted, stop_wanted;
    struct inbox inbox;
};

/* ---- for who starts and stops the frontend ---- */

/* Opens it; `port_mark` and `wake_mark` are what epoll gives back. frontend_loop_close() is due in either case. */
int frontend_loop_open(struct frontend_loop *loop, const struct frontend_config *config, void *port_mark,
                       void *wake_mark, struct sy_error *err);
void frontend_loop_close(struct frontend_loop *loop);
int frontend_loop_start(struct frontend_loop *loop, void *(*run)(void *context), void *context, struct sy_error *err);
/* Returns at once. */
void frontend_loop_quiesce(struct frontend_loop *loop);
/* Waits for the end of its thread. */
void frontend_loop_stop(struct frontend_loop *loop);
/* The models that it uses: it does not look at any that it used before. Any thread. */
static inline const struct model_index *frontend_loop_models(const struct frontend_loop *loop) {
    return atomic_load_explicit(&loop->models_seen, memory_order_acquire); /* with frontend_loop_turn() */
}

/* ---- for its thread ---- */

/* 0 or -errno. */
int frontend_loop_watch(struct frontend_loop *loop, int fd, void *mark);

/* A turn begins, and with it nothing of the models of the last one is in use. */
static inline void frontend_loop_turn(struct frontend_loop *loop, const struct model_publication *published) {
    /* acquire: with who publishes them */
    const struct model_index *now = atomic_load_explicit(&published->now, memory_order_acquire);
    if (now == loop->models)
        return;
    loop->models = now;
    atomic_store_explicit(&loop->models_seen, now, memory_order_release); /* with frontend_loop_models() */
}

static inline bool frontend_loop_quiesces(const struct frontend_loop *loop) {
    return atomic_load_explicit(&loop->quiesce_wanted, memory_order_acquire); /* with who asks */
}

static inline bool frontend_loop_ends(const struct frontend_loop *loop) {
    return atomic_load_explicit(&loop->stop_wanted, memory_order_acquire); /* with who asks */
}
