/* test_floats.c - numbers of 16 bits. */
#include "unit/test.h"

#include "core/data/floats.h"

TEST(what_16_bits_hold_stays) {
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        float half = half_to_float((uint16_t)bits), bfloat = bfloat_to_float((uint16_t)bits);
        assert_int_equal(half_from_float(half), isnan(half) ? 0x7e00 | (bits & 0x8000) : bits);
        assert_int_equal(bfloat_from_float(bfloat), isnan(bfloat) ? 0x7fc0 : bits);
    }
}

TEST(the_nearest_is_taken) {
    assert_int_equal(half_from_float(1.0F + 0x1p-11F), 0x3c00); /* half-way: to even */
    assert_int_equal(half_from_float(1.0F + 0x3p-11F), 0x3c02);
    assert_int_equal(half_from_float(1.0F + 0x1.001p-11F), 0x3c01);
    assert_int_equal(half_from_float(0x1p-25F), 0); /* half of the smallest */
    assert_int_equal(half_from_float(-0x1.1p-25F), 0x8001);
    assert_int_equal(half_from_float(65519.0F), 0x7bff);
    assert_int_equal(half_from_float(65520.0F), 0x7c00);
    assert_int_equal(half_from_float(-INFINITY), 0xfc00);
    assert_int_equal(bfloat_from_float(1.0F + 0x1p-8F), 0x3f80);
    assert_int_equal(bfloat_from_float(1.0F + 0x3p-8F), 0x3f82);
    assert_int_equal(bfloat_from_float(-0x1.ffp127F), 0xff80);
}

TEST(elements_are_written_and_read) {
    static const enum datatype types[] = {DATATYPE_FP16, DATATYPE_BF16, DATATYPE_FP32, DATATYPE_FP64};
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        char element[8];
        assert_true(datatype_is_float(types[i]));
        float_put(types[i], -1.5, element);
        assert_true(float_get(types[i], element) == -1.5);
        float_put(types[i], (double)NAN, element);
        assert_true(isnan(float_get(types[i], element)));
    }
    assert_false(datatype_is_float(DATATYPE_BYTES));
    assert_false(datatype_is_float(DATATYPE_INT64));
}
