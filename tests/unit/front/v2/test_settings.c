/* test_settings.c - the settings of logging as Triton has them, over one level. */
#include "front/v2/settings.h"

#include <string.h>

#include "core/system/log.h"
#include "unit/test.h"

static const struct setting info_on = {.name = "log_info", .flag = true}, info_off = {.name = "log_info"};
static const struct setting warning_on = {.name = "log_warning", .flag = true}, warning_off = {.name = "log_warning"};
static const struct setting verbose = {.name = "log_verbose_level", .kind = SETTING_NUMBER, .number = 1};
static const struct setting not_verbose = {.name = "log_verbose_level", .kind = SETTING_NUMBER};

static int keep_level(void **state) {
    static enum log_level before;
    before = log_get_level();
    *state = &before;
    return 0;
}

static int restore_level(void **state) {
    log_set_level(*(enum log_level *)*state);
    return 0;
}

/* What a client that has changed something reads. */
static void assert_shown(enum log_level level) {
    struct setting now[LOG_SETTINGS];
    log_settings_read(now);
    for (int i = 0; i < LOG_SETTINGS; i++)
        if (strcmp(now[i].name, "log_info") == 0)
            assert_int_equal(now[i].flag, level <= LOG_INFO);
        else if (strcmp(now[i].name, "log_warning") == 0)
            assert_int_equal(now[i].flag, level <= LOG_WARN);
        else if (strcmp(now[i].name, "log_error") == 0)
            assert_true(now[i].flag);
        else if (strcmp(now[i].name, "log_verbose_level") == 0)
            assert_int_equal(now[i].number, level == LOG_DEBUG);
}

TEST_WITH(each_setting_moves_the_level, keep_level, restore_level) {
    static const struct {
        enum log_level before;
        const struct setting *change;
        enum log_level after;
    } cases[] = {
        {LOG_INFO, &info_off, LOG_WARN},     {LOG_DEBUG, &info_off, LOG_WARN},    {LOG_ERROR, &info_off, LOG_ERROR},
        {LOG_WARN, &info_on, LOG_INFO},      {LOG_ERROR, &info_on, LOG_INFO},     {LOG_DEBUG, &info_on, LOG_DEBUG},
        {LOG_INFO, &warning_off, LOG_ERROR}, {LOG_ERROR, &warning_on, LOG_WARN},  {LOG_DEBUG, &warning_on, LOG_DEBUG},
        {LOG_ERROR, &verbose, LOG_DEBUG},    {LOG_DEBUG, &not_verbose, LOG_INFO}, {LOG_WARN, &not_verbose, LOG_WARN},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sy_error err;
        log_set_level(cases[i].before);
        assert_int_equal(log_settings_change(cases[i].change, 1, &err), 0);
        assert_int_equal(log_get_level(), cases[i].after);
        assert_shown(cases[i].after);
    }
}

/* What one of them asks for is not undone by the next. */
TEST_WITH(several_come_at_once, keep_level, restore_level) {
    static const struct {
        enum log_level before;
        const struct setting *changes[2];
        enum log_level after;
    } cases[] = {
        {LOG_INFO, {&warning_off, &info_off}, LOG_ERROR},
        {LOG_WARN, {&verbose, &info_on}, LOG_DEBUG},
        {LOG_ERROR, {&info_on, &warning_on}, LOG_INFO},
        {LOG_DEBUG, {&info_off, &not_verbose}, LOG_WARN},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct setting both[] = {*cases[i].changes[0], *cases[i].changes[1]};
        struct sy_error err;
        log_set_level(cases[i].before);
        assert_int_equal(log_settings_change(both, 2, &err), 0);
        assert_int_equal(log_get_level(), cases[i].after);
        assert_shown(cases[i].after);
    }
}

/* A client may send back all that it has read, with one change. */
TEST_WITH(what_is_in_force_may_be_sent, keep_level, restore_level) {
    struct setting all[LOG_SETTINGS];
    struct sy_error err;
    log_set_level(LOG_WARN);
    log_settings_read(all);
    assert_int_equal(log_settings_change(all, LOG_SETTINGS, &err), 0);
    assert_int_equal(log_get_level(), LOG_WARN);
    for (int i = 0; i < LOG_SETTINGS; i++)
        if (strcmp(all[i].name, "log_info") == 0)
            all[i].flag = true;
    assert_int_equal(log_settings_change(all, LOG_SETTINGS, &err), 0);
    assert_int_equal(log_get_level(), LOG_INFO);
}

/* And then nothing changes, whatever stood before it. */
TEST_WITH(mistakes_are_named, keep_level, restore_level) {
    static const struct {
        struct setting setting;
        int status;
        const char *text;
    } cases[] = {
        {{.name = "log_colour"}, 400, "there is no log setting 'log_colour'"},
        {{.name = "log_info", .kind = SETTING_NUMBER}, 400, "'log_info' is true or false"},
        {{.name = "log_verbose_level", .kind = SETTING_TEXT, .text = "1"}, 400, "'log_verbose_level' is a number"},
        {{.name = "log_file"}, 400, "'log_file' is a string"},
        {{.name = "log_file", .kind = SETTING_TEXT, .text = "x"}, 501, "'log_file' cannot be changed"},
        {{.name = "log_error", .flag = false}, 501, "'log_error' cannot be changed"},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct setting both[] = {info_off, cases[i].setting};
        struct sy_error err = {""};
        log_set_level(LOG_INFO);
        assert_int_equal(log_settings_change(both, 2, &err), cases[i].status);
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(log_get_level(), LOG_INFO);
    }
}

TEST(without_a_file_nothing_is_traced) {
    struct trace_setting settings[TRACE_SETTINGS];
    trace_settings_read(NULL, TRACING_ALL, settings);
    assert_string_equal(settings[0].name, "trace_level");
    assert_string_equal(settings[0].value, "OFF");
    assert_string_equal(settings[1].name, "trace_rate");
    assert_string_equal(settings[1].value, "1000");
    assert_string_equal(settings[2].value, "-1");
    assert_string_equal(settings[4].value, "");
}
