/* strings.h - tensors of strings (BYTES), as they lie in memory and in both protocols: element behind element, each led
 * by its length (4 bytes, little-endian). An element may hold any bytes. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/data/tensor.h"
#include "core/util/error.h"

struct string {
    const char *data; /* characters, not terminated */
    size_t length;
};

/* Takes the next element of [*at, end). Returns 1; 0 at the end; -1: the rest is no whole element. */
static inline int strings_next(const char **at, const char *end, struct string *element) {
    uint32_t length;
    if (*at == end)
        return 0;
    if ((size_t)(end - *at) < STRING_LEAD_BYTES)
        return -1;
    memcpy(&length, *at, sizeof(length));
    *at += STRING_LEAD_BYTES;
    if ((size_t)(end - *at) < length)
        return -1;
    *element = (struct string){*at, length};
    *at += length;
    return 1;
}

/* Writes the length that leads an element. Returns where the element's bytes go. */
static inline char *strings_lead(char *at, size_t length) {
    uint32_t lead = (uint32_t)length;
    memcpy(at, &lead, sizeof(lead));
    return at + STRING_LEAD_BYTES;
}

/* Takes the next `count` rows of a tensor that has a dimension. They begin at byte *at of the tensor's data; *at
 * becomes the byte behind them. 0; -EINVAL: there are fewer than `count` rows. */
int strings_rows(const struct tensor_view *whole, uint32_t count, size_t *at, struct tensor_view *rows);
/* Checks that the bytes are exactly `elements` elements. 0, or -EINVAL with a sentence that says what is wrong. */
int strings_check(const void *data, size_t bytes, int64_t elements, struct sy_error *err);
