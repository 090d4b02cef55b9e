/* test_decimal.c - numbers in texts. */
#include "core/util/decimal.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>

#include "core/util/container.h"
#include "unit/test.h"

TEST(a_whole_number_is_digits_and_a_sign) {
    static const struct {
        const char *text;
        int64_t min, max;
        int rc;
        int64_t value;
    } cases[] = {
        {"5", 0, 9, 0, 5},
        {"-1", -1, 9, 0, -1},
        {"+7", 0, 9, 0, 7},
        {"007", 0, 9, 0, 7},
        {"9223372036854775807", 0, INT64_MAX, 0, INT64_MAX},
        {"9223372036854775808", 0, INT64_MAX, -ERANGE, 0},
        {"-9223372036854775809", INT64_MIN, 0, -ERANGE, 0},
        {"10", 0, 9, -ERANGE, 0},
        {"-1", 0, 9, -ERANGE, 0},
        {"0", 0, -1, -ERANGE, 0},
        {"", 0, 9, -EINVAL, 0},
        {NULL, 0, 9, -EINVAL, 0},
        {"-", -9, 9, -EINVAL, 0},
        {"5-", 0, 9, -EINVAL, 0},
        {"--5", -9, 9, -EINVAL, 0},
        {" 5", 0, 9, -EINVAL, 0},
        {"5 ", 0, 9, -EINVAL, 0},
        {"5\n", 0, 9, -EINVAL, 0},
        {"5.0", 0, 9, -EINVAL, 0},
        {"1e0", 0, 9, -EINVAL, 0},
        {"0x5", 0, 9, -EINVAL, 0},
        {"five", 0, 9, -EINVAL, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t value = 77;
        assert_int_equal(decimal_int(cases[i].text, cases[i].min, cases[i].max, &value), cases[i].rc);
        assert_int_equal(value, cases[i].rc ? 77 : cases[i].value);
    }
}

TEST(a_number_is_decimal_and_finite) {
    static const struct {
        const char *text;
        int rc;
        double value;
    } cases[] = {{"5", 0, 5},        {"-1", 0, -1},        {"1e1", 0, 10},       {".5", 0, 0.5},
                 {"5.", 0, 5},       {"10.5", -ERANGE, 0}, {"-1.5", -ERANGE, 0}, {"1e999", -ERANGE, 0},
                 {"", -EINVAL, 0},   {NULL, -EINVAL, 0},   {"x", -EINVAL, 0},    {"5 6", -EINVAL, 0},
                 {" 5", -EINVAL, 0}, {"nan", -EINVAL, 0},  {"inf", -EINVAL, 0},  {"0x5", -EINVAL, 0},
                 {"5-", -EINVAL, 0}, {"e", -EINVAL, 0},    {"1e", -EINVAL, 0},   {".", -EINVAL, 0}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        double value = 77;
        assert_int_equal(decimal_double(cases[i].text, -1, 10, &value), cases[i].rc);
        assert_true(value == (cases[i].rc ? 77 : cases[i].value));
    }
    double value = 77;
    assert_int_equal(decimal_double("1e999", 0, INFINITY, &value), -ERANGE);
}
