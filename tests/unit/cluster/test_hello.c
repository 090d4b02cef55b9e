/* test_hello.c - introductions survive the way, and wrong ones are refused by the name of what is wrong. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/hello.h"
#include "unit/cmocka_all.h"

static const struct hello whole = {
    .format = 1,
    .role = ROLE_FRONTEND,
    .incarnation = 0xfedcba9876543210,
    .term = UINT64_MAX,
    .number = HELLO_NUMBERS - 1,
    .lanes = HELLO_LANES_MAX,
    .slots = 8192,
    .accelerators = 3,
    .version = "1.2.3",
    .name = "a \"name\" in \xc3\xbc",
    .address = ":7710",
    .token = "secret",
};

static void all_fields_survive(void **state) {
    (void)state;
    struct hello read;
    struct sy_error err;
    char *text = hello_write(&whole);
    assert_non_null(text);
    assert_int_equal(hello_read(text, strlen(text), &read, &err), 0);
    assert_memory_equal(&read, &whole, sizeof(whole));
    free(text);
}

/* Each field is taken out, or made wrong, in turn. */
static void what_is_wrong_is_named(void **state) {
    (void)state;
    static const char *const fields[] = {"format", "number",  "lanes", "slots",   "accelerators", "incarnation",
                                         "term",   "version", "name",  "address", "token",        "role"};
    struct hello read;
    struct sy_error err;
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        char *text = hello_write(&whole), quoted[32];
        snprintf(quoted, sizeof(quoted), "\"%s\":", fields[i]);
        char *at = strstr(text, quoted);
        assert_non_null(at);
        at[1] = '_';
        assert_int_equal(hello_read(text, strlen(text), &read, &err), -EPROTO);
        snprintf(quoted, sizeof(quoted), "'%s'", fields[i]);
        assert_non_null(strstr(err.text, quoted));
        free(text);
    }
}

static void limits_hold(void **state) {
    (void)state;
    struct hello read, hello = whole;
    struct sy_error err;
    hello.lanes = HELLO_LANES_MAX + 1;
    char *text = hello_write(&hello);
    assert_int_equal(hello_read(text, strlen(text), &read, &err), -EPROTO);
    free(text);
    hello = whole;
    hello.number = HELLO_NUMBERS;
    text = hello_write(&hello);
    assert_int_equal(hello_read(text, strlen(text), &read, &err), -EPROTO);
    free(text);
    static const char *const nonsense[] = {"", "{", "[]", "null", "{}", "{\"role\":1}", "\xff"};
    for (size_t i = 0; i < ARRAY_COUNT(nonsense); i++)
        assert_int_equal(hello_read(nonsense[i], strlen(nonsense[i]), &read, &err), -EPROTO);
    char *name = strstr(text = hello_write(&whole), "1.2.3");
    memset(name, '9', 5);
    struct hello longer;
    char padded[2048];
    snprintf(padded, sizeof(padded), "%.*s%040d%s", (int)(name - text), text, 0, name + 5); /* a version of 40 */
    assert_int_equal(hello_read(padded, strlen(padded), &longer, &err), -EPROTO);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_fields_survive),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
