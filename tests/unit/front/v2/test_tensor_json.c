/* test_tensor_json.c - decimal to binary and back, against the C library on seeded random numbers. */
#include "unit/test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/yield.h"
#include "core/util/container.h"
#include "core/util/rng.h"
#include "front/v2/tensor_json.h"
#include "histories.h"

#define NUMBERS 400000 /* drawn by each test that draws some */

static int read_text(const char *text, enum datatype type, const int64_t *dims, uint32_t dim_count, void *out,
                     struct sy_error *err) {
    struct json_scan scan = {text, text, text + strlen(text), err};
    int rc = tensor_json_read(&scan, type, dims, dim_count, out);
    if (rc == 0)
        assert_ptr_equal(scan.at, scan.end);
    return rc;
}

/* The text is exactly as long as the number: a reader that goes past its end is caught by the address sanitizer. */
static struct json_number scan_number(const char *text) {
    struct json_number number;
    const char *behind = json_number_scan(text, text + strlen(text), &number);
    assert_ptr_equal(behind, text + strlen(text));
    return number;
}

static void check_number(const char *text) {
    struct json_number number = scan_number(text);
    double d = tensor_json_double(&number), d_want = strtod(text, NULL);
    float f = tensor_json_float(&number), f_want = strtof(text, NULL);
    if (memcmp(&d, &d_want, sizeof(d)) != 0)
        fail_msg("%s: %a, but strtod says %a", text, d, d_want);
    if (memcmp(&f, &f_want, sizeof(f)) != 0)
        fail_msg("%s: %a, but strtof says %a", text, (double)f, (double)f_want);
}

TEST(numbers_are_rounded_like_the_c_library) {
    static const char *const hard[] = {"0",
                                       "-0",
                                       "0.0",
                                       "-0.0e10",
                                       "1",
                                       "-1",
                                       "0.1",
                                       "1e0",
                                       "1E+2",
                                       "1e-2",
                                       "123456789012345678",
                                       "9007199254740993",
                                       "9007199254740992.999",
                                       "9007199254740993.0",
                                       "1.7976931348623157e308",
                                       "1.7976931348623159e308",
                                       "4.9406564584124654e-324",
                                       "2.4703282292062327e-324",
                                       "2.2250738585072011e-308",
                                       "2.2250738585072014e-308",
                                       "3.4028234663852886e38",
                                       "3.4028235677973366e38",
                                       "3.4028235677973362e38",
                                       "1.1754943508222875e-38",
                                       "1.4012984643248171e-45",
                                       "7.0064923216240853e-46",
                                       "7.0064923216240854e-46",
                                       "16777217",
                                       "16777217.0000001",
                                       "16777216.9999999",
                                       "33554433e0",
                                       "0.50000002980232238769531250",
                                       "0.500000029802322387695312500001",
                                       "8388608.5",
                                       "8388609.5",
                                       "1e23",
                                       "8.5e22",
                                       "1e22",
                                       "1e-22",
                                       "1e-64",
                                       "1e64",
                                       "1e65",
                                       "1e-65",
                                       "1e400",
                                       "1e-400",
                                       "12345678901234567890",
                                       "1234567890123456789",
                                       "0.00000000000000000000000000001234567890123456789",
                                       "1000000000000000000000000000000000000000000",
                                       "1.00000000000000011102230246251565404236316680908203125",
                                       "1.00000000000000011102230246251565404236316680908203124",
                                       "1.00000000000000011102230246251565404236316680908203126",
                                       "99999999999999999999e-20",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "0.1234567890123456789012345678901234567890",
                                       "100000000.00000000",
                                       "7.2057594037927933e+16",
                                       "5e-20",
                                       "67e-20",
                                       "985e15"};
    for (size_t i = 0; i < ARRAY_COUNT(hard); i++)
        check_number(hard[i]);
}

