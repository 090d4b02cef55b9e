/* readiness.h - whether this process can serve, as clients see it. Any thread reads. */
#pragma once

#include "model/repository/start_progress.h"
#include "server/threads/frontends.h"

struct readiness {
    _Atomic bool able;     /* whether an accelerator is in service that runs a model */
    _Atomic bool serving;  /* `start.over` and `able`: what clients see as readiness */
    _Atomic bool draining; /* whether the server is being stopped */
    _Atomic bool failed;   /* whether all accelerators of this process have failed by themselves: it is not live */
    struct start_progress start; /* the repository thread writes it */
    const struct frontends *frontends;
};

/* Sets `serving` by `start.over` and `able`, after one of them was set, and wakes the frontends if it changed. */
static inline void readiness_update(struct readiness *r) {
    bool serving = atomic_load_explicit(&r->start.over, memory_order_acquire) &&
                   atomic_load_explicit(&r->able, memory_order_acquire); /* lone flags */

    /* with the frontends' loads; if two threads compute different values at once, the next call corrects it */
    if (atomic_exchange_explicit(&r->serving, serving, memory_order_acq_rel) != serving)
        frontends_wake(r->frontends); /* clients may watch readiness */
}
static inline void readiness_begin(struct readiness *r) {
    atomic_store_explicit(&r->start.over, true, memory_order_release); /* with server_is_ready() */
    readiness_update(r);
}
static inline void readiness_set_able(struct readiness *r, bool able) {
    atomic_store_explicit(&r->able, able, memory_order_release); /* with readiness_update() */
    readiness_update(r);
}
