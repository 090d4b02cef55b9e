/* tensor_json.c - converts decimal numbers to binary and back.
 *
 * Reading: a number is digits * 10^exponent with at most 19 digits in nearly all cases. The product of the digits with
 * the first 64 (if need be 128) bits of 10^exponent has enough correct bits to round, but for rare cases that the bits
 * themselves reveal (Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience 51(8), 2021;
 * Mushtak and Lemire, "Fast number parsing without fallback", 2023). What is left (over 19 digits, exponents beyond the
 * table, subnormal results) goes to strtod.
 *
 * Writing: FP32 by Schubfach, see shortest_decimal(). */
#include "front/v2/tensor_json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/floats.h"
#include "core/data/strings.h"
#include "core/system/yield.h"
#include "front/v2/json_put.h"

#define POWER_MIN (-64)
#define POWER_MAX 64

#define SLICE_ELEMENTS 1024 /* elements between yield points: some 10 us, or 0.5 ms if strtod must decide */

#define ELEMENT_CHARS 32 /* room for any element's text, and for what is overwritten behind it */

/* 5^q for q from POWER_MIN to POWER_MAX, as 128 bits with the highest set: truncated for q >= 0, rounded up below. */
static const uint64_t powers_of_five[POWER_MAX - POWER_MIN + 1][2] = {
    /* clang-format off */
    {0xa87fea27a539e9a5, 0x3f2398d747b36224}, {0xd29fe4b18e88640e, 0x8eec7f0d19a03aad},
    {0x83a3eeeef9153e89, 0x1953cf68300424ac}, {0xa48ceaaab75a8e2b, 0x5fa8c3423c052dd7},
    {0xcdb02555653131b6, 0x3792f412cb06794d}, {0x808e17555f3ebf11, 0xe2bbd88bbee40bd0},
    {0xa0b19d2ab70e6ed6, 0x5b6aceaeae9d0ec4}, {0xc8de047564d20a8b, 0xf245825a5a445275},
    {0xfb158592be068d2e, 0xeed6e2f0f0d56712}, {0x9ced737bb6c4183d, 0x55464dd69685606b},
    {0xc428d05aa4751e4c, 0xaa97e14c3c26b886}, {0xf53304714d9265df, 0xd53dd99f4b3066a8},
    {0x993fe2c6d07b7fab, 0xe546a8038efe4029}, {0xbf8fdb78849a5f96, 0xde98520472bdd033},
    {0xef73d256a5c0f77c, 0x963e66858f6d4440}, {0x95a8637627989aad, 0xdde7001379a44aa8},
    {0xbb127c53b17ec159, 0x5560c018580d5d52}, {0xe9d71b689dde71af, 0xaab8f01e6e10b4a6},
    {0x9226712162ab070d, 0xcab3961304ca70e8}, {0xb6b00d69bb55c8d1, 0x3d607b97c5fd0d22},
    {0xe45c10c42a2b3b05, 0x8cb89a7db77c506a}, {0x8eb98a7a9a5b04e3, 0x77f3608e92adb242},
    {0xb267ed1940f1c61c, 0x55f038b237591ed3}, {0xdf01e85f912e37a3, 0x6b6c46dec52f6688},
    {0x8b61313bbabce2c6, 0x2323ac4b3b3da015}, {0xae397d8aa96c1b77, 0xabec975e0a0d081a},
    {0xd9c7dced53c72255, 0x96e7bd358c904a21}, {0x881cea14545c7575, 0x7e50d64177da2e54},
    {0xaa242499697392d2, 0xdde50bd1d5d0b9e9}, {0xd4ad2dbfc3d07787, 0x955e4ec64b44e864},
    {0x84ec3c97da624ab4, 0xbd5af13bef0b113e}, {0xa6274bbdd0fadd61, 0xecb1ad8aeacdd58e},
    {0xcfb11ead453994ba, 0x67de18eda5814af2}, {0x81ceb32c4b43fcf4, 0x80eacf948770ced7},
    {0xa2425ff75e14fc31, 0xa1258379a94d028d}, {0xcad2f7f5359a3b3e, 0x096ee45813a04330},
    {0xfd87b5f28300ca0d, 0x8bca9d6e188853fc}, {0x9e74d1b791e07e48, 0x775ea264cf55347e},
    {0xc612062576589dda, 0x95364afe032a819e}, {0xf79687aed3eec551, 0x3a83ddbd83f52205},
    {0x9abe14cd44753b52, 0xc4926a9672793543}, {0xc16d9a0095928a27, 0x75b7053c0f178294},
    {0xf1c90080baf72cb1, 0x5324c68b12dd6339}, {0x971da05074da7bee, 0xd3f6fc16ebca5e04},
    {0xbce5086492111aea, 0x88f4bb1ca6bcf585}, {0xec1e4a7db69561a5, 0x2b31e9e3d06c32e6},
    {0x9392ee8e921d5d07, 0x3aff322e62439fd0}, {0xb877aa3236a4b449, 0x09befeb9fad487c3},
    {0xe69594bec44de15b, 0x4c2ebe687989a9b4}, {0x901d7cf73ab0acd9, 0x0f9d37014bf60a11},
    {0xb424dc35095cd80f, 0x538484c19ef38c95}, {0xe12e13424bb40e13, 0x2865a5f206b06fba},
    {0x8cbccc096f5088cb, 0xf93f87b7442e45d4}, {0xafebff0bcb24aafe, 0xf78f69a51539d749},
    {0xdbe6fecebdedd5be, 0xb573440e5a884d1c}, {0x89705f4136b4a597, 0x31680a88f8953031},
    {0xabcc77118461cefc, 0xfdc20d2b36ba7c3e}, {0xd6bf94d5e57a42bc, 0x3d32907604691b4d},
    {0x8637bd05af6c69b5, 0xa63f9a49c2c1b110}, {0xa7c5ac471b478423, 0x0fcf80dc33721d54},
    {0xd1b71758e219652b, 0xd3c36113404ea4a9}, {0x83126e978d4fdf3b, 0x645a1cac083126ea},
    {0xa3d70a3d70a3d70a, 0x3d70a3d70a3d70a4}, {0xcccccccccccccccc, 0xcccccccccccccccd},
    {0x8000000000000000, 0x0000000000000000}, {0xa000000000000000, 0x0000000000000000},
    {0xc800000000000000, 0x0000000000000000}, {0xfa00000000000000, 0x0000000000000000},
    {0x9c40000000000000, 0x0000000000000000}, {0xc350000000000000, 0x0000000000000000},
    {0xf424000000000000, 0x0000000000000000}, {0x9896800000000000, 0x0000000000000000},
    {0xbebc200000000000, 0x0000000000000000}, {0xee6b280000000000, 0x0000000000000000},
    {0x9502f90000000000, 0x0000000000000000}, {0xba43b74000000000, 0x0000000000000000},
    {0xe8d4a51000000000, 0x0000000000000000}, {0x9184e72a00000000, 0x0000000000000000},
    {0xb5e620f480000000, 0x0000000000000000}, {0xe35fa931a0000000, 0x0000000000000000},
    {0x8e1bc9bf04000000, 0x0000000000000000}, {0xb1a2bc2ec5000000, 0x0000000000000000},
    {0xde0b6b3a76400000, 0x0000000000000000}, {0x8ac7230489e80000, 0x0000000000000000},
    {0xad78ebc5ac620000, 0x0000000000000000}, {0xd8d726b7177a8000, 0x0000000000000000},
    {0x878678326eac9000, 0x0000000000000000}, {0xa968163f0a57b400, 0x0000000000000000},
    {0xd3c21bcecceda100, 0x0000000000000000}, {0x84595161401484a0, 0x0000000000000000},
    {0xa56fa5b99019a5c8, 0x0000000000000000}, {0xcecb8f27f4200f3a, 0x0000000000000000},
    {0x813f3978f8940984, 0x4000000000000000}, {0xa18f07d736b90be5, 0x5000000000000000},
    {0xc9f2c9cd04674ede, 0xa400000000000000}, {0xfc6f7c4045812296, 0x4d00000000000000},
    {0x9dc5ada82b70b59d, 0xf020000000000000}, {0xc5371912364ce305, 0x6c28000000000000},
    {0xf684df56c3e01bc6, 0xc732000000000000}, {0x9a130b963a6c115c, 0x3c7f400000000000},
    {0xc097ce7bc90715b3, 0x4b9f100000000000}, {0xf0bdc21abb48db20, 0x1e86d40000000000},
    {0x96769950b50d88f4, 0x1314448000000000}, {0xbc143fa4e250eb31, 0x17d955a000000000},
    {0xeb194f8e1ae525fd, 0x5dcfab0800000000}, {0x92efd1b8d0cf37be, 0x5aa1cae500000000},
    {0xb7abc627050305ad, 0xf14a3d9e40000000}, {0xe596b7b0c643c719, 0x6d9ccd05d0000000},
    {0x8f7e32ce7bea5c6f, 0xe4820023a2000000}, {0xb35dbf821ae4f38b, 0xdda2802c8a800000},
    {0xe0352f62a19e306e, 0xd50b2037ad200000}, {0x8c213d9da502de45, 0x4526f422cc340000},
    {0xaf298d050e4395d6, 0x9670b12b7f410000}, {0xdaf3f04651d47b4c, 0x3c0cdd765f114000},
    {0x88d8762bf324cd0f, 0xa5880a69fb6ac800}, {0xab0e93b6efee0053, 0x8eea0d047a457a00},
    {0xd5d238a4abe98068, 0x72a4904598d6d880}, {0x85a36366eb71f041, 0x47a6da2b7f864750},
    {0xa70c3c40a64e6c51, 0x999090b65f67d924}, {0xd0cf4b50cfe20765, 0xfff4b4e3f741cf6d},
    {0x82818f1281ed449f, 0xbff8f10e7a8921a4}, {0xa321f2d7226895c7, 0xaff72d52192b6a0d},
    {0xcbea6f8ceb02bb39, 0x9bf4f8a69f764490}, {0xfee50b7025c36a08, 0x02f236d04753d5b4},
    {0x9f4f2726179a2245, 0x01d762422c946590}, {0xc722f0ef9d80aad6, 0x424d3ad2b7b97ef5},
    {0xf8ebad2b84e0d58b, 0xd2e0898765a7deb2}, {0x9b934c3b330c8577, 0x63cc55f49f88eb2f},
    {0xc2781f49ffcfa6d5, 0x3cbf6b71c76b25fb},
    /* clang-format on */
};

