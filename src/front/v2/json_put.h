/* json_put.h - writes strings and whole numbers as JSON. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/util/text.h"

/* Appends `length` bytes in quotes, escaped as JSON wants it. False: some bytes are not UTF-8; each became '?'. */
bool json_put_bytes(struct text *text, const char *data, size_t length);
/* Appends the string in quotes, escaped where JSON asks for it; a byte that is not UTF-8 becomes '?'. */
void json_put_string(struct text *text, const char *string);
void json_put_unsigned(struct text *text, uint64_t value);

#define JSON_DIGITS_MAX 20 /* most digits of a whole number of 64 bits */

/* Writes the number's digits; returns their count. Inline, as tensors have many numbers. */
static inline size_t json_digits(char *out, uint64_t value) {
    char digits[JSON_DIGITS_MAX];
    size_t n = sizeof(digits);
    do {
        digits[--n] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    memcpy(out, digits + n, sizeof(digits) - n);
    return sizeof(digits) - n;
}

/* Appends {"error":"..."}, the form of every error of the protocol. */
void json_put_error(struct text *text, const char *sentence);
