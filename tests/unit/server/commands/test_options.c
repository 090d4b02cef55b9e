/* test_options.c - values, ranges and mistakes of the option table. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "server/commands/options.h"

struct settings {
    int64_t count;
    double rate;
    const char *host;
    int format;
    bool json;
    int cores[4], cores_count;
};

static int core_parse(const char *text, void *settings, struct sy_error *err) {
    struct settings *s = settings;
    int64_t core;
    int rc = options_read_int(text, 0, 63, &core, err);
    if (!rc)
        s->cores[s->cores_count++] = (int)core;
    return rc;
}

static const struct option_row rows[] = {
    OPTION_HEADING("Load"),
    OPTION_INT(struct settings, count, "count", "N", 1, 100, "how many"),
    OPTION_DOUBLE(struct settings, rate, "rate", "R", 0.5, 1e6, "requests per second"),
    OPTION_TEXT(struct settings, host, "host", "ADDR", "where"),
    OPTION_CHOICE(struct settings, format, "format", "json|binary", "how"),
    OPTION_FLAG(struct settings, json, "json", "machine-readable"),
    OPTION_PARSED("core", "N", core_parse, "a core; may be repeated"),
    OPTION_END,
};
static const struct option_foreign foreign[] = {
    {"qps|requests-per-second", "here it is --rate"},
    {"older|old-*", "there is nothing old here"},
    {NULL, NULL},
};
static const struct options options = {.command = "bench",
                                       .usage = "URL [OPTION]...",
                                       .rows = rows,
                                       .args_min = 1,
                                       .args_max = 2,
                                       .args_name = "URL",
                                       .foreign = foreign};

/* Splits `line` at blanks into argv behind a command's name, and reads it. */
static int read_line(const char *line, struct settings *s, char *copy, char **argv, int *args_count,
                     struct sy_error *err) {
    int argc = 1;
    argv[0] = "bench";
    strcpy(copy, line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    *s = (struct settings){.count = 7, .format = 1};
    return options_read(&options, argc, argv, s, args_count, err);
}

TEST(values_land_in_the_settings) {
    struct settings s;
    char copy[256], *argv[32];
    int n;
    struct sy_error err;
    assert_int_equal(
        read_line("--count 12 first --rate=2.5 --format json --core 1 --core=3 --json --host h -- --second", &s, copy,
                  argv, &n, &err),
        0);
    assert_int_equal(s.count, 12);
    assert_true(s.rate == 2.5);
    assert_string_equal(s.host, "h");
    assert_int_equal(s.format, 0);
    assert_true(s.json);
    assert_int_equal(s.cores_count, 2);
    assert_int_equal(s.cores[1], 3);
    assert_int_equal(n, 2);
    assert_string_equal(argv[1], "first");
    assert_string_equal(argv[2], "--second");
}

TEST(defaults_stay) {
    struct settings s;
    char copy[256], *argv[32];
    int n;
    assert_int_equal(read_line("u", &s, copy, argv, &n, NULL), 0);
    assert_int_equal(s.count, 7);
    assert_int_equal(s.format, 1);
    assert_false(s.json);
    assert_null(s.host);
}

TEST(mistakes_name_the_option) {
    static const struct {
        const char *line, *want;
    } cases[] = {
        {"u --count 0", "--count: 0 is not in 1 to 100"},
        {"u --count 101", "--count: 101 is not in 1 to 100"},
        {"u --count 99999999999999999999", "--count: 99999999999999999999 is not in 1 to 100"},
        {"u --count 5x", "--count: '5x' is not a whole number"},
        {"u --count=", "--count: the value is empty"},
        {"u --rate nan", "--rate: 'nan' is not a number"},
        {"u --rate inf", "--rate: 'inf' is not a number"},
        {"u --rate 0.4", "--rate: 0.4 is not in 0.5 to 1000000"},
        {"u --format jso", "--format: 'jso' is not one of json|binary"},
        {"u --json=yes", "--json takes no value"},
        {"u --rate", "--rate needs a value: R"},
        {"u --core 64", "--core: 64 is not in 0 to 63"},
        {"u --nothing=3", "unknown option '--nothing'"},
        {"u --coun 3", "unknown option '--coun'; did you mean --count?"},
        {"u --hsot=h", "unknown option '--hsot'; did you mean --host?"},
        {"u --qps 3", "unknown option '--qps': here it is --rate"},
        {"u --requests-per-second 3", "unknown option '--requests-per-second': here it is --rate"},
        {"u --old-count=3", "unknown option '--old-count': there is nothing old here"},
        {"u --Load", "unknown option '--Load'"},
        {"u -x", "unknown option '-x'"},
        {"u v w", "unexpected argument 'w'"},
        {"--json", "URL is missing"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct settings s;
        char copy[256], *argv[32];
        int n;
        struct sy_error err = {""};
        assert_int_equal(read_line(cases[i].line, &s, copy, argv, &n, &err), -EINVAL);
        assert_string_equal(err.text, cases[i].want);
    }
}

TEST(help_shows_defaults_and_wraps) {
    static const struct option_row long_rows[] = {
        OPTION_INT(struct settings, count, "count", "N", 1, 100,
                   "a rather long explanation that does not fit on one line of the help and therefore goes on upon a "
                   "second one"),
        OPTION_DOUBLE(struct settings, rate, "rate", "R", 0.5, 1e6, "no default"),
        OPTION_CHOICE(struct settings, format, "format", "json|binary", "how"),
        OPTION_END,
    };
    static const struct options with = {.command = "bench", .usage = "URL", .rows = long_rows};
    struct settings s = {.count = 7, .format = 1};
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    options_print_help(&with, &s, to);
    fclose(to);
    assert_non_null(strstr(text, "Usage: symphony bench URL\n"));
    assert_non_null(strstr(text, "\n                          therefore goes on upon a second one (default: 7)\n"));
    assert_non_null(strstr(text, "  --rate R                no default\n"));
    assert_non_null(strstr(text, "how (default: binary)\n"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 100);
    free(text);
}
