/* running.h - what an executor counts; the requests that a backend runs just now, and whether its accelerator is in
 * service, in memory that its frontend maps, too. If a signal ends the backend, these requests, and no others, were in
 * its last run.
 *
 * The backend's executor writes the memory, but for what is said below; the frontend's link thread reads it once the
 * backend is lost, any thread of the frontend the counters. The memory outlives the backend. The next backend gets it,
 * and writes there only after it has loaded its models. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/data/timeline.h"

#define RUNNING_MAX    1024      /* requests of a run */
#define RUNNING_KEPT   8192      /* entries of the timeline, a power of two; 256 KiB */
#define RUNNING_STARTS UINT8_MAX /* state of an accelerator whose backend has not joined the scheduler yet */

/* Of an accelerator. */
struct executor_counters {
    _Atomic uint64_t batches, items, requests, failed_batches, expired_batches, lost_batches;
    _Atomic uint64_t absent_batches; /* batches not run, since their model was not resident */
    _Atomic uint64_t busy_ns;        /* time spent on batches */
    _Atomic uint64_t failed;         /* 1: the accelerator has failed by itself, and is not back; 0: it has not */
};

struct running {
    uint32_t parent;       /* process id of the frontend, which sets it before the backend starts */
    char token[64];        /* token by which the frontend lets the backend in; set before the backend starts */
    _Atomic bool drained;  /* order of clients: the accelerator leaves, in later backends, too */
    _Atomic uint8_t state; /* enum accelerator_state (sched/threads/wiring.h), or RUNNING_STARTS */
    struct executor_counters counters;
    _Atomic bool profiled; /* the frontend measures no model of the start any more: one without a profile has none */
    _Atomic bool prepared; /* some backend has prepared the models of the start: they serve or are set aside */
    _Atomic uint64_t incarnation;  /* incarnation of the backend (cluster/peer/hello.h); 0: none has begun to serve */
    _Atomic uint32_t count;        /* number of requests in the run; 0: nothing runs */
    uint64_t handles[RUNNING_MAX]; /* [count] handles of the requests in the run */
    struct timeline_head timeline;
    _Atomic uint64_t timeline_slots[RUNNING_KEPT * TIMELINE_WORDS];
};

static inline struct timeline running_timeline(struct running *running) {
    return (struct timeline){.head = &running->timeline, .tape = {running->timeline_slots, RUNNING_KEPT - 1}};
}

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
    for (uint32_t i = 0; i < count && i < RUNNING_MAX; i++) /* the backend may have written any number */
        if (running->handles[i] == handle)
            return true;
    return false;
}
