/* test_child_call.c - children that return, fail, crash and leave. */
#include "core/system/child_call.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/test.h"

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

/* What the parent hears of each end. */
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

TEST(the_parent_hears_how_it_ended) {
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sy_error err = {""};
        enum end end = cases[i].end;
        assert_int_equal(child_call(end_as, &end, &err), cases[i].rc);
        assert_string_equal(err.text, cases[i].sentence);
        assert_int_equal(end, cases[i].end);
    }
}

static int limits_look(void *context, struct sy_error *err) {
    const bool *gpu = context;
    struct rlimit core = {1, 1};
    child_limit(*gpu);
    int within = socket(AF_UNIX, SOCK_STREAM, 0), outside = socket(AF_INET, SOCK_STREAM, 0);
    getrlimit(RLIMIT_CORE, &core);
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && core.rlim_max == 0 && within >= 0 && outside < 0
               ? 0
               : error_set(err, -EPERM, "privileges %d, core %d, a socket within %d, outside %d",
                           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), (int)core.rlim_max, within, outside);
}

TEST(a_child_is_limited) {
    bool gpu[] = {false, true};
    for (int i = 0; i < 2; i++) {
        struct sy_error err = {""};
        child_call(limits_look, &gpu[i], &err);
        assert_string_equal(err.text, "");
    }
}
