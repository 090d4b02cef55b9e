/* heap.c - indexed 4-ary min-heap. A 4-ary heap has half the levels of a binary heap, and the four children of an entry
 * lie next to each other, in one cache line or two. */
#include "core/util/heap.h"

#include "core/util/assert.h"

/* The comparison has no branch: in a sift a branch would be predicted wrong every other time. */
static inline bool entry_less(struct heap_entry a, struct heap_entry b) {
    return (a.key < b.key) | ((a.key == b.key) & (a.item < b.item));
}

static void heap_place(struct heap *heap, uint32_t at, struct heap_entry entry) {
    heap->entries[at] = entry;
    heap->position[entry.item] = at;
}

static void heap_sift_up(struct heap *heap, uint32_t at, struct heap_entry entry) {
    while (at > 0) {
        uint32_t parent = (at - 1) / 4;
        if (!entry_less(entry, heap->entries[parent]))
            break;
        heap_place(heap, at, heap->entries[parent]);
        at = parent;
    }
    heap_place(heap, at, entry);
}

static void heap_sift_down(struct heap *heap, uint32_t at, struct heap_entry entry) {
    for (;;) {
        uint32_t first = at * 4 + 1;
        if (first >= heap->count)
            break;
        uint32_t last = first + 4 < heap->count ? first + 4 : heap->count, least = first;
        for (uint32_t child = first + 1; child < last; child++)
            least += (child - least) * entry_less(heap->entries[child], heap->entries[least]);
        if (!entry_less(heap->entries[least], entry))
            break;
        heap_place(heap, at, heap->entries[least]);
        at = least;
    }
    heap_place(heap, at, entry);
}

void heap_init(struct heap *heap, struct heap_entry *entries, uint32_t *position, uint32_t capacity) {
    *heap = (struct heap){.entries = entries, .position = position, .capacity = capacity};
    for (uint32_t i = 0; i < capacity; i++)
        position[i] = HEAP_ABSENT;
}

void heap_take(struct arena *arena, struct heap *heap, uint32_t capacity) {
    struct heap_entry *entries = arena_take(arena, capacity * sizeof(*entries));
    uint32_t *position = arena_take(arena, capacity * sizeof(*position));
    if (arena->base)
        heap_init(heap, entries, position, capacity);
}

void heap_set(struct heap *heap, uint32_t item, int64_t key) {
    CHECK_LT(item, heap->capacity);
    struct heap_entry entry = {.key = key, .item = item};
    uint32_t at = heap->position[item];
    if (at == HEAP_ABSENT) {
        heap_sift_up(heap, heap->count++, entry);
    } else if (entry_less(entry, heap->entries[at])) {
        heap_sift_up(heap, at, entry);
    } else {
        heap_sift_down(heap, at, entry);
    }
}

void heap_remove(struct heap *heap, uint32_t item) {
    CHECK_LT(item, heap->capacity);
    uint32_t at = heap->position[item];
    if (at == HEAP_ABSENT)
        return;
    heap->position[item] = HEAP_ABSENT;
    struct heap_entry last = heap->entries[--heap->count];
    if (at == heap->count)
        return;
    if (at > 0 && entry_less(last, heap->entries[(at - 1) / 4]))
        heap_sift_up(heap, at, last);
    else
        heap_sift_down(heap, at, last);
}

const struct heap_entry *heap_look_next(const struct heap *heap, struct heap_look *look, int64_t most) {
    while (look->count) {
        uint32_t at = look->next[look->count - 1]++;
        look->count -= at % 4 == 0; /* it is the last of its parent's children, or the top */
        if (at >= heap->count || heap->entries[at].key > most)
            continue;
        if (at * 4 + 1 < heap->count)
            look->next[look->count++] = at * 4 + 1;
        return &heap->entries[at];
    }
    return NULL;
}
