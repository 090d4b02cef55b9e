/* tape.h - the last entries that a thread has noted, all of one size: a ring in which the newest take the place of the
 * oldest.
 *
 * One thread notes, any thread reads, in another process, too. Neither waits for the other: who reads leaves out what
 * may have been overwritten meanwhile. An entry is a struct of `words` times 8 bytes. */
#pragma once

#include <string.h>

#include "core/util/counter.h"

struct tape {
    _Atomic uint64_t *slots; /* [mask + 1][words]; NULL: nothing is kept */
    uint64_t mask;           /* number of slots, a power of two, less 1 */
};

/* Makes room for `count` entries, rounded down to a power of two; 0: nothing is kept. Memory that was not written yet
 * costs nothing. 0 or -ENOMEM. */
int tape_init(struct tape *tape, uint64_t count, size_t words);
void tape_free(struct tape *tape);

/* Notes an entry, and counts it in `noted`, which begins as 0. The owner's thread. The stores are releases: whoever
 * sees a word of entry n sees that the entries before n have been noted. */
static inline void tape_note(const struct tape *tape, _Atomic uint64_t *noted, const void *entry, size_t words) {
    if (!tape->slots)
        return;
    uint64_t n = counter_get(noted);
    _Atomic uint64_t *slot = &tape->slots[(n & tape->mask) * words];
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, (const char *)entry + i * sizeof(word), sizeof(word));
        atomic_store_explicit(&slot[i], word, memory_order_release); /* with tape_read_on() */
    }
    atomic_store_explicit(noted, n + 1, memory_order_release); /* likewise */
}

/* Reads the oldest entries, at most `most`, from number *next on: those that were not overwritten yet. Returns how many
 * there are; *next becomes the number behind the last of them. Any thread. */
uint64_t tape_read_on(const struct tape *tape, const _Atomic uint64_t *noted, size_t words, uint64_t *next, void *into,
                      uint64_t most);
/* Reads the newest entries, at most `most`, the oldest of them first. Returns how many there are. Any thread. */
uint64_t tape_read(const struct tape *tape, const _Atomic uint64_t *noted, size_t words, void *into, uint64_t most);
