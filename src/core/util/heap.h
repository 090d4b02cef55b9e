/* heap.h - indexed 4-ary min-heap: small integers (items) ordered by an int64 key, equal keys by item. Any item can be
 * removed or get another key.
 *
 * Items are 0..capacity-1; each is in the heap at most once. Memory is the caller's. Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/arena.h"

#define HEAP_ABSENT UINT32_MAX

struct heap_entry {
    int64_t key;
    uint32_t item;
};

struct heap {
    struct heap_entry *entries; /* [capacity] */
    uint32_t *position; /* [capacity] index of each item in `entries`; HEAP_ABSENT: the item is not in the heap */
    uint32_t count, capacity;
};

/* Takes two arrays of `capacity`, which must outlive the heap. */
void heap_init(struct heap *heap, struct heap_entry *entries, uint32_t *position, uint32_t capacity);
/* As heap_init(), with arrays from an arena. While the arena only counts, the heap is not touched. */
void heap_take(struct arena *arena, struct heap *heap, uint32_t capacity);
/* Inserts the item or moves it to its new key. Equal keys come out in item order. */
void heap_set(struct heap *heap, uint32_t item, int64_t key);
/* Removes the item if it is there. */
void heap_remove(struct heap *heap, uint32_t item);

static inline bool heap_empty(const struct heap *heap) {
    return heap->count == 0;
}

static inline bool heap_contains(const struct heap *heap, uint32_t item) {
    return heap->position[item] != HEAP_ABSENT;
}

/* The least entry; the heap must not be empty. */
static inline struct heap_entry heap_top(const struct heap *heap) {
    return heap->entries[0];
}

/* A look through entries, in no order. The heap stays as it is meanwhile. */
struct heap_look {
    uint32_t next[17], count; /* next entry of each level: those with one parent lie next to each other */
};

static inline struct heap_look heap_look_begin(void) {
    return (struct heap_look){.next = {0}, .count = 1};
}

/* The next entry whose key is at most `most`, which may become less from one call to the next; NULL: there is none.
 * Entries that are below one with a larger key take no time. */
const struct heap_entry *heap_look_next(const struct heap *heap, struct heap_look *look, int64_t most);
