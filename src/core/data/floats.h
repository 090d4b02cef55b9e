/* floats.h - floating-point numbers of 16 bits, and elements of the floating-point types. */
#pragma once

#include <math.h>
#include <string.h>

#include "core/data/tensor.h"

/* To nearest, ties to even; infinite when out of range. */
static inline uint16_t half_from_float(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    uint16_t sign = (uint16_t)(word >> 16 & 0x8000);
    word &= 0x7fffffff;
    if (word >= 0x47800000) /* 65536 and over, infinite, or NaN */
        return sign | (word > 0x7f800000 ? 0x7e00 : 0x7c00);
    if (word < 0x38800000) { /* subnormal: adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded */
        float positive, half = 0.5F;
        uint32_t half_word;
        memcpy(&positive, &word, sizeof(positive));
        half += positive;
        memcpy(&half_word, &half, sizeof(half_word));
        return sign | (uint16_t)(half_word - 0x3f000000);
    }
    word += 0xfff + (word >> 13 & 1) - 0x38000000; /* round, and move the exponent's bias from 127 to 15 */
    return sign | (uint16_t)(word >> 13);
}

static inline float half_to_float(uint16_t half) {
    uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    float value = exponent == 0x1f ? (fraction ? NAN : INFINITY)
                  : exponent == 0  ? (float)fraction * 0x1p-24F
                                   : ldexpf((float)(0x400 | fraction), (int)exponent - 25);
    return half & 0x8000 ? -value : value;
}

/* To nearest, ties to even; infinite when out of range. */
static inline uint16_t bfloat_from_float(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof(word));
    return isnan(value) ? 0x7fc0 : (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

static inline float bfloat_to_float(uint16_t bfloat) {
    uint32_t word = (uint32_t)bfloat << 16;
    float value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

static inline bool datatype_is_float(enum datatype type) {
    return type == DATATYPE_FP16 || type == DATATYPE_BF16 || type == DATATYPE_FP32 || type == DATATYPE_FP64;
}

/* The number at `at`, an element of a type for which datatype_is_float(). */
static inline double float_get(enum datatype type, const void *at) {
    double value;
    float single;
    uint16_t half;
    if (type == DATATYPE_FP64)
        return memcpy(&value, at, sizeof(value)), value;
    if (type == DATATYPE_FP32)
        return memcpy(&single, at, sizeof(single)), (double)single;
    memcpy(&half, at, sizeof(half));
    return (double)(type == DATATYPE_FP16 ? half_to_float(half) : bfloat_to_float(half));
}

/* Writes a number as such an element. */
static inline void float_put(enum datatype type, double value, void *at) {
    float single = (float)value;
    uint16_t half = type == DATATYPE_FP16 ? half_from_float(single) : bfloat_from_float(single);
    const void *from = type == DATATYPE_FP64   ? (const void *)&value
                       : type == DATATYPE_FP32 ? (const void *)&single
                                               : (const void *)&half;
    memcpy(at, from, datatype_bytes(type));
}