TEST(random_numbers_are_rounded_like_the_c_library) {
    struct rng rng;
    char text[400];
    rng_seed(&rng, histories_first());
    for (uint64_t i = 0, count = histories_count(NUMBERS); i < count; i++) {
        uint64_t bits = rng_next(&rng);
        double d;
        memcpy(&d, &bits, sizeof(d));
        float f;
        memcpy(&f, &bits, sizeof(f));
        if (!isfinite(d) || !isfinite(f))
            continue;
        switch (i % 6) {
        case 0:
            snprintf(text, sizeof(text), "%.17g", d);
            break;
        case 1:
            snprintf(text, sizeof(text), "%.17g", (double)f);
            break;
        case 2:
            snprintf(text, sizeof(text), "%.9g", (double)f);
            break;
        case 3: /* a float's midpoint to the next, and near it */
            snprintf(text, sizeof(text), "%.*f", 20 + (int)rng_below(&rng, 10),
                     1 + (double)(2 * rng_below(&rng, 1 << 23) + 1) * 0x1p-24);
            break;
        case 4:
            snprintf(text, sizeof(text), "%llue%d", (unsigned long long)(bits >> rng_below(&rng, 64)),
                     (int)rng_below(&rng, 140) - 70);
            break;
        default:
            snprintf(text, sizeof(text), "%.*f", (int)rng_below(&rng, 18), rng_uniform(&rng) * 1000 - 500);
        }
        check_number(text);
    }
}

TEST(written_floats_read_back) {
    struct rng rng;
    rng_seed(&rng, histories_first() + 1);
    for (uint64_t i = 0, count = histories_count(NUMBERS); i < count; i++) {
        uint32_t bits = i < 600 ? (uint32_t)i * 0x00400000 : (uint32_t)rng_next(&rng);
        if (i % 16 == 7)
            bits &= 0x807fffff; /* subnormal */
        float value, again;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value))
            continue;
        char memory[64], shortest[64];
        struct text text;
        text_init(&text, memory, sizeof(memory));
        assert_int_equal(tensor_json_write(&text, DATATYPE_FP32, &value, sizeof(value), 1), 0);
        const char *written = text_end(&text);
        again = strtof(written + 1, NULL);
        if (memcmp(&again, &value, sizeof(value)) != 0)
            fail_msg("%a is written %s, which is %a", (double)value, written, (double)again);
        struct json_scan scan = {written, written, written + text.length, NULL};
        int64_t one = 1;
        assert_int_equal(tensor_json_read(&scan, DATATYPE_FP32, &one, 1, &again), 0);
        assert_memory_equal(&again, &value, sizeof(value));
        /* no more digits than the C library needs; it may also take a midpoint, which only reads back by being even */
        int digits = 1, used = 0, trailing = 0;
        for (; digits < 9; digits++) {
            snprintf(shortest, sizeof(shortest), "%.*g", digits, (double)value);
            if (strtof(shortest, NULL) == value)
                break;
        }
        for (const char *p = written + 1; *p != 'e' && *p != ']'; p++)
            if (*p >= '0' && *p <= '9') {
                used += used > 0 || *p != '0';
                trailing = *p == '0' && used > 0 ? trailing + 1 : 0;
            }
        float magnitude = fabsf(value);
        double gap = (double)(nextafterf(magnitude, INFINITY) - magnitude);
        bool midpoint = fabs(strtod(shortest, NULL) - (double)value) > 0.499 * gap;
        if (used - trailing > digits && !midpoint)
            fail_msg("%s has more than %d digits", written, digits);
    }
}

static void write_one(enum datatype type, const void *data, const char *want) {
    char memory[64];
    struct text text;
    text_init(&text, memory, sizeof(memory));
    assert_int_equal(tensor_json_write(&text, type, data, datatype_bytes(type), 1), 0);
    assert_string_equal(text_end(&text), want);
}

