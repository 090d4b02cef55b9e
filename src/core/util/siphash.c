/* siphash.c - SipHash-2-4. */
#include "core/util/siphash.h"

#include <errno.h>
#include <sys/random.h>

static inline uint64_t rotate(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static inline void rounds(struct siphash *s, int count) {
    for (int i = 0; i < count; i++) {
        s->a += s->b;
        s->c += s->d;
        s->b = rotate(s->b, 13) ^ s->a;
        s->d = rotate(s->d, 16) ^ s->c;
        s->a = rotate(s->a, 32) + s->d;
        s->c += s->b;
        s->d = rotate(s->d, 21) ^ s->a;
        s->b = rotate(s->b, 17) ^ s->c;
        s->c = rotate(s->c, 32);
    }
}

static inline void take_word(struct siphash *s, uint64_t word) {
    s->d ^= word;
    rounds(s, 2);
    s->a ^= word;
}

static inline struct siphash begin(const uint64_t *k) {
    return (struct siphash){.a = k[0] ^ 0x736f6d6570736575ULL,
                            .b = k[1] ^ 0x646f72616e646f6dULL,
                            .c = k[0] ^ 0x6c7967656e657261ULL,
                            .d = k[1] ^ 0x7465646279746573ULL};
}

uint64_t siphash_words(const struct siphash_key *key, const uint64_t *words, uint32_t count) {
    struct siphash s = begin(key->words);
    for (uint32_t i = 0; i < count; i++)
        take_word(&s, words[i]);
    take_word(&s, (uint64_t)count * sizeof(*words) << 56); /* the length's low byte stands at the end */
    s.c ^= 0xff;
    rounds(&s, 4);
    return s.a ^ s.b ^ s.c ^ s.d;
}

void siphash_begin(struct siphash *hash, const struct siphash_key *key) {
    *hash = begin(key->words);
    hash->b ^= 0xee;
}

void siphash_take(struct siphash *hash, uint64_t word) {
    take_word(hash, word);
    hash->count++;
}

void siphash_end(struct siphash *hash, uint64_t words[2]) {
    take_word(hash, hash->count * sizeof(uint64_t) << 56);
    hash->c ^= 0xee;
    rounds(hash, 4);
    words[0] = hash->a ^ hash->b ^ hash->c ^ hash->d;
    hash->b ^= 0xdd;
    rounds(hash, 4);
    words[1] = hash->a ^ hash->b ^ hash->c ^ hash->d;
}

int siphash_key_draw(struct siphash_key *key) {
    ssize_t got;
    while ((got = getrandom(key, sizeof(*key), 0)) < 0 && errno == EINTR) {
    }
    return got == (ssize_t)sizeof(*key) ? 0 : got < 0 ? -errno : -EIO;
}
