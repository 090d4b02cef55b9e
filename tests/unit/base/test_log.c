/* test_log.c - what a line looks like, whatever is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"

/* What is written to standard error for this value, behind the time. */
static const char *logged(const char *value) {
    static char line[4096];
    int pipes[2], kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[1], STDERR_FILENO);
    log_info("event", "value=%s", value);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(pipes[1]);
    ssize_t bytes = read(pipes[0], line, sizeof(line) - 1);
    close(pipes[0]);
    assert_true(bytes > 0);
    line[bytes] = '\0';
    return strchr(line, ' ') + 1;
}

static void an_event_is_a_line(void **state) {
    (void)state;
    assert_string_equal(logged("plain"), "level=info msg=\"event\" value=plain\n");
    assert_string_equal(logged("x\nlevel=error\tmsg"), "level=info msg=\"event\" value=x level=error msg\n");
    assert_string_equal(logged("\x1b[31m\r\x7f"), "level=info msg=\"event\" value=?[31m??\n");
}

static void a_line_is_utf8(void **state) {
    (void)state;
    assert_string_equal(logged("\xc3\xa9\xf0\x9f\x98\x80"),
                        "level=info msg=\"event\" value=\xc3\xa9\xf0\x9f\x98\x80\n");
    assert_string_equal(logged("a\xff\xc3"), "level=info msg=\"event\" value=a??\n");
}

static void a_long_line_is_cut(void **state) {
    char long_value[4000];
    (void)state;
    memset(long_value, 'x', sizeof(long_value));
    long_value[sizeof(long_value) - 1] = '\0';
    const char *line = logged(long_value);
    assert_true(strlen(line) < 2048 && line[strlen(line) - 1] == '\n');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_a_line),
        cmocka_unit_test(a_line_is_utf8),
        cmocka_unit_test(a_long_line_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
