/* recorder.c - reads a ring of requests while it is written. */
#include "core/data/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int recorder_init(struct recorder *r, uint64_t bytes) {
    uint64_t count = bytes / sizeof(struct recorder_slot);
    *r = (struct recorder){.slots = NULL};
    if (count == 0)
        return 0;
    while (count & (count - 1))
        count &= count - 1;
    r->mask = count - 1;
    r->slots = calloc(count, sizeof(*r->slots));
    return r->slots ? 0 : -ENOMEM;
}

void recorder_free(struct recorder *r) {
    free(r->slots);
    r->slots = NULL;
}

/* The time nearest to `now_ns` that has these low bits. */
static int64_t time_of(uint64_t bits, int64_t now_ns) {
    uint64_t half = 1ULL << (RECORDER_TIME_BITS - 1), mask = 2 * half - 1;
    uint64_t past = ((uint64_t)now_ns - bits) & mask;
    return past < half ? now_ns - (int64_t)past : now_ns + (int64_t)(mask + 1 - past);
}

uint64_t recorder_read(const struct recorder *r, int64_t now_ns, struct recorded_request *into, uint64_t most) {
    if (!r->slots)
        return 0;
    uint64_t end = atomic_load_explicit(&r->noted, memory_order_acquire), capacity = r->mask + 1;
    uint64_t held = end < capacity ? end : capacity, count = held < most ? held : most, first = end - count;
    for (uint64_t i = 0; i < count; i++) {
        const struct recorder_slot *slot = &r->slots[(first + i) & r->mask];
        uint64_t when = atomic_load_explicit(&slot->when, memory_order_acquire); /* both: with recorder_note() */
        uint64_t what = atomic_load_explicit(&slot->what, memory_order_acquire);
        into[i] = (struct recorded_request){
            .arrival_ns = time_of(when >> 16, now_ns),
            .model = (uint32_t)(what >> 40),
            .left_us = (uint32_t)(what >> 8),
            .items = (uint16_t)(when & RECORDER_ITEMS_MOST),
            .priority = (uint8_t)what,
            .hurried = when & RECORDER_HURRIED,
        };
    }
    /* Request n is written into its slot while `noted` is still n. So at any time the slot of request `noted` -
     * capacity may be overwritten already, and those of earlier requests are. */
    uint64_t noted = atomic_load_explicit(&r->noted, memory_order_relaxed); /* after the slots: they are acquired */
    uint64_t whole = noted + 1 > capacity ? noted + 1 - capacity : 0, torn = whole > first ? whole - first : 0;
    if (torn == 0)
        return count;
    if (torn >= count)
        return 0;
    memmove(into, into + torn, (count - torn) * sizeof(*into));
    return count - torn;
}

uint64_t recorder_overwritten(const struct recorder *r) {
    uint64_t noted = counter_get(&r->noted);
    return r->slots && noted > r->mask + 1 ? noted - r->mask - 1 : 0;
}
