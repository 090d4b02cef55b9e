/* cmocka_all.h - cmocka with the headers it wants before it, and tests that list themselves:
 *
 *     TEST(one_and_one_are_two) {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 * They run in the order in which they stand. A file needs a main() only if there is more to do than that (listed.c,
 * unit/groups.c). */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifndef TEST_GROUP /* the build says which file of a program of unit tests it is */
#define TEST_GROUP NULL
#endif

struct listed_test {
    struct CMUnitTest test;
    const char *group; /* TEST_GROUP */
    int line;
    struct listed_test *next;
};

#define TEST(name) TEST_WITH(name, NULL, NULL)
/* A test with a set-up and a tear-down, which take `state`, as the test does; NULL: none. */
#define TEST_WITH(name, set_up, tear_down)                                                                             \
    static void name(void **state);                                                                                    \
    __attribute__((constructor)) static void name##_is_listed(void) {                                                  \
        static struct listed_test listed = {{#name, name, set_up, tear_down, NULL}, TEST_GROUP, __LINE__, NULL};       \
        test_list(&listed);                                                                                            \
    }                                                                                                                  \
    static void name(void **state __attribute__((unused)))

/* For TEST(). */
void test_list(struct listed_test *test);
/* For a main(): runs the tests of its group, TEST_GROUP, or NULL: all, between a set-up and a tear-down of the whole;
 * NULL: none. Returns how many have failed. */
int tests_run(const char *group, CMFixtureFunction set_up, CMFixtureFunction tear_down);
