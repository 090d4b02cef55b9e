/* test_aside.c - lists of models that are not served come back as they were, and nothing else is taken for one. */
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/aside.h"
#include "core/util/container.h"
#include "unit/test.h"

TEST(a_list_comes_back) {
    struct sy_error err;
    json_t *list = json_array();
    aside_add(list, "a", 3, "it has \"reasons\"");
    aside_add(list, "b\xff", 0, "a\nline, and \xc3\xa9");
    char *text = aside_write(list, 1000);
    assert_string_equal(text, "[{\"name\":\"a\",\"version\":3,\"reason\":\"it has \\\"reasons\\\"\"},"
                              "{\"name\":\"b?\",\"version\":null,\"reason\":\"a line, and \xc3\xa9\"}]");
    json_t *read = aside_read(text, strlen(text), &err);
    assert_true(json_equal(list, read));
    json_decref(read);
    json_decref(list);
    free(text);
}

TEST(a_list_that_is_too_long_loses_its_end) {
    json_t *list = json_array();
    for (int i = 0; i < 100; i++)
        aside_add(list, i == 0 ? "first" : "another", 1, "a reason");
    char *text = aside_write(list, 1000);
    assert_in_range(strlen(text), 300, 1000);
    assert_int_equal(strncmp(text, "[{\"name\":\"first\"", 15), 0);
    free(text);
    text = aside_write(list, 2); /* for no model */
    assert_string_equal(text, "[]");
    free(text);
    json_decref(list);
}

TEST(what_is_no_list_is_refused) {
    static const char *const cases[] = {
        "{}",
        "[",
        "[1]",
        "[{}]",
        "[{\"name\":1,\"version\":1,\"reason\":\"r\"}]",
        "[{\"name\":\"n\",\"version\":0,\"reason\":\"r\"}]",
        "[{\"name\":\"n\",\"version\":4294967296,\"reason\":\"r\"}]",
        "[{\"name\":\"n\",\"version\":\"1\",\"reason\":\"r\"}]",
        "[{\"name\":\"n\",\"version\":1}]",
        "[{\"name\":\"n\",\"version\":1,\"reason\":\"\xff\"}]",
    };
    struct sy_error err;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_null(aside_read(cases[i], strlen(cases[i]), &err));
}
