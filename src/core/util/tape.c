/* tape.c - reads a ring of entries while it is written. */
#include "core/util/tape.h"

#include <errno.h>
#include <stdlib.h>

int tape_init(struct tape *tape, uint64_t count, size_t words) {
    while (count & (count - 1))
        count &= count - 1;
    *tape = (struct tape){.mask = count - 1};
    if (count > 0)
        tape->slots = calloc(count, words * sizeof(*tape->slots));
    return tape->slots || count == 0 ? 0 : -ENOMEM;
}

void tape_free(struct tape *tape) {
    free((void *)tape->slots);
}

uint64_t tape_read_on(const struct tape *tape, const _Atomic uint64_t *noted, size_t words, uint64_t *next, void *into,
                      uint64_t most) {
    if (!tape->slots)
        return 0;
    uint64_t end = atomic_load_explicit(noted, memory_order_acquire), capacity = tape->mask + 1; /* with tape_note() */
    uint64_t first = end > capacity && end - capacity > *next ? end - capacity : *next;
    uint64_t count = end - first < most ? end - first : most;
    size_t bytes = words * sizeof(uint64_t);
    for (uint64_t i = 0; i < count; i++)
        for (size_t w = 0; w < words; w++) {
            const _Atomic uint64_t *slot = &tape->slots[((first + i) & tape->mask) * words];
            uint64_t word = atomic_load_explicit(&slot[w], memory_order_acquire); /* likewise */
            memcpy((char *)into + i * bytes + w * sizeof(word), &word, sizeof(word));
        }
    *next = first + count;
    /* Entry n is written into its slot while `noted` is still n. So at any time the slot of entry `noted` - capacity
     * may be overwritten already, and those of earlier entries are. */
    uint64_t now = atomic_load_explicit(noted, memory_order_relaxed); /* after the slots: they are acquired */
    uint64_t whole = now + 1 > capacity ? now + 1 - capacity : 0, torn = whole > first ? whole - first : 0;
    if (torn >= count)
        return 0;
    memmove(into, (char *)into + torn * bytes, (count - torn) * bytes);
    return count - torn;
}

uint64_t tape_read(const struct tape *tape, const _Atomic uint64_t *noted, size_t words, void *into, uint64_t most) {
    uint64_t end = atomic_load_explicit(noted, memory_order_acquire), next = end > most ? end - most : 0;
    return tape_read_on(tape, noted, words, &next, into, most);
}
