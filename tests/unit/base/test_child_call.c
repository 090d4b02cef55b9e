/* test_child_call.c - children that return, fail, crash and leave. */
#include "base/child_call.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "unit/cmocka_all.h"

enum end { RETURNS, FAILS, CRASHES, LEAVES };

static int end_as(void *context, struct sy_error *err) {
    enum end *end = context;
    switch (*end) {
    case RETURNS:
        *end = LEAVES; /* in the child alone */
        return 0;
    case FAILS:
        return error_set(err, -ENOTSUP, "it cannot");
    case CRASHES:
        raise(SIGKILL);
        return 0;
    case LEAVES:
        _exit(3);
    }
    return 0;
}

static void the_parent_hears_how_it_ended(void **state) {
    (void)state;
    static const struct {
        enum end end;
        int rc;
        const char *sentence;
    } cases[] = {
        {RETURNS, 0, ""},
        {FAILS, -ENOTSUP, "it cannot"},
        {CRASHES, -ECANCELED, "killed by signal 9 (Killed)"},
        {LEAVES, -ECANCELED, "ended with exit status 3"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sy_error err = {""};
        enum end end = cases[i].end;
        assert_int_equal(child_call(end_as, &end, &err), cases[i].rc);
        assert_string_equal(err.text, cases[i].sentence);
        assert_int_equal(end, cases[i].end);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parent_hears_how_it_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
