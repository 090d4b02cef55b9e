/* test_thread.c - lists of cores. */
#include <stdio.h>
#include <string.h>

#include "core/system/thread.h"
#include "unit/test.h"

TEST(test_good_lists) {
    cpu_set_t allowed, cores;
    struct sy_error err;
    char text[64];
    thread_cores_allowed(&allowed);
    int first = thread_core_nth(&allowed, 0);
    snprintf(text, sizeof(text), "%d", first);
    assert_int_equal(thread_cores_parse(text, &cores, &err), 0);
    assert_int_equal(CPU_COUNT(&cores), 1);
    assert_int_equal(thread_core_nth(&cores, 5), first); /* counts around */
    snprintf(text, sizeof(text), "%d-%d,%d", first, first, first);
    assert_int_equal(thread_cores_parse(text, &cores, &err), 0);
    assert_int_equal(CPU_COUNT(&cores), 1);
    CPU_ZERO(&cores);
    assert_int_equal(thread_core_nth(&cores, 0), -1);
}

TEST(test_bad_lists) {
    const char *const bad[] = {"", "x", "1-", "3-1", "-1", "0;1", "0-99999", "1000"};
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cpu_set_t cores;
        struct sy_error err = {.text = ""};
        assert_true(thread_cores_parse(bad[i], &cores, &err) < 0);
        assert_true(strlen(err.text) > 10);
    }
}
