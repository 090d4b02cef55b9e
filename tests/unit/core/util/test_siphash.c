/* test_siphash.c - the published vectors; keys that are drawn differ. */
#include "core/util/siphash.h"
#include "unit/test.h"

static const struct siphash_key counted = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};

/* Of the bytes 0, 1, 2, ... under the key of the bytes 0 to 15: the authors' vectors of 0, 8 and 16 bytes. */
TEST(test_the_authors_vectors) {
    static const uint64_t words[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    assert_int_equal(siphash_words(&counted, words, 0), 0x726fdb47dd0e0e31);
    assert_int_equal(siphash_words(&counted, words, 1), 0x93f5f5799a932462);
    assert_int_equal(siphash_words(&counted, words, 2), 0x3f2acc7f57c29bdb);
}

/* The same, of the authors' variant of 128 bits. */
TEST(test_the_authors_vectors_of_128_bits) {
    static const uint64_t words[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    static const uint64_t expected[][2] = {{0xe6a825ba047f81a3, 0x930255c71472f66d},
                                           {0x61f55862baa9623b, 0xb49714f364e2830f},
                                           {0xbb54b067caa4e26e, 0x77052385bf1533fd}};
    for (uint32_t count = 0; count < 3; count++) {
        struct siphash hash;
        uint64_t got[2];
        siphash_begin(&hash, &counted);
        for (uint32_t i = 0; i < count; i++)
            siphash_take(&hash, words[i]);
        siphash_end(&hash, got);
        assert_int_equal(got[0], expected[count][0]);
        assert_int_equal(got[1], expected[count][1]);
    }
}

TEST(test_no_two_keys_are_alike) {
    static const uint64_t words[] = {1, 224, 224};
    struct siphash_key a, b;
    assert_int_equal(siphash_key_draw(&a), 0);
    assert_int_equal(siphash_key_draw(&b), 0);
    assert_memory_not_equal(&a, &b, sizeof(a));
    assert_true(siphash_words(&a, words, 3) != siphash_words(&b, words, 3));
    assert_true(siphash_words(&a, words, 3) == siphash_words(&a, words, 3));
}
