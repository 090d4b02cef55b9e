/* recorder.h - the last requests that a scheduling thread was handed: a ring in which the newest take the place of the
 * oldest, 16 bytes each.
 *
 * One thread notes, any thread reads (core/util/tape.h). */
#pragma once

#include "core/data/messages.h"
#include "core/util/tape.h"

#define RECORDER_TIME_BITS   48        /* bits that are kept of the arrival's nanoseconds; they repeat after 78 hours */
#define RECORDER_ITEMS_MOST  INT16_MAX /* greatest number of items that is noted */
#define RECORDER_HURRIED     (RECORDER_ITEMS_MOST + 1u) /* bit beside the items */
#define RECORDER_MODELS_MOST (1u << 24)                 /* numbers of models that can be told apart */
/* Slots, two cache lines, by which the prefetch is ahead of writing: no cache has them any more. */
#define RECORDER_AHEAD 8

/* A request's two words. `when`: arrival, RECORDER_HURRIED, items. `what`: model, microseconds from arrival to
 * deadline, priority. A request whose inputs are promised arrives at the time of the promise: no scheduler could run it
 * earlier.
 */
struct recorder_entry {
    uint64_t when, what;
};
#define RECORDER_WORDS (sizeof(struct recorder_entry) / sizeof(uint64_t))

struct recorder {
    struct tape tape;       /* without slots nothing is recorded */
    _Atomic uint64_t noted; /* number of requests that were ever noted */
};

/* A request as recorder_read() gives it. */
struct recorded_request {
    int64_t arrival_ns;
    uint32_t model;   /* number of the served model */
    uint32_t left_us; /* microseconds from the arrival to the deadline that the scheduler was told */
    uint16_t items;
    uint8_t priority; /* priority of the request; PRIORITY_BEST_EFFORT: none, best effort */
    bool hurried;     /* preparing the inputs was to take more than half of the time to the deadline */
};

/* Makes room for as many requests as fit into `bytes`, rounded down to a power of two. If not even one fits, nothing is
 * recorded. Memory that was not written yet costs nothing. 0 or -ENOMEM. */
int recorder_init(struct recorder *recorder, uint64_t bytes);
void recorder_free(struct recorder *recorder);

/* Notes a request that has arrived. The owner's thread. */
static inline void recorder_note(struct recorder *recorder, const struct request_message *message) {
    if (!recorder->tape.slots)
        return;
    uint64_t items = message->items < RECORDER_ITEMS_MOST ? message->items : RECORDER_ITEMS_MOST;
    int64_t arrival_ns = message->ready_ns > message->arrival_ns ? message->ready_ns : message->arrival_ns;
    int64_t left_ns = message->deadline_ns > arrival_ns ? message->deadline_ns - arrival_ns : 0;
    int64_t left_us = (left_ns + NS_PER_US / 2) / NS_PER_US;
    if (arrival_ns - message->arrival_ns > left_ns)
        items |= RECORDER_HURRIED;
    if (left_us > UINT32_MAX)
        left_us = UINT32_MAX;
    const struct recorder_entry entry = {
        .when = (uint64_t)arrival_ns << 16 | items,
        .what = (uint64_t)message->place.n << 40 | (uint64_t)left_us << 8 | message->priority,
    };
    tape_note(&recorder->tape, &recorder->noted, &entry, RECORDER_WORDS);
    uint64_t ahead = counter_get(&recorder->noted) + RECORDER_AHEAD - 1;
    __builtin_prefetch((const void *)&recorder->tape.slots[(ahead & recorder->tape.mask) * RECORDER_WORDS], 1);
}

/* Reads the newest `most` requests, in the order in which they were noted, which is nearly that of their arrivals.
 * Returns how many there are. `now_ns` is the present time: of an arrival only the low bits are kept, and they stand
 * for the time nearest to `now_ns`. Any thread. */
uint64_t recorder_read(const struct recorder *recorder, int64_t now_ns, struct recorded_request *into, uint64_t most);
/* The number of noted requests that were overwritten. */
uint64_t recorder_overwritten(const struct recorder *recorder);
