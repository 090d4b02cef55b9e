/* log_linear.h - which bucket of a log-linear histogram a value falls into: 2^bits steps per power of two. Pure.
 *
 * Values under 2^bits have a bucket each; above, the widths double with every power of two, so that a bucket is at most
 * 1/2^bits of its values wide. */
#pragma once

#include <stdint.h>

/* Number of buckets for values under 2^value_bits. */
#define LOG_LINEAR_BUCKETS(bits, value_bits) ((uint32_t)((value_bits) - (bits) + 1) << (bits))

static inline uint32_t log_linear_bucket(uint64_t value, uint32_t bits) {
    if (value >> bits == 0)
        return (uint32_t)value;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(value) - bits;
    return ((shift + 1) << bits) + (uint32_t)((value >> shift) & ((1u << bits) - 1));
}

/* The least value of a bucket. *width: how many values fall into the bucket. */
static inline uint64_t log_linear_from(uint32_t bucket, uint32_t bits, uint64_t *width) {
    uint32_t shift = bucket >> bits ? (bucket >> bits) - 1 : 0;
    uint64_t steps = bucket >> bits ? (1u << bits) + (bucket & ((1u << bits) - 1)) : bucket;
    *width = 1ull << shift;
    return steps << shift;
}
