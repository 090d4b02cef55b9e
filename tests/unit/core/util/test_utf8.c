/* test_utf8.c - what is UTF-8, and what becomes of what is not. */
#include "unit/test.h"

#include <string.h>

#include "core/util/container.h"
#include "core/util/utf8.h"

static const struct {
    const char *text, *clean;
} cases[] = {
    {"", ""},
    {"plain ~", "plain ~"},
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"\xff", "?"},
    {"a\xc3", "a?"},              /* cut off */
    {"\xc0\xaf", "??"},           /* longer than needed */
    {"\xed\xa0\x80", "???"},      /* a surrogate */
    {"\xf4\x90\x80\x80", "????"}, /* beyond the last character */
    {"\x80x\xe2\x82", "?x??"},
};

TEST(sequences_are_told) {
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[32];
        strcpy(text, cases[i].text);
        assert_int_equal(utf8_is_valid(text), strcmp(text, cases[i].clean) == 0);
        utf8_clean(text, strlen(text));
        assert_string_equal(text, cases[i].clean);
    }
}

TEST(control_characters_go) {
    char text[] = "a\nb\tc\r\x1b[31m\x7f";
    assert_true(utf8_is_valid(text));
    utf8_clean(text, strlen(text));
    assert_string_equal(text, "a b c??[31m?");
}

TEST(characters_are_written) {
    static const struct {
        uint32_t character;
        const char *bytes;
    } written[] = {
        {'$', "$"}, {0x7f, "\x7f"}, {0x80, "\xc2\x80"}, {0x20ac, "\xe2\x82\xac"}, {0x1f600, "\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(written); i++) {
        char bytes[5] = "";
        assert_int_equal(utf8_write(written[i].character, bytes), strlen(written[i].bytes));
        assert_string_equal(bytes, written[i].bytes);
    }
}
