/* json_scan.h - reads a JSON text (RFC 8259) front to back without building a tree.
 *
 * The text need not be terminated and is not changed. Every function moves the cursor behind the text that it took, or
 * returns -EINVAL with a sentence that names the byte (counted from 0) where the text is wrong. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/util/error.h"

#define JSON_DEPTH_MAX 100

struct json_scan {
    const char *begin, *at, *end; /* text; `at`: cursor */
    struct sy_error *err;
};

/* A string as it stands between its quotes, escapes included. */
struct json_string {
    const char *data;
    size_t length;
};

/* A number as it is written. Its value is (-1)^negative * digits * 10^exponent unless `many`. */
struct json_number {
    const char *start;
    size_t length;
    uint64_t digits;
    int64_t exponent;
    bool negative;
    bool fraction; /* written with a point or an exponent */
    bool many;     /* over 19 significant digits: `digits` does not hold them */
};

/* -EINVAL, with "`what` at byte N". */
int json_error(const struct json_scan *scan, const char *what) __attribute__((cold));
/* -EINVAL, with "expected `what` at byte N, found ...". */
int json_expected(const struct json_scan *scan, const char *what) __attribute__((cold));

static inline void json_space(struct json_scan *scan) {
    /* tensors' data mostly have no blanks: one comparison */
    while (scan->at < scan->end && (unsigned char)*scan->at <= ' ' &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
        scan->at++;
}

/* Skips blanks, then takes `c` if that is next. Whether it was. */
static inline bool json_take(struct json_scan *scan, char c) {
    json_space(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

/* Skips blanks, and returns the next character; 0 at the end. */
static inline char json_peek(struct json_scan *scan) {
    json_space(scan);
    return scan->at == scan->end ? '\0' : *scan->at;
}

/* Takes a string; checks its escapes and that it is UTF-8. */
int json_read_string(struct json_scan *scan, struct json_string *string);
/* Decodes a string into `out` and terminates it. Its length; -ENAMETOOLONG: it does not fit, or holds a zero byte. */
int json_decode(const struct json_string *string, char *out, size_t out_bytes);
/* Decodes a string into `out`, which has room for string->length bytes, without a terminator. Returns the decoded
 * length. */
size_t json_decode_bytes(const struct json_string *string, char *out);
/* Takes NaN, Inf or Infinity, perhaps after '-', if one of these is next; whether it was. JSON has no such words;
 * Triton takes them as numbers.
 */
bool json_take_unfinite(struct json_scan *scan, float *value);
/* Takes `true` or `false`. */
int json_read_bool(struct json_scan *scan, bool *value);
/* Takes a whole number that fits int64_t. */
int json_read_int(struct json_scan *scan, int64_t *value);
/* Skips any value, at most JSON_DEPTH_MAX deep. */
int json_skip(struct json_scan *scan);

/* Iteration over the members of an object or array: json_open(), then json_next() before each member; 1: a member
 * follows, 0: there is none. json_next_key() also takes the member's key and colon. */
struct json_members {
    char close;   /* closing bracket */
    bool started; /* the first member was asked for */
};
int json_open(struct json_scan *scan, struct json_members *members, char open, const char *what);
int json_next(struct json_scan *scan, struct json_members *members);
int json_next_key(struct json_scan *scan, struct json_members *members, struct json_string *key);

/* Whether the string is `literal`; escapes in keys are not decoded, so "\u0069d" is not "id". */
#define json_is(string, literal)                                                                                       \
    ((string)->length == sizeof(literal) - 1 && memcmp((string)->data, literal, sizeof(literal) - 1) == 0)

/* Reads a number at `at`, without blanks before it. Returns its end; NULL: there is no number. Inline for tensors'
 * data. */
static inline const char *json_number_scan(const char *at, const char *end, struct json_number *number) {
    number->start = at;
    number->negative = at < end && *at == '-';
    at += number->negative;
    const char *first = at;
    uint64_t digits = 0;
    while (at < end && (unsigned char)(*at - '0') < 10)
        digits = digits * 10 + (uint64_t)(*at++ - '0');
    int64_t digit_count = at - first;
    if (digit_count == 0 || (digit_count > 1 && *first == '0'))
        return NULL;
    int64_t exponent = 0;
    number->fraction = false;
    if (at < end && *at == '.') {
        const char *point = ++at;
        uint64_t eight;
        /* eight digits at once: each byte less '0' must be under 10 (Lemire, "Number parsing at a gigabyte per second",
         * section 6); 2 ns a number less for 16 digits */
        while (end - at >= 8 && (memcpy(&eight, at, 8), true) &&
               (((eight & 0xF0F0F0F0F0F0F0F0) | (((eight + 0x0606060606060606) & 0xF0F0F0F0F0F0F0F0) >> 4)) ==
                0x3333333333333333)) {
            eight -= 0x3030303030303030;
            eight = eight * 10 + (eight >> 8);
            eight = ((eight & 0x000000FF000000FF) * 0x000F424000000064 +
                     ((eight >> 16) & 0x000000FF000000FF) * 0x0000271000000001) >>
                    32;
            digits = digits * 100000000 + eight;
            at += 8;
        }
        while (at < end && (unsigned char)(*at - '0') < 10)
            digits = digits * 10 + (uint64_t)(*at++ - '0');
        if (at == point)
            return NULL;
        exponent = point - at;
        digit_count -= exponent;
        number->fraction = true;
    }
    number->many = false;
    if (digit_count > 19) {
        for (const char *p = first; p < at && (*p == '0' || *p == '.'); p++)
            digit_count -= *p == '0';
        number->many = digit_count > 19;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        bool below = at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        const char *power = at;
        int64_t value = 0;
        for (; at < end && (unsigned char)(*at - '0') < 10; at++)
            value = value < INT64_MAX / 100 ? value * 10 + (*at - '0') : value; /* no text is longer */
        if (at == power)
            return NULL;
        exponent += below ? -value : value;
        number->fraction = true;
    }
    number->digits = digits;
    number->exponent = exponent;
    number->length = (size_t)(at - number->start);
    return at;
}
