/* test_siphash.c - the published vectors; keys that are drawn differ. */
#include <string.h>

#include "core/util/siphash.h"
#include "unit/cmocka_all.h"

static const struct siphash_key counted = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};

/* Of the bytes 0, 1, 2, ... under the key of the bytes 0 to 15: the authors' vectors of 0, 8 and 16 bytes. */
static void test_the_authors_vectors(void **state) {
    (void)state;
    static const uint64_t words[] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    assert_int_equal(siphash_words(&counted, words, 0), 0x726fdb47dd0e0e31);
    assert_int_equal(siphash_words(&counted, words, 1), 0x93f5f5799a932462);
    assert_int_equal(siphash_words(&counted, words, 2), 0x3f2acc7f57c29bdb);
}

static void test_no_two_keys_are_alike(void **state) {
    (void)state;
    static const uint64_t words[] = {1, 224, 224};
    struct siphash_key a, b;
    assert_int_equal(siphash_key_draw(&a), 0);
    assert_int_equal(siphash_key_draw(&b), 0);
    assert_memory_not_equal(&a, &b, sizeof(a));
    assert_true(siphash_words(&a, words, 3) != siphash_words(&b, words, 3));
    assert_true(siphash_words(&a, words, 3) == siphash_words(&a, words, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_authors_vectors),
        cmocka_unit_test(test_no_two_keys_are_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
