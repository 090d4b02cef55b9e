/* cmocka_all.h - cmocka with the headers it wants before it, and tests that list themselves:
 *
 *     TEST(one_and_one_are_two) {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 * A file's tests run in the order in which they stand. A file needs a main() only if there is more to do than that
 * (groups.c). */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct unit_test {
    struct CMUnitTest test;
    const char *group; /* group that the test is of, UNIT_GROUP */
    int line;
    struct unit_test *next;
};

#define TEST(name) TEST_WITH(name, NULL, NULL)
/* A test with a set-up and a tear-down, which take `state`, as the test does; NULL: none. */
#define TEST_WITH(name, set_up, tear_down)                                                                             \
    static void name(void **state);                                                                                    \
    __attribute__((constructor)) static void name##_is_listed(void) {                                                  \
        static struct unit_test listed = {{#name, name, set_up, tear_down, NULL}, UNIT_GROUP, __LINE__, NULL};         \
        unit_test_list(&listed);                                                                                       \
    }                                                                                                                  \
    static void name(void **state __attribute__((unused)))

/* For TEST(). */
void unit_test_list(struct unit_test *test);
/* For a main(): runs the tests of its group, UNIT_GROUP, between a set-up and a tear-down of the whole group; NULL:
 * none. Returns how many have failed. */
int unit_tests_run(const char *group, CMFixtureFunction set_up, CMFixtureFunction tear_down);
