/* test_query.c - the keys and values of a query. */
#include "front/v2/query.h"

#include <string.h>

#include "core/util/container.h"
#include "unit/test.h"

TEST(parts_are_taken_and_decoded) {
    static const struct {
        const char *text, *keys[3], *values[3];
        unsigned count;
    } cases[] = {
        {.text = "", .count = 0},
        {.text = "&&", .count = 0},
        {.text = "a=1&b=2", .keys = {"a", "b"}, .values = {"1", "2"}, .count = 2},
        {.text = "stream", .keys = {"stream"}, .values = {""}, .count = 1},
        {.text = "=x&a%3d=%41+%zz%4", .keys = {"", "a="}, .values = {"x", "A %zz%4"}, .count = 2},
        {.text = "a=b=c", .keys = {"a"}, .values = {"b=c"}, .count = 1},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct query q = query_of(cases[i].text, strlen(cases[i].text));
        for (unsigned k = 0; k < cases[i].count; k++) {
            assert_true(query_next(&q));
            assert_string_equal(q.key, cases[i].keys[k]);
            assert_string_equal(q.value, cases[i].values[k]);
            assert_int_equal(q.value_length, strlen(q.value));
        }
        assert_false(query_next(&q));
    }
}

TEST(long_ones_are_cut_off) {
    char text[1000];
    memset(text, 'x', sizeof(text));
    text[100] = '=';
    struct query q = query_of(text, sizeof(text));
    assert_true(query_next(&q));
    assert_int_equal(strlen(q.key), QUERY_KEY_MAX - 1);
    assert_int_equal(q.value_length, QUERY_VALUE_MAX - 1);
    assert_false(query_next(&q));
}

TEST(numbers_have_bounds) {
    static const struct {
        const char *text;
        int status;
        uint32_t number;
    } cases[] = {
        {"n=1", 0, 1},  {"n=20", 0, 20},  {"n=0", 400, 0}, {"n=21", 400, 0}, {"n=99999999999999999999", 400, 0},
        {"n=", 400, 0}, {"n=-1", 400, 0}, {"n=1x", 400, 0}};
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct query q = query_of(cases[i].text, strlen(cases[i].text));
        struct sy_error err;
        uint32_t number = 0;
        assert_true(query_next(&q));
        assert_int_equal(query_number(&q, 1, 20, &number, &err), cases[i].status);
        assert_int_equal(number, cases[i].number);
    }
}
