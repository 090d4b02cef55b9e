/* test_log.c - what a line looks like, whatever is in it. */
#include "unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/system/log.h"

#define LOGGED(...) (log_begin(), log_info("event", __VA_ARGS__), log_end())

static int pipes[2], kept;

static void log_begin(void) {
    kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[1], STDERR_FILENO);
}

/* What was written to standard error, behind the time. */
static const char *log_end(void) {
    static char line[4096];
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(pipes[1]);
    ssize_t bytes = read(pipes[0], line, sizeof(line) - 1);
    close(pipes[0]);
    assert_true(bytes > 0);
    line[bytes] = '\0';
    return *line == '{' ? strstr(line, "\"level\"") : strchr(line, ' ') + 1;
}

static const char *logged(const char *value) {
    return LOGGED("value=%s", value);
}

TEST(an_event_is_a_line) {
    assert_string_equal(logged("plain"), "level=info msg=\"event\" value=plain\n");
    assert_string_equal(logged("x\nlevel=error\tmsg"), "level=info msg=\"event\" value=\"x level=error msg\"\n");
    assert_string_equal(logged("\x1b[31m\r\x7f"), "level=info msg=\"event\" value=?[31m??\n");
}

TEST(a_value_is_one_value) {
    static const struct {
        const char *value, *alone, *in_quotes;
    } cases[] = {
        {"plain-1.2/3:4,\xc3\xa9", "plain-1.2/3:4,\xc3\xa9", "plain-1.2/3:4,\xc3\xa9"},
        {"", "", ""},
        {"two words", "\"two words\"", "two words"},
        {"a=b", "\"a=b\"", "a=b"},
        {"sp ace\"quo\\te", "\"sp ace\\\"quo\\\\te\"", "sp ace\\\"quo\\\\te"},
        {"back\\slash", "back\\slash", "back\\\\slash"},
        {"x\" level=error", "\"x\\\" level=error\"", "x\\\" level=error"},
        {"\"", "\"\\\"\"", "\\\""},
        {"100%s", "100%s", "100%s"},
    };
    char line[200];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(line, sizeof(line), "level=info msg=\"event\" a=%s b=1 c=%s\n", cases[i].alone, cases[i].alone);
        assert_string_equal(LOGGED("a=%s b=%d c=%s", cases[i].value, 1, cases[i].value), line);
        snprintf(line, sizeof(line), "level=info msg=\"event\" a=\"%s\" b=\"in %s, too\"\n", cases[i].in_quotes,
                 cases[i].in_quotes);
        assert_string_equal(LOGGED("a=\"%s\" b=\"in %s, too\"", cases[i].value, cases[i].value), line);
    }
    /* Not a value by itself: a caller's pairs. */
    assert_string_equal(LOGGED("a=%u%s", 1u, " b=2"), "level=info msg=\"event\" a=1 b=2\n");
    assert_string_equal(LOGGED("%s", "a=1"), "level=info msg=\"event\" a=1\n");
    assert_string_equal(LOGGED("%s", ""), "level=info msg=\"event\" \n");
}

TEST(numbers_are_as_printf_writes_them) {
    assert_string_equal(LOGGED("a=%d b=%u c=%lld d=%llu e=%ld f=%lu g=%zu h=%x i=%05d z=%s", -1, 4000000000u,
                               -9000000000000000000LL, 18000000000000000000ULL, -5L, 6UL, (size_t)7, 255u, 42, "end"),
                        "level=info msg=\"event\" a=-1 b=4000000000 c=-9000000000000000000 d=18000000000000000000 e=-5 "
                        "f=6 g=7 h=ff i=00042 z=end\n");
    assert_string_equal(LOGGED("a=%.0f b=%.3f c=%.6g d=%e", 1.6, 2.0005, 1e9, 0.5),
                        "level=info msg=\"event\" a=2 b=2.001 c=1e+09 d=5.000000e-01\n");
    assert_string_equal(LOGGED("a=%.3s b=%.*s c=\"%.2s\" d=%s", "abcdef", 2, "x y", "\"\"\"", "end"),
                        "level=info msg=\"event\" a=abc b=\"x \" c=\"\\\"\\\"\" d=end\n");
}

TEST(a_line_is_utf8) {
    assert_string_equal(logged("\xc3\xa9\xf0\x9f\x98\x80"),
                        "level=info msg=\"event\" value=\xc3\xa9\xf0\x9f\x98\x80\n");
    assert_string_equal(logged("a\xff\xc3"), "level=info msg=\"event\" value=a??\n");
}

