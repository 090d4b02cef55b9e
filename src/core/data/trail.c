/* trail.c - notes trails, and reads them while others are noted. */
#include "core/data/trail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/counter.h"

const char *trail_state_name(uint8_t state) {
    static const char *const names[TRAIL_STATES] = {"refused", "failed", "late", "in_time"};
    return names[state];
}

int trails_init(struct trails *trails, uint32_t keep, uint32_t every) {
    uint64_t count = keep;
    *trails = (struct trails){.every = keep ? every : 0};
    while (count & (count - 1))
        count &= count - 1;
    for (int s = 0; s < TRAIL_RINGS && count; s++) {
        trails->of[s].mask = count - 1;
        trails->of[s].slots = calloc(count, sizeof(*trails->of[s].slots));
        if (!trails->of[s].slots)
            return -ENOMEM;
    }
    return 0;
}

void trails_free(struct trails *trails) {
    for (int s = 0; s < TRAIL_RINGS; s++)
        free(trails->of[s].slots);
}

void trails_note(struct trails *trails, unsigned to, const struct trail *trail) {
    struct trail_ring *ring = &trails->of[to];
    if (!ring->slots)
        return;
    uint64_t words[TRAIL_WORDS], n = counter_get(&ring->noted);
    _Atomic uint64_t *slot = ring->slots[n & ring->mask];
    memcpy(words, trail, sizeof(words));
    /* release: whoever sees a word of trail n sees that the trails before n have been noted, as in recorder.h */
    for (unsigned i = 0; i < TRAIL_WORDS; i++)
        atomic_store_explicit(&slot[i], words[i], memory_order_release);
    atomic_store_explicit(&ring->noted, n + 1, memory_order_release); /* with trails_read() */
}

uint64_t trails_read_on(const struct trails *trails, unsigned from, uint64_t *next, struct trail *into, uint64_t most) {
    const struct trail_ring *ring = &trails->of[from];
    if (!ring->slots)
        return 0;
    uint64_t end = atomic_load_explicit(&ring->noted, memory_order_acquire), capacity = ring->mask + 1;
    uint64_t first = end > capacity && end - capacity > *next ? end - capacity : *next;
    uint64_t count = end - first < most ? end - first : most;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t words[TRAIL_WORDS];
        for (unsigned w = 0; w < TRAIL_WORDS; w++) /* acquire: with trails_note() */
            words[w] = atomic_load_explicit(&ring->slots[(first + i) & ring->mask][w], memory_order_acquire);
        memcpy(&into[i], words, sizeof(words));
    }
    *next = first + count;
    /* Trail n is written into its slot while `noted` is still n. So at any time the slot of trail `noted` - capacity
     * may be overwritten already, and those of earlier trails are. */
    uint64_t noted = atomic_load_explicit(&ring->noted, memory_order_relaxed); /* after the slots: they are acquired */
    uint64_t whole = noted + 1 > capacity ? noted + 1 - capacity : 0, torn = whole > first ? whole - first : 0;
    if (torn >= count)
        return 0;
    memmove(into, into + torn, (count - torn) * sizeof(*into));
    return count - torn;
}

uint64_t trails_read(const struct trails *trails, unsigned ring, struct trail *into, uint64_t most) {
    uint64_t noted = atomic_load_explicit(&trails->of[ring].noted, memory_order_acquire);
    uint64_t next = noted > most ? noted - most : 0;
    return trails_read_on(trails, ring, &next, into, most);
}

uint64_t trails_noted(const struct trails *trails, unsigned ring) {
    return counter_get(&trails->of[ring].noted);
}
