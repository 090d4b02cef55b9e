/* test_strings.c - strings one behind the other, whole and cut off. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>

#include "core/data/strings.h"
#include "core/util/container.h"

#define ONE   "\3\0\0\0abc"
#define EMPTY "\0\0\0\0"

TEST(elements_follow_each_other) {
    static const char data[] = ONE EMPTY "\2\0\0\0\0\xff";
    const char *at = data, *end = data + sizeof(data) - 1;
    struct string element;
    assert_int_equal(strings_next(&at, end, &element), 1);
    assert_int_equal(element.length, 3);
    assert_memory_equal(element.data, "abc", 3);
    assert_int_equal(strings_next(&at, end, &element), 1);
    assert_int_equal(element.length, 0);
    assert_int_equal(strings_next(&at, end, &element), 1);
    assert_memory_equal(element.data, "\0\xff", 2);
    assert_int_equal(strings_next(&at, end, &element), 0);
    char lead[4];
    assert_ptr_equal(strings_lead(lead, 0x01020304), lead + 4);
    assert_memory_equal(lead, "\4\3\2\1", 4);
}

TEST(counts_and_lengths_are_checked) {
    static const struct {
        const char *data;
        size_t bytes;
        int64_t elements;
        const char *want; /* NULL: right */
    } cases[] = {
        {"", 0, 0, NULL},
        {ONE, 7, 1, NULL},
        {ONE EMPTY, 11, 2, NULL},
        {ONE, 7, 2, "expected 1 more strings behind 7 bytes"},
        {"", 0, 1, "expected 1 more strings behind 0 bytes"},
        {ONE EMPTY, 11, 1, "4 bytes follow the 1 strings"},
        {ONE, 6, 1, "string 0 is not whole"},
        {ONE "\0\0\0", 10, 2, "string 1 is not whole"},
        {"\xff\xff\xff\xff", 4, 1, "string 0 is not whole"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct sy_error err = {""};
        char *copy = malloc(cases[i].bytes ? cases[i].bytes : 1); /* a step beyond is seen */
        memcpy(copy, cases[i].data, cases[i].bytes);
        assert_int_equal(strings_check(copy, cases[i].bytes, cases[i].elements, &err), cases[i].want ? -EINVAL : 0);
        if (cases[i].want && !strstr(err.text, cases[i].want))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].want);
        free(copy);
    }
}

TEST(rows_follow_each_other) {
    static char data[] = ONE EMPTY EMPTY "\2\0\0\0\0\xff" ONE ONE;
    struct tensor_view whole = {.data = data, .bytes = sizeof(data) - 1, .dim_count = 2, .dims = {3, 2}}, rows;
    size_t at = 0;
    assert_int_equal(strings_rows(&whole, 1, &at, &rows), 0);
    assert_ptr_equal(rows.data, data);
    assert_int_equal(rows.bytes, 11);
    assert_int_equal(rows.dims[0], 1);
    assert_int_equal(rows.dims[1], 2);
    assert_int_equal(strings_rows(&whole, 2, &at, &rows), 0);
    assert_ptr_equal(rows.data, data + 11);
    assert_int_equal(rows.bytes, sizeof(data) - 1 - 11);
    assert_int_equal(rows.dims[0], 2);
    assert_int_equal(strings_rows(&whole, 1, &at, &rows), -EINVAL); /* that was all */
    at = 0;
    assert_int_equal(strings_rows(&whole, 4, &at, &rows), -EINVAL);
    whole.bytes--;
    assert_int_equal(strings_rows(&whole, 3, &at, &rows), -EINVAL);
    assert_int_equal(at, 0);
    whole.dim_count = 0;
    assert_int_equal(strings_rows(&whole, 1, &at, &rows), -EINVAL);
}
