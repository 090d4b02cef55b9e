/* test_text.c - text that grows out of the caller's memory. */
#include "unit/test.h"

#include "core/util/text.h"

TEST(it_starts_in_the_callers_memory_and_moves) {
    char memory[8];
    struct text text;
    text_init(&text, memory, sizeof(memory));
    text_put(&text, "1234567");
    assert_ptr_equal(text.data, memory);
    text_put_char(&text, '8');
    assert_ptr_equal(text.data, memory);
    text_put_char(&text, '9');
    assert_ptr_not_equal(text.data, memory);
    assert_string_equal(text_end(&text), "123456789");
    assert_int_equal(text.length, 9);
    text_free(&text);
    assert_int_equal(text.length, 0);
}

TEST(printf_fits_exactly_or_grows) {
    for (size_t room = 0; room < 12; room++) {
        char memory[12];
        struct text text;
        text_init(&text, room ? memory : NULL, room);
        text_printf(&text, "%d-%s", 42, "abc");
        text_printf(&text, "%s", "");
        text_printf(&text, ".");
        assert_string_equal(text_end(&text), "42-abc.");
        assert_false(text.failed);
        text_free(&text);
    }
}

TEST(it_grows_far) {
    struct text text = {0};
    assert_string_equal(text_end(&text), "");
    for (int i = 0; i < 100000; i++)
        text_printf(&text, "%05d", i);
    assert_int_equal(text.length, 500000);
    assert_memory_equal(text.data + 499995, "99999", 5);
    text_free(&text);
}

TEST(too_much_fails_and_stays_failed) {
    struct text text = {0};
    text_put(&text, "a");
    assert_false(text_reserve(&text, SIZE_MAX - 10));
    assert_true(text.failed);
    assert_int_equal(text.length, 1);
    text_free(&text);
}
