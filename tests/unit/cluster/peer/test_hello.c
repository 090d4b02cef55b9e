/* test_hello.c - introductions survive the way, and wrong ones are refused by the name of what is wrong. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/peer/hello.h"
#include "unit/test.h"

static const struct hello whole = {
    .format = 1,
    .format_newest = 4,
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
    .transports = 5,
    .fabric = "verbs",
    .metrics = 65535,
    .promises = true,
    .build = "0123456789abcde",
};

TEST(all_fields_survive) {
    struct hello read;
    struct sy_error err;
    char *text = hello_write(&whole);
    assert_non_null(text);
    assert_int_equal(hello_read(text, strlen(text), &read, &err), 0);
    assert_memory_equal(&read, &whole, sizeof(whole));
    free(text);
}

/* Each field is taken out, or made wrong, in turn. */
TEST(what_is_wrong_is_named) {
    static const char *const fields[] = {"format",       "format_newest", "number", "lanes",      "slots",
                                         "accelerators", "incarnation",   "term",   "version",    "name",
                                         "address",      "token",         "role",   "transports", "fabric"};
    struct hello read;
    struct sy_error err;
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        char *text = hello_write(&whole), quoted[32];
        snprintf(quoted, sizeof(quoted), "\"%s\":", fields[i]);
        char *at = strstr(text, quoted);
        assert_non_null(at);
        if (strcmp(fields[i], "format_newest") == 0)
            at[strlen(quoted)] = '0'; /* older than the oldest */
        else
            at[1] = '_';
        assert_int_equal(hello_read(text, strlen(text), &read, &err), -EPROTO);
        snprintf(quoted, sizeof(quoted), "'%s'", fields[i]);
        assert_non_null(strstr(err.text, quoted));
        free(text);
    }
}

/* Others have memory for all that it may ask at once. */
TEST(nobody_may_ask_too_much) {
    struct hello read, hello = whole;
    struct sy_error err;
    for (uint32_t more = 0; more < 2; more++) {
        hello.slots = HELLO_REQUESTS_MAX / HELLO_LANES_MAX + more;
        char *text = hello_write(&hello);
        assert_int_equal(hello_read(text, strlen(text), &read, &err), more ? -EPROTO : 0);
        free(text);
    }
    assert_non_null(strstr(err.text, "'slots'"));
}

TEST(who_does_not_say_that_it_reckons_with_promises_does_not) {
    struct hello read, hello = whole;
    struct sy_error err;
    hello.promises = false;
    hello.metrics = 0;
    char *text = hello_write(&hello);
    assert_null(strstr(text, "promises"));
    assert_null(strstr(text, "metrics"));
    assert_int_equal(hello_read(text, strlen(text), &read, &err), 0);
    assert_false(read.promises);
    free(text);
    text = hello_write(&whole);
    memcpy(strstr(text, "\"promises\":true") + strlen("\"promises\":"), "1   ", 4);
    assert_int_equal(hello_read(text, strlen(text), &read, &err), -EPROTO);
    assert_non_null(strstr(err.text, "'promises'"));
    free(text);
}

TEST(the_newest_format_of_both_is_agreed_on) {
    static const struct {
        uint32_t ours[2], theirs[2], agreed;
    } cases[] = {
        {{1, 2}, {1, 2}, 2}, {{1, 2}, {1, 1}, 1}, {{1, 1}, {1, 2}, 1}, {{2, 3}, {1, 2}, 2},
        {{2, 3}, {3, 4}, 3}, {{1, 9}, {4, 5}, 5}, {{2, 3}, {1, 1}, 0}, {{1, 1}, {2, 3}, 0},
    };
    struct sy_error err;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct hello ours = {.format = cases[i].ours[0], .format_newest = cases[i].ours[1], .version = "7.0"};
        struct hello theirs = {.format = cases[i].theirs[0], .format_newest = cases[i].theirs[1], .version = "8.1"};
        uint32_t format = 0;
        assert_int_equal(hello_agree(&ours, &theirs, &format, &err), cases[i].agreed ? 0 : -EPROTO);
        assert_int_equal(format, cases[i].agreed);
        if (!cases[i].agreed)
            assert_true(strstr(err.text, "7.0") && strstr(err.text, "8.1"));
    }
}

/* Between releases; a visitor asks any build, and who does not tell its build is taken at its word for the format. */
TEST(other_builds_of_a_format_that_no_release_speaks_are_refused) {
    static const struct {
        const char *ours, *theirs;
        enum cluster_role role;
        bool agreed;
    } cases[] = {
        {"aa", "aa", ROLE_BACKEND, true}, {"aa", "bb", ROLE_BACKEND, false},   {"aa", "bb", ROLE_VISITOR, true},
        {"aa", "", ROLE_BACKEND, true},   {"aa", "bb", ROLE_SCHEDULER, false}, {"", "bb", ROLE_BACKEND, true},
    };
    struct sy_error err;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct hello ours = {.role = ROLE_SCHEDULER, .version = "7.0"},
                     theirs = {.role = cases[i].role, .version = "7.1"};
        ours.format = ours.format_newest = theirs.format = theirs.format_newest = WIRE_FORMAT_RELEASED + 1;
        strcpy(ours.build, cases[i].ours);
        strcpy(theirs.build, cases[i].theirs);
        uint32_t format;
        assert_int_equal(hello_agree(&ours, &theirs, &format, &err), cases[i].agreed ? 0 : -EPROTO);
        if (!cases[i].agreed)
            assert_true(strstr(err.text, "7.0 of build aa") && strstr(err.text, "7.1 of build bb"));
    }
}

TEST(limits_hold) {
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
