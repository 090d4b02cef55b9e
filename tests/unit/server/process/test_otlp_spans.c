/* test_otlp_spans.c - trails as spans, read back as JSON. */
#include "unit/test.h"

#include <jansson.h>
#include <string.h>

#include "server/process/otlp_spans.h"

#define WALL_NS 1700000000000000000LL

static const struct trail_names names = {.model = "a\"b", .version = 3, .wall_ns = WALL_NS};

/* The spans of a trail, as a collector reads them. */
static json_t *spans_of(const struct trail *trail, uint64_t salt) {
    struct text text;
    json_error_t error;
    text_init(&text, NULL, 0);
    otlp_begin(&text, "models");
    unsigned count = otlp_spans_put(&text, trail, &names, salt);
    otlp_end(&text);
    json_t *root = json_loadb(text.data, text.length, 0, &error), *spans = NULL;
    assert_non_null(root);
    assert_int_equal(json_unpack(root, "{s:[{s:[{s:O}]}]}", "resourceSpans", "scopeSpans", "spans", &spans), 0);
    assert_int_equal(json_array_size(spans), count);
    json_decref(root);
    text_free(&text);
    return spans;
}

static const char *string_of(json_t *spans, size_t n, const char *name) {
    return json_string_value(json_object_get(json_array_get(spans, n), name));
}

static const char *attribute_of(json_t *spans, size_t n, const char *name) {
    json_t *attributes = json_object_get(json_array_get(spans, n), "attributes"), *one;
    size_t i;
    json_array_foreach(attributes, i, one) {
        json_t *value = json_object_get(one, "value");
        if (strcmp(json_string_value(json_object_get(one, "key")), name) == 0)
            return json_string_value(json_object_iter_value(json_object_iter(value)));
    }
    return NULL;
}

TEST(a_request_that_ran_has_five_spans) {
    static const char *const span_names[] = {"infer a\"b", "receive", "queue", "run", "reply"};
    static const int64_t from_us[] = {0, 0, 10, 500, 1500}, to_us[] = {1600, 10, 500, 1500, 1600};
    struct trail trail = {
        .arrival_ns = 7,
        .body_us = 10,
        .start_us = 500,
        .run_us = 1000,
        .took_us = 1600,
        .allowed_us = 5000,
        .batch_items = 4,
        .past = {.before = MODEL_NONE, .predicted_us = 900, .accelerator = 2},
        .status = 200,
        .state = TRAIL_IN_TIME,
        .id = "x",
        .id_length = 1,
        .trace = {.trace = {1, 2, 0xff}, .parent = {0xab}, .flags = TRACE_GIVEN | TRACE_SAMPLED},
    };
    json_t *spans = spans_of(&trail, 5);
    assert_int_equal(json_array_size(spans), OTLP_SPANS_MOST);
    for (size_t n = 0; n < OTLP_SPANS_MOST; n++) {
        char from[32], to[32];
        snprintf(from, sizeof(from), "%lld", WALL_NS + from_us[n] * NS_PER_US);
        snprintf(to, sizeof(to), "%lld", WALL_NS + to_us[n] * NS_PER_US);
        assert_string_equal(string_of(spans, n, "name"), span_names[n]);
        assert_string_equal(string_of(spans, n, "startTimeUnixNano"), from);
        assert_string_equal(string_of(spans, n, "endTimeUnixNano"), to);
        assert_string_equal(string_of(spans, n, "traceId"), "0102ff00000000000000000000000000");
        assert_int_equal(strlen(string_of(spans, n, "spanId")), 16);
        assert_string_equal(string_of(spans, n, "parentSpanId"),
                            n == 0 ? "ab00000000000000" : string_of(spans, 0, "spanId"));
        for (size_t m = 0; m < n; m++)
            assert_string_not_equal(string_of(spans, n, "spanId"), string_of(spans, m, "spanId"));
    }
    assert_string_equal(attribute_of(spans, 0, "symphony.model"), "a\"b");
    assert_string_equal(attribute_of(spans, 0, "symphony.state"), "in_time");
    assert_string_equal(attribute_of(spans, 3, "symphony.batch"), "4");
    assert_string_equal(attribute_of(spans, 3, "symphony.accelerator"), "2");
    assert_null(json_object_get(json_array_get(spans, 0), "status"));
    json_decref(spans);
}

TEST(a_refused_request_says_why) {
    struct trail trail = {
        .arrival_ns = 7,
        .took_us = 40,
        .allowed_us = 1000,
        .past = {.before = MODEL_NONE},
        .status = 503,
        .state = TRAIL_REFUSED,
        .refusal = REFUSAL_DEADLINE,
        .cause = CAUSE_SHORT,
        .figures = {.run_us = 30000},
        .id = "x",
        .id_length = 1,
    };
    json_t *spans = spans_of(&trail, 5), *others = spans_of(&trail, 6);
    assert_int_equal(json_array_size(spans), 3);
    assert_string_equal(attribute_of(spans, 0, "symphony.reason"), "deadline_too_short");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json_array_get(spans, 0), "status"), "code")),
                     2);
    /* without a context of the client the ids are made, in each process its own */
    assert_int_equal(strlen(string_of(spans, 0, "traceId")), 32);
    assert_null(string_of(spans, 0, "parentSpanId"));
    assert_string_not_equal(string_of(spans, 0, "traceId"), string_of(others, 0, "traceId"));
    json_decref(spans);
    json_decref(others);
}

TEST(the_client_decides_what_is_recorded) {
    struct trail trail = {.trace = {.flags = 0}};
    assert_true(otlp_wanted(&trail));
    trail.trace.flags = TRACE_GIVEN;
    assert_false(otlp_wanted(&trail));
    trail.trace.flags = TRACE_GIVEN | TRACE_SAMPLED;
    assert_true(otlp_wanted(&trail));
}
