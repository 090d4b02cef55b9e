/* timeline.h - what an accelerator did lately, in numbers: a ring of its last batches and loads, and what it runs now.
 *
 * The accelerator's executor notes, any thread reads, in another process, too (running.h). A batch costs six stores
 * into two cache lines. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/log_linear.h"
#include "core/util/tape.h"
#include "core/util/time.h"

#define TIMELINE_ENTRY_BYTES 32
#define TIMELINE_WORDS       (TIMELINE_ENTRY_BYTES / sizeof(uint64_t))
#define TIMELINE_MOST        65536 /* entries of an accelerator: five minutes of batches of 5 ms */

enum timeline_kind {
    TIMELINE_RUN,
    TIMELINE_LOAD,
    TIMELINE_UNLOAD,
};

/* How a batch ended. Values of any other number may be read from another process's memory. */
enum timeline_end {
    TIMELINE_RAN,
    TIMELINE_EXPIRED, /* it was too late to start */
    TIMELINE_FAILED,
    TIMELINE_ABSENT, /* its model was not resident */
    TIMELINE_LOST,   /* the accelerator had failed, or no request was ready */
};

struct timeline_entry {
    int64_t start_ns;      /* CLOCK_MONOTONIC */
    uint32_t took_us;      /* time to the end */
    uint32_t predicted_us; /* RUN: run time by the table in force at the seal; 0: not known */
    uint32_t model_key;    /* low bits of served_model_key(); 0: not known */
    uint16_t items;        /* RUN: items of the batch */
    uint8_t kind;          /* enum timeline_kind */
    uint8_t end;           /* RUN: enum timeline_end */
    uint32_t came_us;      /* RUN: time before the start for which its first request waited; 0: not known */
    uint32_t ready_us; /* RUN: time before the start for which it waited for no company; UINT32_MAX: it never waited for
                          company */
};
_Static_assert(sizeof(struct timeline_entry) == TIMELINE_ENTRY_BYTES, "half a cache line");

/* Written by the executor's thread, read by anyone. */
struct timeline_head {
    _Alignas(64) _Atomic uint64_t noted; /* number of entries that were ever noted */
    _Atomic uint64_t running;            /* batch that runs: model_key << 32 | items, and TIMELINE_BUSY; 0: none */
    _Atomic int64_t since_ns;            /* time at which it began */
    _Atomic uint64_t models, bytes;      /* where memory is limited: models loaded, and what they take */
};
#define TIMELINE_BUSY (1u << 31)

struct timeline {
    struct timeline_head *head; /* NULL: nothing is kept */
    struct tape tape;
};

/* The timelines of all accelerators of a process. */
struct timelines {
    struct timeline *of; /* [count] */
    struct timeline_head *heads;
    _Atomic uint64_t *slots; /* those of all tapes */
    uint32_t count;
};

/* Divides `bytes` among `count` accelerators: a power of two of entries each, TIMELINE_MOST at most. If not even two
 * fit for each, nothing is kept. Memory that was not written yet costs nothing. 0 or -ENOMEM; free it in either case.
 */
int timelines_init(struct timelines *timelines, uint32_t count, uint64_t bytes);
void timelines_free(struct timelines *timelines);

/* ---- the executor's thread ---- */

/* A batch begins to run. NULL is allowed. */
static inline void timeline_begin(struct timeline *timeline, uint32_t model_key, uint32_t items, int64_t now_ns) {
    if (!timeline || !timeline->head)
        return;
    atomic_store_explicit(&timeline->head->since_ns, now_ns, memory_order_relaxed); /* statistics */
    atomic_store_explicit(&timeline->head->running, (uint64_t)model_key << 32 | TIMELINE_BUSY | items,
                          memory_order_release); /* with timeline_running() */
}

/* Notes what is over. A batch no longer runs. NULL is allowed. */
void timeline_note(struct timeline *timeline, const struct timeline_entry *entry);

/* The memory of the accelerator holds so many models, which take so many bytes. NULL is allowed. */
static inline void timeline_memory(struct timeline *timeline, uint64_t models, uint64_t bytes) {
    if (!timeline || !timeline->head)
        return;
    atomic_store_explicit(&timeline->head->models, models, memory_order_relaxed); /* gauges */
    atomic_store_explicit(&timeline->head->bytes, bytes, memory_order_relaxed);
}

/* ---- any thread ---- */

/* Reads the newest entries, at most `most`, the oldest of them first. Returns how many there are. */
uint64_t timeline_read(const struct timeline *timeline, struct timeline_entry *into, uint64_t most);
/* What runs now. False: nothing does. */
bool timeline_running(const struct timeline *timeline, uint32_t *model_key, uint32_t *items, int64_t *since_ns);

/* ---- why an accelerator was idle (pure) ---- */

enum idle_why {
    IDLE_NOTHING, /* nothing that it can run was queued */
    IDLE_COMPANY, /* what was queued waited for further requests */
    IDLE_ABSENT,  /* the model was being loaded */
    IDLE_HANDED,  /* the batch was chosen, handed over, and its inputs were gathered */
    IDLE_UNKNOWN,
    IDLE_WHYS,
};

#define IDLE_LEAST_NS (20 * NS_PER_US) /* shorter idle times are not worth showing */

/* "nothing queued", "waits for company", ... */
const char *idle_why_name(enum idle_why why);

struct idle_part {
    enum idle_why why;
    int64_t from_ns, until_ns;
};

/* The last loads of an accelerator, among which a batch's own is looked for. Zeroed at first. */
#define TIMELINE_LOADS 8
struct timeline_loads {
    struct timeline_entry of[TIMELINE_LOADS];
    uint32_t count;
};

void timeline_loads_note(struct timeline_loads *loads, const struct timeline_entry *load);
/* The last load of a model; NULL: it is not among them. */
const struct timeline_entry *timeline_loads_find(const struct timeline_loads *loads, uint32_t model_key);

/* Divides the time from `from_ns` to the start of the batch that ended it, by what that batch waited for. `load`: the
 * last load of the batch's model before; NULL: none. Returns the number of parts, IDLE_WHYS at most. */
uint32_t timeline_idle(int64_t from_ns, const struct timeline_entry *batch, const struct timeline_entry *load,
                       struct idle_part *parts);

/* ---- a time in a byte, for messages ---- */

#define WAIT_BITS 3 /* 8 steps per power of two: a step is an eighth of the time */

/* 0: not known. */
static inline uint8_t wait_code(uint32_t us) {
    return (uint8_t)(1 + log_linear_bucket(us, WAIT_BITS));
}
_Static_assert(LOG_LINEAR_BUCKETS(WAIT_BITS, 32) < UINT8_MAX, "every time has a code");

/* The least time of a code, in microseconds. */
static inline uint32_t wait_of(uint8_t code) {
    uint64_t width, us = code > 0 ? log_linear_from(code - 1u, WAIT_BITS, &width) : 0;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}