TEST(a_long_line_is_cut) {
    char long_value[4000];
    memset(long_value, 'x', sizeof(long_value));
    long_value[sizeof(long_value) - 1] = '\0';
    const char *line = logged(long_value);
    assert_true(strlen(line) < 2048 && line[strlen(line) - 1] == '\n');
    /* Wherever it is cut, the quotes end, and no escape is halved. */
    memset(long_value, '"', sizeof(long_value) - 1);
    for (int more = 0; more < 4; more++) {
        line = LOGGED("%.*s=\"%s\" b=2", 1 + more, "aaaa", long_value);
        size_t bytes = strlen(line);
        assert_true(bytes > 1900 && bytes < 2048);
        assert_string_equal(line + bytes - 4, "\\\"\"\n");
        assert_int_equal((bytes - strlen("level=info msg=\"event\" =\"\"\n") - 1 - (size_t)more) % 2, 0);
    }
}

/* Nobody reads while 2000 lines of 200 bytes are written: more than a pipe and the queue hold. */
TEST(lines_wait_for_a_reader_and_are_counted_where_they_cannot) {
    enum { LINES = 2000 };
    static char text[LINES * 400];
    char value[150];
    size_t bytes = 0;
    int dropped = 0, kept_lines = 0, last = -1;
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    log_begin();
    for (int n = 0; n < LINES; n++)
        log_info("event", "n=%d value=%s", n, value);
    for (int round = 0; round < 100; round++) { /* a reader comes */
        assert_int_equal(fcntl(pipes[0], F_SETFL, O_NONBLOCK), 0);
        for (ssize_t n; (n = read(pipes[0], text + bytes, sizeof(text) - 1 - bytes)) > 0;)
            bytes += (size_t)n;
        log_drain(0);
    }
    log_info("event", "n=%d value=%s", LINES, value);
    assert_int_equal(fcntl(pipes[0], F_SETFL, 0), 0);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(pipes[1]);
    for (ssize_t n; (n = read(pipes[0], text + bytes, sizeof(text) - 1 - bytes)) > 0;)
        bytes += (size_t)n;
    close(pipes[0]);
    text[bytes] = '\0';
    for (char *rest = text, *line; (line = strtok_r(rest, "\n", &rest));) {
        int n;
        assert_int_equal(strncmp(line, "time=", 5), 0); /* whole lines only */
        char *number = strstr(line, " n="), *count = strstr(line, "nobody read them\" count=");
        if (count)
            assert_int_equal(sscanf(strchr(count, '=') + 1, "%d", &dropped), 1);
        if (!number)
            continue;
        assert_int_equal(sscanf(number, " n=%d", &n), 1);
        assert_true(n > last); /* in order */
        last = n;
        kept_lines++;
    }
    assert_int_equal(last, LINES);
    assert_true(dropped > 0);
    assert_int_equal(kept_lines + dropped, LINES + 1);
}

TEST(who_reads_no_more_costs_nothing) {
    signal(SIGPIPE, SIG_IGN);
    log_begin();
    close(pipes[0]);
    for (int n = 0; n < 3000; n++)
        log_info("event", "n=%d", n);
    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[1], STDERR_FILENO);
    log_info("event", "n=%d", 1);
    assert_string_equal(log_end(), "level=info msg=\"event\" n=1\n"); /* nothing was kept */
}

/* The same pairs as an object. */
TEST(a_line_may_be_json) {
    static const struct {
        const char *value, *json;
    } cases[] = {
        {"plain", "\"plain\""},
        {"", "\"\""},
        {"7", "\"7\""},
        {"two words=3", "\"two words=3\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"x\n\x01", "\"x ?\""},
        {"\xc3\xa9\xff", "\"\xc3\xa9?\""},
    };
    char expected[200];
    log_set_format(LOG_JSON);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(expected, sizeof(expected), "\"level\":\"info\",\"msg\":\"event\",\"value\":%s,\"n\":1}\n",
                 cases[i].json);
        assert_string_equal(LOGGED("value=%s n=%d", cases[i].value, 1), expected);
        snprintf(expected, sizeof(expected), "\"level\":\"info\",\"msg\":\"event\",\"n\":1,\"value\":%s}\n",
                 cases[i].json);
        assert_string_equal(LOGGED("n=%d value=\"%s\"", 1, cases[i].value), expected);
    }
    log_begin();
    log_warn("it said \"no\"", "a=%.3f b=%llu c=%d d=%s:%u e=00%d f=%.1e g=-%d h=1.%s i", 0.5, 18446744073709551615ULL,
             -3, "10.0.0.1", 80, 7, 1e20, 0, "");
    assert_string_equal(
        log_end(), "\"level\":\"warn\",\"msg\":\"it said \\\"no\\\"\",\"a\":0.500,\"b\":18446744073709551615,\"c\":-3,"
                   "\"d\":\"10.0.0.1:80\",\"e\":\"007\",\"f\":1.0e+20,\"g\":-0,\"h\":\"1.\"}\n");
    log_set_format(LOG_LOGFMT);
}
