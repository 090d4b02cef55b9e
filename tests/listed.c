/* listed.c - runs tests that list themselves (unit/test.h), with a main() for programs that have no other. */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>

#define TESTS_MAX 256 /* of a group */

static struct listed_test *tests; /* in the order of their lines */

void test_list(struct listed_test *test) {
    struct listed_test **at = &tests;
    while (*at && (*at)->line <= test->line)
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

int group_tests_run(const char *group, CMFixtureFunction set_up, CMFixtureFunction tear_down) {
    struct CMUnitTest chosen[TESTS_MAX];
    size_t count = 0;
    for (const struct listed_test *test = tests; test; test = test->next) {
        if (group && strcmp(test->group, group) != 0)
            continue;
        if (count == TESTS_MAX)
            abort();
        chosen[count++] = test->test;
    }
    return _cmocka_run_group_tests("tests", chosen, count, set_up, tear_down);
}

int __attribute__((weak)) main(void) {
    return group_tests_run(NULL, NULL, NULL);
}
