/* test_running.c - what a backend that has ended was running. */
#include "core/data/running.h"

#include <string.h>

#include "unit/test.h"

static struct running running;

TEST(the_requests_of_the_run_are_found) {
    memset(&running, 0, sizeof(running));
    assert_false(running_has(&running, 0));
    running_begin(&running, (uint64_t[]){7, 8}, 2);
    assert_true(running_has(&running, 7) && running_has(&running, 8));
    assert_false(running_has(&running, 9));
    running_end(&running);
    assert_false(running_has(&running, 7));
    running_begin(&running, (uint64_t[]){9}, 1);
    assert_false(running_has(&running, 8)); /* of the run before */
}

/* A backend may have written anything. */
TEST(nothing_behind_the_end_is_read) {
    memset(&running, 0, sizeof(running));
    atomic_store(&running.count, UINT32_MAX);
    assert_false(running_has(&running, 7));
}
