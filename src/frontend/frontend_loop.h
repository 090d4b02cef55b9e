/* frontend_loop.h - what the threads of all frontends have in common: where they wait, and how they are started, woken
 * and ended. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/container.h"
#include "base/error.h"
#include "frontend/frontend.h"

struct frontend_loop {
    int epoll_fd; /* waits for the port, `wake_fd` and what the protocol adds */
    int wake_fd;  /* somebody calls from outside */
    pthread_t thread;
    /* written by other threads */
    _Alignas(CACHE_LINE) _Atomic bool quiesce_wanted, stop_wanted;
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

/* ---- for its thread ---- */

/* 0 or -errno. */
int frontend_loop_watch(struct frontend_loop *loop, int fd, void *mark);
/* After `wake_mark`. */
void frontend_loop_woken(struct frontend_loop *loop);

static inline bool frontend_loop_quiesces(const struct frontend_loop *loop) {
    return atomic_load_explicit(&loop->quiesce_wanted, memory_order_acquire); /* with who asks */
}

static inline bool frontend_loop_ends(const struct frontend_loop *loop) {
    return atomic_load_explicit(&loop->stop_wanted, memory_order_acquire); /* with who asks */
}