TEST(each_type_is_written) {
    write_one(DATATYPE_BOOL, &(uint8_t){1}, "[true]");
    write_one(DATATYPE_BOOL, &(uint8_t){0}, "[false]");
    write_one(DATATYPE_UINT8, &(uint8_t){255}, "[255]");
    write_one(DATATYPE_UINT16, &(uint16_t){65535}, "[65535]");
    write_one(DATATYPE_UINT32, &(uint32_t){4294967295U}, "[4294967295]");
    write_one(DATATYPE_UINT64, &(uint64_t){UINT64_MAX}, "[18446744073709551615]");
    write_one(DATATYPE_INT8, &(int8_t){-128}, "[-128]");
    write_one(DATATYPE_INT16, &(int16_t){-32768}, "[-32768]");
    write_one(DATATYPE_INT32, &(int32_t){INT32_MIN}, "[-2147483648]");
    write_one(DATATYPE_INT64, &(int64_t){INT64_MIN}, "[-9223372036854775808]");
    write_one(DATATYPE_FP16, &(uint16_t){0x3c00}, "[1.0]");
    write_one(DATATYPE_FP16, &(uint16_t){0x0001}, "[5.9604645e-8]");
    write_one(DATATYPE_FP16, &(uint16_t){0xfbff}, "[-65504.0]");
    write_one(DATATYPE_BF16, &(uint16_t){0xbf80}, "[-1.0]");
    write_one(DATATYPE_FP32, &(float){0.1F}, "[0.1]");
    write_one(DATATYPE_FP32, &(float){100.5F}, "[100.5]");
    write_one(DATATYPE_FP32, &(float){-0.0F}, "[-0.0]");
    write_one(DATATYPE_FP32, &(float){16777216.0F}, "[16777216.0]");
    write_one(DATATYPE_FP32, &(float){1e9F}, "[1.0e9]");
    write_one(DATATYPE_FP32, &(float){1e-5F}, "[0.00001]");
    write_one(DATATYPE_FP32, &(float){3.4028235e38F}, "[3.4028235e38]");
    write_one(DATATYPE_FP64, &(double){0.1}, "[0.1]");
    write_one(DATATYPE_FP64, &(double){3}, "[3.0]");
    write_one(DATATYPE_FP64, &(double){5e-324}, "[4.94065645841247e-324]");
}

TEST(nan_and_infinities_are_words) {
    write_one(DATATYPE_FP32, &(float){NAN}, "[NaN]");
    write_one(DATATYPE_FP32, &(float){-NAN}, "[NaN]");
    write_one(DATATYPE_FP32, &(float){-INFINITY}, "[-Infinity]");
    write_one(DATATYPE_FP64, &(double){INFINITY}, "[Infinity]");
    write_one(DATATYPE_FP64, &(double){NAN}, "[NaN]");
    write_one(DATATYPE_FP16, &(uint16_t){0x7c00}, "[Infinity]");
    write_one(DATATYPE_FP16, &(uint16_t){0xfe00}, "[NaN]");
    write_one(DATATYPE_BF16, &(uint16_t){0xff80}, "[-Infinity]");
    write_one(DATATYPE_BF16, &(uint16_t){0x7fc0}, "[NaN]");
    static const char text[] = "[NaN,Infinity, -Infinity,Inf,-Inf,-NaN,1]";
    static const int64_t seven = 7;
    float singles[7];
    double doubles[7];
    uint16_t halves[7], bfloats[7];
    assert_int_equal(read_text(text, DATATYPE_FP32, &seven, 1, singles, NULL), 0);
    assert_int_equal(read_text(text, DATATYPE_FP64, &seven, 1, doubles, NULL), 0);
    assert_int_equal(read_text(text, DATATYPE_FP16, &seven, 1, halves, NULL), 0);
    assert_int_equal(read_text(text, DATATYPE_BF16, &seven, 1, bfloats, NULL), 0);
    static const double values[] = {NAN, INFINITY, -INFINITY, INFINITY, -INFINITY, NAN, 1};
    for (int i = 0; i < 7; i++) {
        bool nan = isnan(values[i]);
        assert_true(nan ? isnan(singles[i]) : (double)singles[i] == values[i]);
        assert_true(nan ? isnan(doubles[i]) : doubles[i] == values[i]);
        assert_int_equal(halves[i], nan ? 0x7e00 : i == 6 ? 0x3c00 : values[i] < 0 ? 0xfc00 : 0x7c00);
        assert_int_equal(bfloats[i] & (nan ? 0x7fff : 0xffff), nan             ? 0x7fc0
                                                               : i == 6        ? 0x3f80
                                                               : values[i] < 0 ? 0xff80
                                                                               : 0x7f80);
    }
}

