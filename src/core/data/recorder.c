/* recorder.c - reads what was recorded. */
#include "core/data/recorder.h"

int recorder_init(struct recorder *r, uint64_t bytes) {
    *r = (struct recorder){.noted = 0};
    return tape_init(&r->tape, bytes / sizeof(struct recorder_entry), RECORDER_WORDS);
}

void recorder_free(struct recorder *r) {
    tape_free(&r->tape);
}

/* The time nearest to `now_ns` that has these low bits. */
static int64_t time_of(uint64_t bits, int64_t now_ns) {
    uint64_t half = 1ULL << (RECORDER_TIME_BITS - 1), mask = 2 * half - 1;
    uint64_t past = ((uint64_t)now_ns - bits) & mask;
    return past < half ? now_ns - (int64_t)past : now_ns + (int64_t)(mask + 1 - past);
}

uint64_t recorder_read(const struct recorder *r, int64_t now_ns, struct recorded_request *into, uint64_t most) {
    /* the entries come to the end of the same memory, whence each makes room for the next request */
    char *entries = (char *)into + most * (sizeof(*into) - sizeof(struct recorder_entry));
    uint64_t count = tape_read(&r->tape, &r->noted, RECORDER_WORDS, entries, most);
    for (uint64_t i = 0; i < count; i++) {
        struct recorder_entry entry;
        memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
        into[i] = (struct recorded_request){
            .arrival_ns = time_of(entry.when >> 16, now_ns),
            .model = (uint32_t)(entry.what >> 40),
            .left_us = (uint32_t)(entry.what >> 8),
            .items = (uint16_t)(entry.when & RECORDER_ITEMS_MOST),
            .priority = (uint8_t)entry.what,
            .hurried = entry.when & RECORDER_HURRIED,
        };
    }
    return count;
}

uint64_t recorder_overwritten(const struct recorder *r) {
    uint64_t noted = counter_get(&r->noted);
    return r->tape.slots && noted > r->tape.mask + 1 ? noted - r->tape.mask - 1 : 0;
}
_Static_assert(sizeof(struct recorded_request) > sizeof(struct recorder_entry), "recorder_read() relies on it");
