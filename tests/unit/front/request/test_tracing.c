/* test_tracing.c - trace settings: what clients may set, and which requests are then traced. */
#include "unit/test.h"

#include "front/request/tracing.h"

#define MODELS 3

static int change(struct tracing *t, uint32_t model, const char *name, const char *value) {
    struct sy_error err = {.text = ""};
    const struct tracing_change one = {.name = name, .values = &value, .count = value ? 1 : 0};
    int status = tracing_change(t, model, &one, 1, &err);
    assert_int_equal(status != 0, *err.text != '\0');
    return status;
}

/* Traces among so many requests of a model. */
static int traced(struct tracing *t, uint32_t model, int requests) {
    uint32_t skipped = 0;
    int count = 0;
    for (int i = 0; i < requests; i++)
        count += tracing_takes(t, model, &skipped);
    return count;
}

TEST(settings_are_of_the_server_and_of_models) {
    struct tracing t;
    assert_int_equal(tracing_init(&t, "file", MODELS), 0);
    assert_int_equal(traced(&t, 0, 5000), 0);
    assert_int_equal(change(&t, TRACING_ALL, "trace_level", "TIMESTAMPS"), 0);
    assert_int_equal(traced(&t, 0, 5000), 5); /* one in a thousand, as with Triton */
    assert_int_equal(change(&t, 1, "trace_rate", "10"), 0);
    assert_int_equal(traced(&t, 0, 5000), 5);
    assert_int_equal(traced(&t, 1, 5000), 500);
    assert_int_equal(change(&t, TRACING_ALL, "trace_rate", "100"), 0);
    assert_int_equal(traced(&t, 0, 5000), 50);
    assert_int_equal(traced(&t, 1, 5000), 500); /* it has a rate of its own */
    assert_int_equal(change(&t, 1, "trace_rate", NULL), 0);
    assert_int_equal(traced(&t, 1, 5000), 50);
    assert_int_equal(change(&t, 2, "trace_level", "OFF"), 0);
    assert_int_equal(traced(&t, 2, 5000), 0);
    tracing_forget(&t, 2);
    assert_int_equal(traced(&t, 2, 5000), 50);
    assert_int_equal(change(&t, TRACING_ALL, "trace_level", NULL), 0);
    assert_int_equal(traced(&t, 0, 5000), 0);
    assert_false(tracing_settings(&t, TRACING_ALL).on);
    assert_int_equal(tracing_settings(&t, TRACING_ALL).rate, 100);
    tracing_free(&t);
}

TEST(traces_are_counted) {
    struct tracing t;
    static const char *const values[] = {"TIMESTAMPS", "1", "7"};
    const struct tracing_change all[] = {
        {.name = "trace_level", .values = &values[0], .count = 1},
        {.name = "trace_rate", .values = &values[1], .count = 1},
        {.name = "trace_count", .values = &values[2], .count = 1},
    };
    struct sy_error err;
    assert_int_equal(tracing_init(&t, "file", MODELS), 0);
    assert_int_equal(tracing_change(&t, 1, all, 3, &err), 0);
    assert_int_equal(traced(&t, 1, 5), 5);
    assert_int_equal(change(&t, 1, "trace_rate", "2"), 0); /* goes on counting */
    assert_int_equal(traced(&t, 1, 100), 2);
    assert_int_equal(change(&t, 1, "trace_count", "3"), 0);
    assert_int_equal(traced(&t, 1, 100), 3);
    assert_int_equal(change(&t, 1, "trace_level", "TIMESTAMPS"), 0); /* begins anew */
    assert_int_equal(traced(&t, 1, 100), 3);
    assert_int_equal(change(&t, 1, "trace_count", "-1"), 0);
    assert_int_equal(traced(&t, 1, 100), 50);
    tracing_free(&t);
}

TEST(mistakes_change_nothing) {
    struct tracing t;
    struct sy_error err;
    assert_int_equal(tracing_init(&t, "file", MODELS), 0);
    static const struct {
        const char *name, *value;
        uint32_t model;
        int status;
    } wrong[] = {
        {"trace_level", "ALL", 0, 400},
        {"trace_level", "TENSORS", 0, 501},
        {"trace_rate", "0", 0, 400},
        {"trace_rate", "-1", 0, 400},
        {"trace_rate", "1x", 0, 400},
        {"trace_rate", "", 0, 400},
        {"trace_rate", "4294967296", 0, 400},
        {"trace_count", "-2", 0, 400},
        {"trace_file", "/etc/passwd", TRACING_ALL, 501},
        {"trace_mode", "opentelemetry", 0, 501},
        {"log_frequency", "3", 0, 501},
        {"log_frequency", "-3", TRACING_ALL, 400},
        {"trace_colour", "red", 0, 400},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(change(&t, wrong[i].model, wrong[i].name, wrong[i].value), wrong[i].status);
    static const char *const values[] = {"TIMESTAMPS", "0"};
    const struct tracing_change half[] = {
        {.name = "trace_level", .values = &values[0], .count = 1},
        {.name = "trace_rate", .values = &values[1], .count = 1},
    };
    assert_int_equal(tracing_change(&t, TRACING_ALL, half, 2, &err), 400);
    assert_false(tracing_settings(&t, TRACING_ALL).on);
    assert_int_equal(tracing_settings(&t, 0).rate, 1000);
    tracing_free(&t);
}

TEST(without_a_file_it_stays_off) {
    assert_int_equal(change(NULL, TRACING_ALL, "trace_level", "OFF"), 0);
    assert_int_equal(change(NULL, TRACING_ALL, "trace_level", NULL), 0);
    assert_int_equal(change(NULL, TRACING_ALL, "trace_level", "TIMESTAMPS"), 501);
    assert_int_equal(change(NULL, 0, "trace_rate", "1"), 501);
    assert_false(tracing_settings(NULL, TRACING_ALL).on);
}
