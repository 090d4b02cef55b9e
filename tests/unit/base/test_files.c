/* test_files.c - the limit of open files is raised, and never lowered. */
#include <sys/resource.h>

#include "base/files.h"
#include "unit/cmocka_all.h"

static rlim_t soft_limit(void) {
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    return files.rlim_cur;
}

static void test_raised_as_far_as_may_be(void **state) {
    (void)state;
    struct rlimit files = {.rlim_cur = 40, .rlim_max = 60};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(files_allow(30), 40); /* as it is */
    assert_int_equal(soft_limit(), 40);
    assert_int_equal(files_allow(50), 50);
    assert_int_equal(soft_limit(), 50);
    assert_int_equal(files_allow(1000), 60);
    assert_int_equal(soft_limit(), 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_raised_as_far_as_may_be)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
