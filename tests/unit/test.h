/* test.h - cmocka's tests, each of which stands in its file once:
 *
 *     TEST(what_is_said_is_heard) {
 *         ...
 *     }
 *
 * They run in the order of their lines. A file needs a main() only if there is more to do than that; it ends with
 * `return tests_run(NULL, NULL);` (listed.c, unit/groups.c). */
#pragma once

#include "unit/cmocka_all.h"

#ifndef TEST_GROUP /* the build says which file of a program of unit tests it is */
#define TEST_GROUP NULL
#endif

struct listed_test {
    struct CMUnitTest test;
    const char *group; /* TEST_GROUP */
    int line;
    struct listed_test *next;
};

/* A test, with functions that are called before and after it; NULL: none. */
#define TEST_WITH(name, set_up, tear_down)                                                                             \
    static void name(void **state);                                                                                    \
    __attribute__((constructor)) static void name##_is_listed(void) {                                                  \
        static struct listed_test listed = {{#name, name, set_up, tear_down, NULL}, TEST_GROUP, __LINE__, NULL};       \
        test_list(&listed);                                                                                            \
    }                                                                                                                  \
    static void name(void **state __attribute__((unused)))
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* For TEST(). */
void test_list(struct listed_test *test);
/* Runs a group's tests, or all (NULL), between functions that are called once; NULL: none. Returns how many have
 * failed.
 */
int group_tests_run(const char *group, CMFixtureFunction set_up, CMFixtureFunction tear_down);

/* For a main(): runs the file's tests. */
static inline int tests_run(CMFixtureFunction set_up, CMFixtureFunction tear_down) {
    return group_tests_run(TEST_GROUP, set_up, tear_down);
}
