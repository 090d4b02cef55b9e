/* test_payload.c - the bytes of a request: lengths that agree, JSON that parses, values in range. */
#include "unit/test.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/load/payload.h"

static const struct server server = {.path = "/base", .authority = "h:8000", .headers = "X-Api-Key: k\r\n"};

#define TYPES (DATATYPE_COUNT - 1) /* but DATATYPE_INVALID */

/* One input of each type, two items of three elements. */
static struct target_model model_make(struct target_input *inputs) {
    for (enum datatype t = DATATYPE_BOOL; t < DATATYPE_COUNT; t++)
        inputs[t - 1] = (struct target_input){
            .name = (char *)datatype_name(t), .type = t, .dim_count = 2, .dims = {2, 3}, .batched = true};
    return (struct target_model){.name = "a b", .inputs_count = TYPES, .inputs = inputs};
}

/* A header's number; the header must be there. */
static size_t header_number(const char *head, const char *name) {
    const char *at = strstr(head, name);
    assert_non_null(at);
    return strtoul(at + strlen(name), NULL, 10);
}

/* The body behind the head, whose length must be as announced. */
static const char *body_find(const struct payload *p, size_t *length) {
    const char *end = memmem(p->bytes, p->length, "\r\n\r\n", 4);
    assert_non_null(end);
    *length = p->length - (size_t)(end + 4 - p->bytes);
    assert_int_equal(header_number(p->bytes, "\r\nContent-Length: "), *length);
    return end + 4;
}

static double half_value(uint16_t half) {
    int exponent = (half >> 10) & 31;
    return exponent ? ldexp(1.0 + (half & 1023) / 1024.0, exponent - 15) : ldexp((half & 1023) / 1024.0, -14);
}

/* An element of a binary tensor as a number. */
static double element_value(enum datatype type, const char *at) {
    uint64_t integer = 0;
    uint32_t bits;
    float real;
    double real64;
    memcpy(&integer, at, datatype_bytes(type));
    switch (type) {
    case DATATYPE_FP16:
        return half_value((uint16_t)integer);
    case DATATYPE_BF16:
        bits = (uint32_t)integer << 16;
        memcpy(&real, &bits, sizeof(real));
        return real;
    case DATATYPE_FP32:
        memcpy(&real, at, sizeof(real));
        return real;
    case DATATYPE_FP64:
        memcpy(&real64, at, sizeof(real64));
        return real64;
    default:
        return (double)integer;
    }
}

static double json_value(const json_t *json) {
    return json_is_boolean(json) ? json_boolean_value(json) : json_number_value(json);
}