/* Every FP16 and BF16 that is a number comes back from its text. */
TEST(half_floats_read_back) {
    static const struct {
        enum datatype type;
        uint16_t infinite;
    } types[] = {{DATATYPE_FP16, 0x7c00}, {DATATYPE_BF16, 0x7f80}};
    for (size_t t = 0; t < ARRAY_COUNT(types); t++)
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            uint16_t value = (uint16_t)bits, again = 0;
            char memory[64];
            struct text text;
            if ((value & types[t].infinite) == types[t].infinite)
                continue;
            text_init(&text, memory, sizeof(memory));
            assert_int_equal(tensor_json_write(&text, types[t].type, &value, sizeof(value), 1), 0);
            int64_t one = 1;
            assert_int_equal(read_text(text_end(&text), types[t].type, &one, 1, &again, NULL), 0);
            assert_int_equal(again, value);
        }
}

TEST(shapes_nest_or_lie_flat) {
    static const char *const same[] = {"[1,2,3,4,5,6]", " [ [1, 2,3 ],\n[4,5,\t6] ] ", "[[1,2,3],[4,5,6]]"};
    for (size_t i = 0; i < ARRAY_COUNT(same); i++) {
        int32_t out[6] = {0};
        struct json_scan scan = {same[i], same[i], same[i] + strlen(same[i]), NULL};
        assert_int_equal(tensor_json_read(&scan, DATATYPE_INT32, (int64_t[]){2, 3}, 2, out), 0);
        for (int k = 0; k < 6; k++)
            assert_int_equal(out[k], k + 1);
    }
    int32_t deep[4] = {0};
    assert_int_equal(read_text("[[[1],[2]],[[3],[4]]]", DATATYPE_INT32, (int64_t[]){2, 2, 1}, 3, deep, NULL), 0);
    assert_int_equal(deep[3], 4);
    int32_t one = 0;
    assert_int_equal(read_text("[7]", DATATYPE_INT32, NULL, 0, &one, NULL), 0);
    assert_int_equal(one, 7);
}