/* The bits of the nearest binary number of `mantissa_bits` explicit bits, or UINT64_MAX where strtod must decide.
 * Results that are subnormal or infinite are left to it. `even_min` and `even_max`: the exponents for which a product
 * can lie exactly half-way. */
static inline uint64_t round_product(uint64_t digits, int q, int mantissa_bits, int exponent_min, int exponent_all_ones,
                                     int even_min, int even_max) {
    int leading = __builtin_clzll(digits);
    digits <<= leading;
    const uint64_t *power = powers_of_five[q - POWER_MIN];
    unsigned __int128 first = (unsigned __int128)digits * power[0];
    uint64_t high = (uint64_t)(first >> 64), low = (uint64_t)first;
    uint64_t unsure = UINT64_MAX >> (mantissa_bits + 3);
    if ((high & unsure) == unsure) {
        uint64_t second = (uint64_t)((unsigned __int128)digits * power[1] >> 64);
        low += second;
        high += second > low;
    }
    int upper = (int)(high >> 63);
    int shift = upper + 64 - mantissa_bits - 3;
    uint64_t mantissa = high >> shift;
    int exponent = (((152170 + 65536) * q) >> 16) + 63 + upper - leading - exponent_min;
    if (exponent <= 0)
        return UINT64_MAX;
    if (low <= 1 && q >= even_min && q <= even_max && (mantissa & 3) == 1 && mantissa << shift == high)
        mantissa &= ~(uint64_t)1; /* exactly half-way: to even */
    mantissa += mantissa & 1;
    mantissa >>= 1;
    if (mantissa >= (uint64_t)2 << mantissa_bits) {
        mantissa = (uint64_t)1 << mantissa_bits;
        exponent++;
    }
    if (exponent >= exponent_all_ones)
        return UINT64_MAX;
    return (mantissa & (((uint64_t)1 << mantissa_bits) - 1)) | (uint64_t)exponent << mantissa_bits;
}

