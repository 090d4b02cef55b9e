/* running.h - what an executor counts; and the requests that a backend runs just now, in memory that its frontend maps,
 * too: where the backend ends by a signal, these were in its last run, and no others.
 *
 * Written by the backend's executor; read by the frontend's link thread once the backend is lost, the counters by any
 * thread. The memory outlives the backend, and is the next one's, which has to load its models before it writes there.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define RUNNING_MAX 1024 /* requests of a batch */

/* Of an accelerator. */
struct executor_counters {
    _Atomic uint64_t batches, items, requests, failed_batches, expired_batches, lost_batches;
    _Atomic uint64_t absent_batches; /* batches not run, since their model was not resident */
    _Atomic uint64_t busy_ns;        /* time spent on batches */
};

struct running {
    uint32_t parent;              /* the frontend's process, from the start; */
    char token[64];               /* by which it lets the backend in */
    char type[64];                /* of the accelerator */
    _Atomic uint64_t incarnation; /* of the backend (cluster/peer/hello.h); 0: none has begun to serve */
    struct executor_counters counters;
    _Atomic uint32_t count; /* 0: nothing runs */
    uint64_t handles[RUNNING_MAX];
};

static inline void running_begin(struct running *running, const uint64_t *handles, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        running->handles[i] = handles[i];
    atomic_store_explicit(&running->count, count, memory_order_release); /* with running_has() */
}

static inline void running_end(struct running *running) {
    atomic_store_explicit(&running->count, 0, memory_order_release); /* with running_has() */
}

static inline bool running_has(const struct running *running, uint64_t handle) {
    uint32_t count = atomic_load_explicit(&running->count, memory_order_acquire);
    for (uint32_t i = 0; i < count && i < RUNNING_MAX; i++) /* a backend could write anything */
        if (running->handles[i] == handle)
            return true;
    return false;
}