TEST(mistakes_are_named) {
    static const struct {
        enum datatype type;
        const char *text, *want;
    } cases[] = {
        {DATATYPE_FP32, "[1,2,3]", "expected 4 values, found 3 at byte 6"},
        {DATATYPE_FP32, "[1,2,3,4,5]", "more values than the shape holds at byte 9"},
        {DATATYPE_FP32, "[]", "expected 4 values, found 0"},
        {DATATYPE_FP32, "[[1,2],[3]]", "expected 2 values, found 1"},
        {DATATYPE_FP32, "[[1,2]]", "expected 2 values, found 1"},
        {DATATYPE_FP32, "[[1,2],[3,4],[5,6]]", "expected 2 values, found 3"},
        {DATATYPE_FP32, "[[1,2],3,4]", "expected '['"},
        {DATATYPE_FP32, "[1,[2,3],4]", "expected a number at byte 3, found '['"},
        {DATATYPE_FP32, "[[[1,2],[3,4]]]", "nested deeper than their shape"},
        {DATATYPE_FP32, "[[[[[[[[[[[[1", "nested deeper than their shape"},
        {DATATYPE_FP32, "1", "expected an array of values at byte 0, found '1'"},
        {DATATYPE_FP32, "[1,2,3,4", "the JSON ends there"},
        {DATATYPE_FP32, "[1,2,3,4.", "expected a number at byte 7"},
        {DATATYPE_FP32, "[1,2,3,", "the JSON ends there"},
        {DATATYPE_FP32, "[1,2,,4]", "expected a number at byte 5, found ','"},
        {DATATYPE_FP32, "[1 2]", "expected 4 values, found 1 at byte 3"},
        {DATATYPE_FP32, "[1,2,3,nan]", "expected a number at byte 7, found 'n'"},
        {DATATYPE_FP32, "[1,2,3,Infinite]", "expected ',' or ']' at byte 10, found 'i'"},
        {DATATYPE_FP32, "[1,2,3,- Infinity]", "expected a number at byte 7, found '-'"},
        {DATATYPE_FP32, "[1,2,3,4,NaN]", "more values than the shape holds"},
        {DATATYPE_FP32, "[1,2,3,Na", "expected a number at byte 7"},
        {DATATYPE_INT32, "[1,2,3,NaN]", "expected a number at byte 7, found 'N'"},
        {DATATYPE_BOOL, "[1,0,1,Infinity]", "expected true or false at byte 7, found 'I'"},
        {DATATYPE_FP32, "[1,2,3,01]", "expected a number"},
        {DATATYPE_FP32, "[1,2,3,+1]", "found '+'"},
        {DATATYPE_FP32, "[1,2,3,.5]", "found '.'"},
        {DATATYPE_FP32, "[1,2,3,5.]", "expected a number"},
        {DATATYPE_FP32, "[1,2,3,1e]", "expected a number"},
        {DATATYPE_FP32, "[1,2,3,0x10]", "expected ',' or ']' at byte 8, found 'x'"},
        {DATATYPE_FP32, "[1,2,3,\"4\"]", "expected a number at byte 7, found a string"},
        {DATATYPE_FP32, "[1,2,3,null]", "found 'n'"},
        {DATATYPE_FP32, "[1,2,3,true]", "found 't'"},
        {DATATYPE_FP32, "[1,2,3,1e39]", "1e39 is not in the range of FP32 at byte 7"},
        {DATATYPE_FP64, "[1,2,3,1e309]", "not in the range of FP64"},
        {DATATYPE_FP16, "[1,2,3,65520]", "not in the range of FP16"},
        {DATATYPE_BF16, "[1,2,3,3.4e38]", "not in the range of BF16"},
        {DATATYPE_INT32, "[1,2,3,1.5]", "1.5 is not a value of INT32"},
        {DATATYPE_INT32, "[1,2,3,2147483648]", "not a value of INT32"},
        {DATATYPE_INT8, "[1,2,3,-129]", "not a value of INT8"},
        {DATATYPE_UINT8, "[1,2,3,256]", "not a value of UINT8"},
        {DATATYPE_UINT8, "[1,2,3,-1]", "not a value of UINT8"},
        {DATATYPE_UINT64, "[1,2,3,18446744073709551616]", "not a value of UINT64"},
        {DATATYPE_INT64, "[1,2,3,9223372036854775808]", "not a value of INT64"},
        {DATATYPE_INT64, "[1,2,3,1e19]", "not a value of INT64"},
        {DATATYPE_INT64, "[1,2,3,1e-400]", "not a value of INT64"},
        {DATATYPE_INT64, "[1,2,3,0.99999999999999999999]", "not a value of INT64"},
        {DATATYPE_INT64, "[1,2,3,4.000000000000000000001]", "not a value of INT64"},
        {DATATYPE_UINT64, "[1,2,3,1844674407370955161.6e1]", "not a value of UINT64"},
        {DATATYPE_BOOL, "[true,false,1,2]", "2 is not a value of BOOL"},
        {DATATYPE_BOOL, "[true,false,1,yes]", "expected true or false"},
        {DATATYPE_BOOL, "[true,false,1,true,true]", "more values"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        double out[4]; /* the widest type */
        struct sy_error err = {""};
        assert_int_equal(read_text(cases[i].text, cases[i].type, (int64_t[]){2, 2}, 2, out, &err), -EINVAL);
        if (!strstr(err.text, cases[i].want))
            fail_msg("%s: '%s' does not say '%s'", cases[i].text, err.text, cases[i].want);
    }
}

TEST(whole_numbers_may_be_written_as_fractions) {
    int64_t out[4];
    assert_int_equal(read_text("[1.0,2e3,-5.0e1,-9223372036854775808]", DATATYPE_INT64, (int64_t[]){4}, 1, out, NULL),
                     0);
    assert_int_equal(out[0], 1);
    assert_int_equal(out[1], 2000);
    assert_int_equal(out[2], -50);
    assert_true(out[3] == INT64_MIN);
    assert_int_equal(read_text("[9007199254740993.0,1e18,0.0000000000000000000000e9,-12.3e1]", DATATYPE_INT64,
                               (int64_t[]){4}, 1, out, NULL),
                     0);
    assert_true(out[0] == 9007199254740993); /* 2^53 + 1: no double */
    assert_true(out[1] == 1000000000000000000);
    assert_true(out[2] == 0);
    assert_true(out[3] == -123);
    uint64_t most;
    assert_int_equal(read_text("[1844674407370955161500e-2]", DATATYPE_UINT64, (int64_t[]){1}, 1, &most, NULL), 0);
    assert_true(most == 18446744073709551615U);
    assert_int_equal(read_text("[18446744073709551615]", DATATYPE_UINT64, (int64_t[]){1}, 1, &most, NULL), 0);
    assert_true(most == UINT64_MAX);
}

static int strings_read(const char *json, const int64_t *dims, uint32_t dim_count, char *out, size_t *bytes,
                        struct sy_error *err) {
    struct json_scan scan = {json, json, json + strlen(json), err};
    return tensor_json_read_strings(&scan, dims, dim_count, out, bytes);
}

TEST(strings_become_bytes_and_back) {
    static const struct {
        const char *json;
        int64_t dims[2];
        uint32_t dim_count;
        const char *bytes;
        size_t length;
        const char *written; /* NULL: as it was read */
    } cases[] = {
        {"[\"abc\",\"\"]", {2}, 1, "\3\0\0\0abc\0\0\0\0", 11, NULL},
        {"[[\"a\"],[\"b\"]]", {2, 1}, 2, "\1\0\0\0a\1\0\0\0b", 10, "[\"a\",\"b\"]"},
        {"[\"\\u00e9\\n\\u0000\\ud83d\\ude00/\"]",
         {1},
         1,
         "\x09\0\0\0\xc3\xa9\n\0\xf0\x9f\x98\x80/",
         13,
         "[\"\xc3\xa9\\u000a\\u0000\xf0\x9f\x98\x80/\"]"},
        {"[\"\xc3\xa9\\\\\\\"\"]", {1}, 1, "\4\0\0\0\xc3\xa9\\\"", 8, NULL},
        {"[]", {0}, 1, "", 0, NULL},
        {"[[],[]]", {2, 0}, 2, "", 0, "[]"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char out[64], memory[64];
        size_t bytes;
        struct text text;
        text_init(&text, memory, sizeof(memory));
        assert_int_equal(strings_read(cases[i].json, cases[i].dims, cases[i].dim_count, out, &bytes, NULL), 0);
        assert_int_equal(bytes, cases[i].length);
        assert_memory_equal(out, cases[i].bytes, bytes);
        assert_int_equal(
            tensor_json_write(&text, DATATYPE_BYTES, out, bytes, dims_product(cases[i].dims, 0, cases[i].dim_count)),
            0);
        assert_string_equal(text_end(&text), cases[i].written ? cases[i].written : cases[i].json);
        text_free(&text);
    }
}

TEST(mistakes_in_strings_are_named) {
    static const struct {
        const char *json, *want;
    } cases[] = {
        {"[\"a\"]", "expected 2 values, found 1"},
        {"[\"a\",\"b\",\"c\"]", "more values than the shape holds"},
        {"[\"a\",1]", "expected a string"},
        {"[\"a\",null]", "expected a string"},
        {"[\"a\",\"\xff\"]", "not UTF-8"},
        {"[\"a\",\"\\ud800\"]", "wrong escape"},
        {"[\"a\",\"b", "does not end"},
        {"\"a\"", "expected an array"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char out[64];
        size_t bytes;
        struct sy_error err = {""};
        assert_int_equal(strings_read(cases[i].json, (int64_t[]){2}, 1, out, &bytes, &err), -EINVAL);
        if (!strstr(err.text, cases[i].want))
            fail_msg("%s: '%s' does not say '%s'", cases[i].json, err.text, cases[i].want);
    }
    struct text text = {0};
    assert_int_equal(tensor_json_write(&text, DATATYPE_BYTES, "\1\0\0\0\xff", 5, 1), -EDOM);
    assert_int_equal(tensor_json_write(&text, DATATYPE_BYTES, "\1\0\0\0a", 5, 2), -EINVAL);
    assert_int_equal(tensor_json_write(&text, DATATYPE_BYTES, "\2\0\0\0a", 5, 1), -EINVAL);
    assert_int_equal(tensor_json_write(&text, DATATYPE_FP32, "abcd", 4, 2), -EINVAL);
    text_free(&text);
}

static int yields;

static void yielded(void) {
    yields++;
}

/* Long arrays are read and written in slices: their lengths are about those of slices. */
TEST(others_have_their_turn_meanwhile) {
    enum { SLICE = 1024, MOST = 3 * SLICE + 1 };
    static const int lengths[] = {SLICE - 1, SLICE, SLICE + 1, 2 * SLICE, MOST};
    static int32_t numbers[MOST];
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++)
        for (int strings = 0; strings < 2; strings++) {
            struct text text = {0}, again = {0};
            struct sy_error err;
            static char bytes[MOST * 8];
            size_t taken;
            int64_t dims[1] = {lengths[i]};
            for (int n = 0; n < lengths[i]; n++)
                text_printf(&text, strings ? "%c\"%d\"" : "%c%d", n ? ',' : '[', n);
            text_put_char(&text, ']');
            struct json_scan scan = {text.data, text.data, text.data + text.length, &err};
            yield_here = yielded;
            yields = 0;
            assert_int_equal(strings ? tensor_json_read_strings(&scan, dims, 1, bytes, &taken)
                                     : tensor_json_read(&scan, DATATYPE_INT32, dims, 1, numbers),
                             0);
            assert_int_equal(yields, (lengths[i] - 1) / SLICE);
            for (int n = 0; n < lengths[i] && !strings; n++)
                assert_int_equal(numbers[n], n);
            yields = 0;
            assert_int_equal(strings ? tensor_json_write(&again, DATATYPE_BYTES, bytes, taken, lengths[i])
                                     : tensor_json_write(&again, DATATYPE_INT32, numbers,
                                                         sizeof(numbers[0]) * (size_t)lengths[i], lengths[i]),
                             0);
            assert_int_equal(yields, (lengths[i] - 1) / SLICE + 1);
            assert_int_equal(again.length, text.length);
            assert_memory_equal(again.data, text.data, text.length);
            for (int more = -1; more <= 1; more += 2) { /* another number of values than the shape's */
                dims[0] = lengths[i] + more;
                scan.at = scan.begin;
                assert_int_equal(strings ? tensor_json_read_strings(&scan, dims, 1, bytes, &taken)
                                         : tensor_json_read(&scan, DATATYPE_INT32, dims, 1, (int32_t[MOST + 1]){0}),
                                 -EINVAL);
            }
            yield_here = NULL;
            text_free(&text);
            text_free(&again);
        }
}