static inline bool number_fits_table(const struct json_number *number) {
    return !number->many && number->exponent >= POWER_MIN && number->exponent <= POWER_MAX;
}

double tensor_json_double(const struct json_number *number) {
    uint64_t bits = UINT64_MAX;
    if (number->digits == 0 && !number->many)
        bits = 0;
    else if (number_fits_table(number))
        bits = round_product(number->digits, (int)number->exponent, 52, -1023, 0x7ff, -4, 23);
    if (bits == UINT64_MAX)
        return strtod(number->start, NULL);
    bits |= (uint64_t)number->negative << 63;
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

float tensor_json_float(const struct json_number *number) {
    uint64_t bits = UINT64_MAX;
    if (number->digits == 0 && !number->many)
        bits = 0;
    else if (number_fits_table(number))
        bits = round_product(number->digits, (int)number->exponent, 23, -127, 0xff, -17, 10);
    if (bits == UINT64_MAX)
        return strtof(number->start, NULL);
    uint32_t word = (uint32_t)bits | (uint32_t)number->negative << 31;
    float value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

/* The magnitude of a number that has a point, an exponent or over 19 digits, of which those before the decimal point
 * count and the others must be zeros. False: it has a fraction, or is over 64 bits. */
static bool __attribute__((noinline)) magnitude_read(const struct json_number *number, uint64_t *magnitude) {
    const char *first = number->start + number->negative, *end = first;
    int64_t whole = number->exponent; /* digits that count, once all are counted */
    for (; end < number->start + number->length && (*end | 0x20) != 'e'; end++)
        whole += *end != '.';
    *magnitude = 0;
    for (const char *at = first; at < end; at++) {
        if (*at == '.')
            continue;
        if (whole-- <= 0 ? *at != '0'
                         : __builtin_mul_overflow(*magnitude, 10, magnitude) ||
                               __builtin_add_overflow(*magnitude, (uint64_t)(*at - '0'), magnitude))
            return false;
    }
    for (; whole > 0 && *magnitude > 0; whole--)
        if (__builtin_mul_overflow(*magnitude, 10, magnitude))
            return false;
    return true;
}

/* A whole number of `magnitude_max` (below zero: `magnitude_max_negative`), however it is written: 1, 1.0 and 1e0 are
 * the same. */
static inline bool number_whole(const struct json_number *number, uint64_t magnitude_max,
                                uint64_t magnitude_max_negative, uint64_t *magnitude) {
    *magnitude = number->digits;
    if ((number->fraction || number->many) && !magnitude_read(number, magnitude))
        return false;
    return *magnitude <= (number->negative ? magnitude_max_negative : magnitude_max);
}

/* Writes the number as an element; false when the type cannot hold it. */
static inline __attribute__((always_inline)) bool element_read(enum datatype type, const struct json_number *number,
                                                               char *out) {
    uint64_t magnitude;
    switch (type) {
#define WHOLE(ctype, max, max_negative)                                                                                \
    {                                                                                                                  \
        if (!number_whole(number, max, max_negative, &magnitude))                                                      \
            return false;                                                                                              \
        ctype value = (ctype)(number->negative ? 0 - magnitude : magnitude);                                           \
        memcpy(out, &value, sizeof(value));                                                                            \
        return true;                                                                                                   \
    }
    case DATATYPE_BOOL:
        WHOLE(uint8_t, 1, 0)
    case DATATYPE_UINT8:
        WHOLE(uint8_t, UINT8_MAX, 0)
    case DATATYPE_UINT16:
        WHOLE(uint16_t, UINT16_MAX, 0)
    case DATATYPE_UINT32:
        WHOLE(uint32_t, UINT32_MAX, 0)
    case DATATYPE_UINT64:
        WHOLE(uint64_t, UINT64_MAX, 0)
    case DATATYPE_INT8:
        WHOLE(int8_t, INT8_MAX, (uint64_t)INT8_MAX + 1)
    case DATATYPE_INT16:
        WHOLE(int16_t, INT16_MAX, (uint64_t)INT16_MAX + 1)
    case DATATYPE_INT32:
        WHOLE(int32_t, INT32_MAX, (uint64_t)INT32_MAX + 1)
    case DATATYPE_INT64:
        WHOLE(int64_t, INT64_MAX, (uint64_t)INT64_MAX + 1)
#undef WHOLE
    case DATATYPE_FP64: {
        double value = tensor_json_double(number);
        memcpy(out, &value, sizeof(value));
        return isfinite(value);
    }
    case DATATYPE_FP32: {
        float value = tensor_json_float(number);
        memcpy(out, &value, sizeof(value));
        return isfinite(value);
    }
    case DATATYPE_FP16: {
        uint16_t value = half_from_float(tensor_json_float(number));
        memcpy(out, &value, sizeof(value));
        return (value & 0x7c00) != 0x7c00;
    }
    case DATATYPE_BF16: {
        uint16_t value = bfloat_from_float(tensor_json_float(number));
        memcpy(out, &value, sizeof(value));
        return (value & 0x7f80) != 0x7f80;
    }
    default:
        return false;
    }
}

static int __attribute__((cold))
number_error(const struct json_scan *scan, const struct json_number *number, enum datatype type) {
    int shown = number->length < 40 ? (int)number->length : 40;
    return error_set(scan->err, -EINVAL, "%.*s is not %s %s at byte %zu", shown, number->start,
                     type >= DATATYPE_FP16 ? "in the range of" : "a value of", datatype_name(type),
                     (size_t)(scan->at - scan->begin));
}

/* Reads "a, b, c" up to what is not a comma, at most `max` elements; or, where that is less, up to the comma behind as
 * many as `most`. Their count, or -EINVAL. */
static inline __attribute__((always_inline)) int64_t run_read(struct json_scan *scan, enum datatype type, size_t bytes,
                                                              char *out, int64_t max, int64_t most) {
    for (int64_t n = 0;; out += bytes) {
        json_space(scan);
        struct json_number number;
        float unfinite;
        const char *behind = json_number_scan(scan->at, scan->end, &number);
        if (behind && behind < scan->end) { /* in a whole text something follows, which also stops strtod */
            if (n == max)
                return json_error(scan, "more values than the shape holds");
            if (!element_read(type, &number, out))
                return number_error(scan, &number, type);
            scan->at = behind;
        } else if (type >= DATATYPE_FP16 && !behind && json_take_unfinite(scan, &unfinite)) {
            if (n == max)
                return json_error(scan, "more values than the shape holds");
            float_put(type, (double)unfinite, out);
        } else {
            bool truth;
            if (behind)
                scan->at = scan->end;
            if (type != DATATYPE_BOOL || behind)
                return json_expected(scan, "a number");
            int rc = json_read_bool(scan, &truth);
            if (rc)
                return rc;
            if (n == max)
                return json_error(scan, "more values than the shape holds");
            *out = truth;
        }
        n++;
        if (n == most || !json_take(scan, ','))
            return n;
    }
}

/* Reads a run of strings; *out moves behind them. */
static int64_t strings_run_read(struct json_scan *scan, char **out, int64_t max, int64_t most) {
    for (int64_t n = 0;;) {
        struct json_string string;
        int rc = json_read_string(scan, &string);
        if (rc)
            return rc;
        if (n++ == max)
            return json_error(scan, "more values than the shape holds");
        char *data = *out + STRING_LEAD_BYTES;
        size_t length = json_decode_bytes(&string, data);
        strings_lead(*out, length);
        *out = data + length;
        if (n == most || !json_take(scan, ','))
            return n;
    }
}

/* Reads a run of elements, with a loop for each type: the switch is outside. *out moves behind the elements. */
static int64_t typed_run_part_read(struct json_scan *scan, enum datatype type, char **out, int64_t max, int64_t most) {
    int64_t n;
    switch (type) {
#define RUN(t, bytes)                                                                                                  \
    case t:                                                                                                            \
        n = run_read(scan, t, bytes, *out, max, most);                                                                 \
        *out += n > 0 ? (size_t)n * (bytes) : 0;                                                                       \
        return n
        RUN(DATATYPE_BOOL, 1);
        RUN(DATATYPE_UINT8, 1);
        RUN(DATATYPE_UINT16, 2);
        RUN(DATATYPE_UINT32, 4);
        RUN(DATATYPE_UINT64, 8);
        RUN(DATATYPE_INT8, 1);
        RUN(DATATYPE_INT16, 2);
        RUN(DATATYPE_INT32, 4);
        RUN(DATATYPE_INT64, 8);
        RUN(DATATYPE_FP16, 2);
        RUN(DATATYPE_FP32, 4);
        RUN(DATATYPE_FP64, 8);
        RUN(DATATYPE_BF16, 2);
#undef RUN
    case DATATYPE_BYTES:
        return strings_run_read(scan, out, max, most);
    default:
        return json_error(scan, "values of this datatype are not read from JSON");
    }
}

/* A whole run, at most `max` elements. */
static int64_t typed_run_read(struct json_scan *scan, enum datatype type, char **out, int64_t max) {
    for (int64_t read = 0;;) {
        int64_t n = typed_run_part_read(scan, type, out, max - read, SLICE_ELEMENTS);
        if (n < 0)
            return n;
        read += n;
        if (n < SLICE_ELEMENTS || !json_take(scan, ','))
            return read;
        yield_point();
    }
}

static int __attribute__((cold)) count_error(const struct json_scan *scan, int64_t expected, int64_t found) {
    return error_set(scan->err, -EINVAL, "expected %" PRId64 " values, found %" PRId64 " at byte %zu", expected, found,
                     (size_t)(scan->at - scan->begin));
}

/* *out moves behind the elements. */
static int array_read(struct json_scan *scan, enum datatype type, const int64_t *dims, uint32_t dim_count, char **out) {
    int64_t counts[TENSOR_DIMS_MAX + 1] = {0}; /* members seen in the array open at each depth */
    int64_t elements = dims_product(dims, 0, dim_count);
    uint32_t depth = 1, leaf_depth = 0; /* leaf_depth: of the arrays that hold values; 0: not seen yet */
    if (!json_take(scan, '['))
        return json_expected(scan, "an array of values");
    for (;;) {
        char c = json_peek(scan);
        if (c == '[') {
            if (depth >= dim_count || depth == leaf_depth)
                return json_error(scan, "the values are nested deeper than their shape");
            scan->at++;
            counts[++depth] = 0;
            continue;
        }
        if (leaf_depth == 0 && depth != 1 && depth != dim_count)
            return json_error(scan, "the values are nested less deep than their shape");
        if (leaf_depth != 0 && depth != leaf_depth)
            return json_expected(scan, "'['");
        leaf_depth = depth;
        int64_t expected = depth == 1 ? elements : dims[dim_count - 1];
        int64_t n = c == ']' ? 0 : typed_run_read(scan, type, out, expected);
        if (n < 0)
            return (int)n;
        if (n != expected)
            return count_error(scan, expected, n);
        for (;;) { /* close the arrays that end here */
            if (!json_take(scan, ']'))
                return json_expected(scan, "',' or ']'");
            if (--depth == 0)
                return 0;
            counts[depth]++;
            bool more = json_take(scan, ',');
            if (more ? counts[depth] == dims[depth - 1] : counts[depth] != dims[depth - 1])
                return count_error(scan, dims[depth - 1], counts[depth] + more);
            if (more)
                break;
        }
    }
}

int tensor_json_read(struct json_scan *scan, enum datatype type, const int64_t *dims, uint32_t dim_count, void *out) {
    char *at = out;
    return array_read(scan, type, dims, dim_count, &at);
}

int tensor_json_read_strings(struct json_scan *scan, const int64_t *dims, uint32_t dim_count, void *out,
                             size_t *bytes) {
    char *at = out;
    int rc = array_read(scan, DATATYPE_BYTES, dims, dim_count, &at);
    *bytes = (size_t)(at - (char *)out);
    return rc;
}

static size_t signed_write(char *out, int64_t value) {
    if (value >= 0)
        return json_digits(out, (uint64_t)value);
    *out = '-';
    return 1 + json_digits(out + 1, 0 - (uint64_t)value);
}

/* The number of decimal digits of a value. */
static inline int decimal_length(uint32_t value) {
    static const uint32_t powers[] = {0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
    int length = ((32 - __builtin_clz(value | 1)) * 1233) >> 12;
    return length + (value >= powers[length]);
}

/* The eight digits of a number under 10^8, one a byte, the first in the lowest: fours, pairs and digits are each taken
 * apart in one multiplication for all. */
static inline uint64_t eight_digits(uint32_t value) {
    uint64_t fours = value / 10000 | (uint64_t)(value % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007f; /* fours / 100 */
    uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
    uint64_t tens = (twos * 103 >> 10) & 0x000f000f000f000f; /* twos / 10 */
    return tens | (twos - tens * 10) << 8;
}

static inline void eight_bytes(char *out, uint64_t bytes) {
    memcpy(out, &bytes, sizeof(bytes));
}

/* Writes digits * 10^exponent, of at most nine digits, zeros at the end left off, with at least one digit on each side
 * of the point. Whole words are written, so that nothing depends on how many digits there are but where the next
 * begins: `out` has room for ELEMENT_CHARS. */
static size_t decimal_write(char *out, uint32_t digits, int exponent) {
    static const uint32_t powers[] = {100000000, 10000000, 1000000, 100000, 10000, 1000, 100, 10, 1};
    int length = decimal_length(digits), point = length + exponent; /* where the point stands, from the first digit */
    digits *= powers[length - 1];                                   /* nine digits now */
    char first = (char)('0' + digits / 100000000);
    uint64_t rest = eight_digits(digits % 100000000);
    int significant = rest ? 9 - __builtin_clzll(rest) / 8 : 1;
    rest += 0x3030303030303030;
    if (point > 0 && point <= 9) {
        out[0] = first;
        eight_bytes(out + 1, rest);
        out[point] = '.';
        if (point >= significant) {
            out[point + 1] = '0';
            return (size_t)point + 2;
        }
        eight_bytes(out + point + 1, rest >> (point - 1) * 8);
        return (size_t)significant + 1;
    }
    if (point <= 0 && point > -5) {
        char *p = out + 2 - point;
        memcpy(out, "0.000000", 8);
        *p = first;
        eight_bytes(p + 1, rest);
        return (size_t)(2 - point + significant);
    }
    out[0] = first;
    out[1] = '.';
    eight_bytes(out + 2, rest);
    size_t at = significant > 1 ? (size_t)significant + 1 : 3;
    out[at++] = 'e';
    return at + signed_write(out + at, point - 1);
}

/* floor(log2(10^e)), floor(log10(2^e)), and floor(log10(3/4 * 2^e)), for the exponents of FP32. */
static inline int log2_of_power(int e) {
    return (e * 1741647) >> 19;
}

static inline int log10_of_power(int e, bool three_quarters) {
    return (e * 1262611 - (three_quarters ? 524031 : 0)) >> 22;
}

/* The 64 highest bits of 10^e, rounded up. */
static inline uint64_t power_of_ten(int e) {
    const uint64_t *power = powers_of_five[e - POWER_MIN];
    return power[0] + (power[1] > 0);
}

/* power * c / 2^64 in units of a quarter that also says whether anything was cut off: its lowest bit. */
static inline uint32_t round_to_odd(uint64_t power, uint32_t c) {
    unsigned __int128 product = (unsigned __int128)power * c;
    return (uint32_t)(product >> 64) | ((uint32_t)(product >> 32) > 1);
}

/* The decimal with the fewest digits that reads back as this FP32, the nearest to it of those: Schubfach (Giulietti,
 * "The Schubfach way to render doubles", 2020, sections 8 and 9; for FP32 64 bits of the powers are enough). v is c *
 * 2^q; vl and vr lie half-way to its neighbours. What lies between them is read as v; what lies right on them may not
 * be, so we keep off them. 10^k is the greatest power of ten that is not wider than the range between them: one or two
 * multiples of 10^k lie in it, and at most one of 10^(k+1). All in units of 10^k / 4. */
static uint32_t shortest_decimal(uint32_t word, int *exponent) {
    uint32_t fraction = word & 0x7fffff, biased = word >> 23;
    uint32_t c = biased ? fraction | 0x800000 : fraction;
    int q = biased ? (int)biased - 150 : -149;
    bool lower_closer = fraction == 0 && biased > 1; /* just above a power of two */
    int k = log10_of_power(q, lower_closer), h = q + log2_of_power(-k) + 1;
    uint64_t power = power_of_ten(-k);
    uint32_t v = round_to_odd(power, (4 * c) << h);
    uint32_t vl = round_to_odd(power, (4 * c - 2 + lower_closer) << h) + 1;
    uint32_t vr = round_to_odd(power, (4 * c + 2) << h) - 1;
    uint32_t s = v / 4, tens = s / 10;
    bool down = vl <= 4 * s, up = 4 * s + 4 <= vr, tens_down = vl <= 40 * tens, tens_up = 40 * tens + 40 <= vr;
    bool shorter = (tens_down != tens_up) & (s >= 10), nearer_up = (v & 3) + (s & 1) > 2;
    *exponent = k + shorter;
    return shorter ? tens + tens_up : s + (down != up ? up : nearer_up); /* no branches: they could not be predicted */
}

/* At most 16 characters; `value` is finite. */
static size_t float_write(char *out, float value) {
    char *p = out;
    uint32_t word;
    int exponent;
    memcpy(&word, &value, sizeof(word));
    *p = '-';
    p += word >> 31;
    word &= 0x7fffffff;
    if (word == 0) {
        memcpy(p, "0.0", 3);
        return (size_t)(p - out) + 3;
    }
    uint32_t digits = shortest_decimal(word, &exponent);
    return (size_t)(p - out) + decimal_write(p, digits, exponent);
}

/* At most 26 characters. `value` is finite. FP64 outputs are rare: the C library does it. */
static size_t double_write(char *out, double value) {
    if (fabs(value) < 1e15 && value == trunc(value))
        return (size_t)snprintf(out, ELEMENT_CHARS, "%.1f", value);
    for (int digits = 15;; digits++) {
        int length = snprintf(out, ELEMENT_CHARS, "%.*g", digits, value);
        if (digits == 17 || strtod(out, NULL) == value)
            return (size_t)length;
    }
}

/* NaN or an infinity, as Triton writes them. */
static size_t __attribute__((cold, noinline)) unfinite_write(char *out, double value) {
    const char *word = isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    size_t length = strlen(word);
    memcpy(out, word, length);
    return length;
}

/* Characters of the element at `data`, at most 26; 0 when its type has no values. */
static inline size_t element_write(char *out, enum datatype type, const char *data) {
#define LOAD(ctype)                                                                                                    \
    ctype value;                                                                                                       \
    memcpy(&value, data, sizeof(value))
    switch (type) {
    case DATATYPE_BOOL: {
        const char *word = *data ? "true" : "false";
        memcpy(out, word, 5);
        return *data ? 4 : 5;
    }
    case DATATYPE_UINT8: {
        LOAD(uint8_t);
        return json_digits(out, value);
    }
    case DATATYPE_UINT16: {
        LOAD(uint16_t);
        return json_digits(out, value);
    }
    case DATATYPE_UINT32: {
        LOAD(uint32_t);
        return json_digits(out, value);
    }
    case DATATYPE_UINT64: {
        LOAD(uint64_t);
        return json_digits(out, value);
    }
    case DATATYPE_INT8: {
        LOAD(int8_t);
        return signed_write(out, value);
    }
    case DATATYPE_INT16: {
        LOAD(int16_t);
        return signed_write(out, value);
    }
    case DATATYPE_INT32: {
        LOAD(int32_t);
        return signed_write(out, value);
    }
    case DATATYPE_INT64: {
        LOAD(int64_t);
        return signed_write(out, value);
    }
    case DATATYPE_FP16: {
        LOAD(uint16_t);
        float wide = half_to_float(value);
        return isfinite(wide) ? float_write(out, wide) : unfinite_write(out, wide);
    }
    case DATATYPE_BF16: {
        LOAD(uint16_t);
        float wide = bfloat_to_float(value);
        return isfinite(wide) ? float_write(out, wide) : unfinite_write(out, wide);
    }
    case DATATYPE_FP32: {
        LOAD(float);
        return isfinite(value) ? float_write(out, value) : unfinite_write(out, value);
    }
    case DATATYPE_FP64: {
        LOAD(double);
        return isfinite(value) ? double_write(out, value) : unfinite_write(out, value);
    }
    default:
        return 0;
    }
#undef LOAD
}

static int strings_write(struct text *text, const char *at, size_t bytes, int64_t elements) {
    const char *end = at + bytes;
    struct string element;
    int rc;
    int64_t count = 0;
    text_put_char(text, '[');
    while ((rc = strings_next(&at, end, &element)) > 0) {
        if (count % SLICE_ELEMENTS == 0)
            yield_point();
        if (count++ > 0)
            text_put_char(text, ',');
        if (!json_put_bytes(text, element.data, element.length))
            return -EDOM;
    }
    text_put_char(text, ']');
    return rc < 0 || count != elements ? -EINVAL : text->failed ? -ENOMEM : 0;
}

int tensor_json_write(struct text *text, enum datatype type, const void *data, size_t bytes, int64_t elements) {
    size_t element_bytes = datatype_bytes(type);
    const char *at = data;
    if (type == DATATYPE_BYTES)
        return strings_write(text, data, bytes, elements);
    if (!datatype_fits(type, (uint64_t)elements, bytes))
        return -EINVAL;
    text_put_char(text, '[');
    for (int64_t i = 0; i < elements; i++, at += element_bytes) {
        if (!text_reserve(text, ELEMENT_CHARS + 1))
            return -ENOMEM;
        if (i % SLICE_ELEMENTS == 0)
            yield_point();
        char *out = text->data + text->length;
        if (i > 0)
            *out++ = ',';
        size_t length = element_write(out, type, at);
        if (length == 0)
            return -EINVAL;
        text->length += length + (i > 0);
    }
    text_put_char(text, ']');
    return text->failed ? -ENOMEM : 0;
}