/* The same seed gives the same values in both forms (BF16 is rounded), of the right types and ranges. */
TEST(binary_and_json_carry_the_same_values) {
    struct target_input inputs[TYPES];
    struct target_model model = model_make(inputs);
    struct payload binary, text;
    struct payload_options options = {.binary_outputs = true, .timeout_us = 25000},
                           json_options = {.json_tensors = true};
    assert_int_equal(payload_build(&binary, &server, &model, &options, 9, NULL), 0);
    assert_int_equal(payload_build(&text, &server, &model, &json_options, 9, NULL), 0);
    static const char start[] = "POST /base/v2/models/a%20b/infer HTTP/1.1\r\nHost: h:8000\r\nX-Api-Key: k\r\n";
    assert_memory_equal(binary.bytes, start, sizeof(start) - 1);
    assert_memory_equal(text.bytes, start, sizeof(start) - 1);

    size_t length, json_length = header_number(binary.bytes, "\r\nInference-Header-Content-Length: ");
    const char *body = body_find(&binary, &length);
    json_t *head = json_loadb(body, json_length, 0, NULL);
    assert_non_null(head);
    json_t *parameters = json_object_get(head, "parameters");
    assert_true(json_is_true(json_object_get(parameters, "binary_data_output")));
    assert_int_equal(json_integer_value(json_object_get(parameters, "timeout")), 25000);

    size_t text_length;
    const char *text_body = body_find(&text, &text_length);
    assert_null(strstr(text.bytes, "Inference-Header"));
    json_t *whole = json_loadb(text_body, text_length, 0, NULL);
    assert_non_null(whole);
    assert_null(json_object_get(whole, "parameters"));

    const char *at = body + json_length;
    for (enum datatype t = DATATYPE_BOOL; t < DATATYPE_COUNT; t++) {
        json_t *described = json_array_get(json_object_get(head, "inputs"), t - 1);
        json_t *given = json_array_get(json_object_get(whole, "inputs"), t - 1);
        assert_string_equal(json_string_value(json_object_get(described, "datatype")), datatype_name(t));
        assert_string_equal(json_string_value(json_object_get(given, "name")), datatype_name(t));
        assert_int_equal(json_integer_value(json_array_get(json_object_get(described, "shape"), 0)), 2);
        json_t *data = json_object_get(given, "data");
        assert_int_equal(json_array_size(data), 6);
        uint32_t bytes = t == DATATYPE_BYTES ? 12 : datatype_bytes(t);
        assert_int_equal(
            json_integer_value(json_object_get(json_object_get(described, "parameters"), "binary_data_size")),
            6 * bytes);
        for (int i = 0; i < 6; i++, at += bytes) {
            json_t *value = json_array_get(data, (size_t)i);
            if (t == DATATYPE_BYTES) {
                assert_memory_equal(at, "\x08\0\0\0", 4);
                assert_memory_equal(at + 4, json_string_value(value), 8);
                continue;
            }
            double number = element_value(t, at);
            assert_true(fabs(number - json_value(value)) <= (t == DATATYPE_BF16 ? 0.01 : 1e-6));
            assert_true(number >= 0 && number < (t == DATATYPE_BOOL ? 2 : t >= DATATYPE_FP16 ? 1 : 100));
        }
    }
    assert_ptr_equal(at, body + length);
    json_decref(head);
    json_decref(whole);
    free(binary.bytes);
    free(text.bytes);
}

TEST(seeds_differ) {
    struct target_input inputs[TYPES];
    struct target_model model = model_make(inputs);
    struct payload a, b;
    struct payload_options options = {.binary_outputs = false};
    assert_int_equal(payload_build(&a, &server, &model, &options, 1, NULL), 0);
    assert_int_equal(payload_build(&b, &server, &model, &options, 2, NULL), 0);
    assert_int_equal(a.length, b.length);
    assert_memory_not_equal(a.bytes, b.bytes, a.length);
    free(a.bytes);
    free(b.bytes);
}

TEST(names_are_escaped) {
    struct target_input input = {.name = "in\"put\n", .type = DATATYPE_FP32, .dim_count = 1, .dims = {1}};
    struct target_model model = {.name = "m", .inputs_count = 1, .inputs = &input};
    struct payload p;
    struct payload_options options = {.json_tensors = true};
    assert_int_equal(payload_build(&p, &server, &model, &options, 1, NULL), 0);
    size_t length;
    const char *body = body_find(&p, &length);
    json_t *json = json_loadb(body, length, 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(json, "inputs"), 0), "name")),
                        "in\"put\n");
    json_decref(json);
    free(p.bytes);
}

TEST(endless_requests_are_refused) {
    struct target_input input = {
        .name = "x", .type = DATATYPE_FP32, .dim_count = 3, .dims = {1LL << 39, 1LL << 39, 1LL << 39}};
    struct target_model model = {.name = "m", .inputs_count = 1, .inputs = &input};
    struct payload p;
    struct payload_options options = {.json_tensors = false};
    struct sy_error err;
    assert_true(payload_build(&p, &server, &model, &options, 1, &err) < 0);
    assert_non_null(strstr(err.text, "model 'm'"));
}
