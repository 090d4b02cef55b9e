/* json_scan.c - reads a JSON text front to back. Nothing here recurses: a body of a million '[' costs a million steps.
 */
#include "front/v2/json_scan.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#include "core/system/yield.h"
#include "core/util/utf8.h"

#define SLICE_BYTES ((size_t)64 * 1024) /* bytes of a string between yield points: 0.1 ms */
#define SLICE_STEPS 1024                /* skipped values between yield points */

int json_error(const struct json_scan *scan, const char *what) {
    return error_set(scan->err, -EINVAL, "%s at byte %zu", what, (size_t)(scan->at - scan->begin));
}

int json_expected(const struct json_scan *scan, const char *what) {
    size_t byte = (size_t)(scan->at - scan->begin);
    if (scan->at == scan->end)
        return error_set(scan->err, -EINVAL, "expected %s at byte %zu, but the JSON ends there", what, byte);
    unsigned char c = (unsigned char)*scan->at;
    if (isprint(c) && c != '"')
        return error_set(scan->err, -EINVAL, "expected %s at byte %zu, found '%c'", what, byte, c);
    return error_set(scan->err, -EINVAL, "expected %s at byte %zu, found %s%02x", what, byte,
                     c == '"' ? "a string, 0x" : "the byte 0x", c);
}

static int hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The four hexadecimal digits at p, or -1. */
static int32_t hex_read(const char *p, const char *end) {
    int32_t value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(p[i]);
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* The length of the escape at p, which begins with a backslash, or 0. Unpaired surrogates are not accepted. */
static size_t escape_length(const char *p, const char *end) {
    if (end - p < 2)
        return 0;
    if (p[1] != 'u')
        return strchr("\"\\/bfnrt", p[1]) && p[1] ? 2 : 0;
    int32_t unit = hex_read(p + 2, end);
    if (unit < 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return 0;
    if (unit < 0xd800 || unit > 0xdbff)
        return 6;
    if (end - p < 8 || p[6] != '\\' || p[7] != 'u')
        return 0;
    int32_t low = hex_read(p + 8, end);
    return low >= 0xdc00 && low <= 0xdfff ? 12 : 0;
}

int json_read_string(struct json_scan *scan, struct json_string *string) {
    /* characters that stand for themselves: all of ASCII but controls, quotes and backslashes */
    static const bool plain[256] = {[' ' ... '!'] = true, ['#' ... '['] = true, [']' ... 0x7f] = true};
    if (json_peek(scan) != '"')
        return json_expected(scan, "a string");
    const char *p = ++scan->at, *look = (size_t)(scan->end - p) > SLICE_BYTES ? p + SLICE_BYTES : scan->end;
    string->data = p;
    for (;;) {
        while (p < look && plain[(unsigned char)*p])
            p++;
        if (p >= look && p < scan->end) {
            yield_point();
            look = (size_t)(scan->end - p) > SLICE_BYTES ? p + SLICE_BYTES : scan->end;
            continue;
        }
        if (p == scan->end || *p == '"')
            break;
        size_t length = *p == '\\'                  ? escape_length(p, scan->end)
                        : (unsigned char)*p >= 0x80 ? utf8_length(p, scan->end)
                                                    : 0;
        if (length == 0) {
            scan->at = p;
            return json_error(scan, *p == '\\'                  ? "wrong escape in a string"
                                    : (unsigned char)*p >= 0x80 ? "a string is not UTF-8"
                                                                : "a string holds a control character");
        }
        p += length;
    }
    scan->at = p;
    if (p == scan->end)
        return json_error(scan, "a string does not end before the JSON does");
    string->length = (size_t)(p - string->data);
    scan->at = p + 1;
    return 0;
}

/* Decodes what stands at *p, a character or an escape, and moves behind it; the bytes it takes, at most 4. */
static size_t decode_one(const char **p, const char *end, char *out) {
    static const char names[] = "bfnrt", values[] = "\b\f\n\r\t";
    if (**p != '\\') {
        *out = *(*p)++;
        return 1;
    }
    char kind = (*p)[1];
    *p += 2;
    if (kind != 'u') {
        const char *name = strchr(names, kind);
        *out = name ? values[name - names] : kind;
        return 1;
    }
    uint32_t c = (uint32_t)hex_read(*p, end);
    *p += 4;
    if (c >= 0xd800 && c <= 0xdbff) {
        c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)hex_read(*p + 2, end) - 0xdc00);
        *p += 6;
    }
    return utf8_write(c, out);
}

size_t json_decode_bytes(const struct json_string *string, char *out) {
    const char *p = string->data, *end = p + string->length, *escape = memchr(p, '\\', string->length);
    size_t length = escape ? (size_t)(escape - p) : string->length;
    memcpy(out, p, length);
    for (p += length; p < end;)
        length += decode_one(&p, end, out + length);
    return length;
}

int json_decode(const struct json_string *string, char *out, size_t out_bytes) {
    const char *p = string->data, *end = p + string->length;
    size_t length = 0;
    if (!memchr(p, '\\', string->length)) { /* nearly always; only an escape can be a zero byte */
        if (string->length >= out_bytes)
            return -ENAMETOOLONG;
        memcpy(out, p, length = string->length);
        p = end;
    }
    while (p < end) {
        char one[4];
        size_t bytes = decode_one(&p, end, one);
        if (length + bytes >= out_bytes || *one == '\0')
            return -ENAMETOOLONG;
        memcpy(out + length, one, bytes);
        length += bytes;
    }
    out[length] = '\0';
    return (int)length;
}

static int json_read_number(struct json_scan *scan, struct json_number *number) {
    json_space(scan);
    const char *behind = json_number_scan(scan->at, scan->end, number);
    if (!behind)
        return json_expected(scan, "a number");
    scan->at = behind;
    return 0;
}

static bool take_word(struct json_scan *scan, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0)
        return false;
    scan->at += length;
    return true;
}

bool json_take_unfinite(struct json_scan *scan, float *value) {
    const char *start = scan->at;
    bool negative = json_take(scan, '-');
    if (take_word(scan, "NaN")) {
        *value = NAN;
    } else if (take_word(scan, "Infinity") || take_word(scan, "Inf")) {
        *value = negative ? -INFINITY : INFINITY;
    } else {
        scan->at = start;
        return false;
    }
    return true;
}

int json_read_bool(struct json_scan *scan, bool *value) {
    json_space(scan);
    *value = take_word(scan, "true");
    return *value || take_word(scan, "false") ? 0 : json_expected(scan, "true or false");
}

int json_read_int(struct json_scan *scan, int64_t *value) {
    struct json_number number;
    const char *start = scan->at;
    int rc = json_read_number(scan, &number);
    if (rc)
        return rc;
    if (number.fraction || number.many || number.digits > INT64_MAX) {
        scan->at = start;
        json_space(scan);
        return json_expected(scan, "a whole number of at most 63 bits");
    }
    *value = number.negative ? -(int64_t)number.digits : (int64_t)number.digits;
    return 0;
}

int json_open(struct json_scan *scan, struct json_members *members, char open, const char *what) {
    *members = (struct json_members){.close = open == '{' ? '}' : ']'};
    return json_take(scan, open) ? 0 : json_expected(scan, what);
}

int json_next(struct json_scan *scan, struct json_members *members) {
    char c = json_peek(scan);
    if (c == members->close && scan->at < scan->end) {
        scan->at++;
        return 0;
    }
    if (!members->started) {
        members->started = true;
        return 1;
    }
    if (c != ',')
        return json_expected(scan, members->close == '}' ? "',' or '}'" : "',' or ']'");
    scan->at++;
    if (json_peek(scan) == members->close)
        return json_expected(scan, "a value after ','");
    return 1;
}

int json_next_key(struct json_scan *scan, struct json_members *members, struct json_string *key) {
    int rc = json_next(scan, members);
    if (rc <= 0)
        return rc;
    if (json_peek(scan) != '"')
        return json_expected(scan, "a key");
    rc = json_read_string(scan, key);
    if (rc)
        return rc;
    return json_take(scan, ':') ? 1 : json_expected(scan, "':'");
}

static int skip_scalar(struct json_scan *scan) {
    char c = json_peek(scan);
    struct json_string string;
    struct json_number number;
    float unfinite;
    if (c == '"')
        return json_read_string(scan, &string);
    if (json_take_unfinite(scan, &unfinite))
        return 0;
    if (c == '-' || (c >= '0' && c <= '9'))
        return json_read_number(scan, &number);
    return take_word(scan, "true") || take_word(scan, "false") || take_word(scan, "null")
               ? 0
               : json_expected(scan, "a value");
}

int json_skip(struct json_scan *scan) {
    struct json_members open[JSON_DEPTH_MAX];
    int depth = 0;
    for (uint32_t steps = 1;; steps++) {
        char c = json_peek(scan);
        int rc;
        if (steps % SLICE_STEPS == 0)
            yield_point();
        if (c == '{' || c == '[') {
            if (depth == JSON_DEPTH_MAX)
                return json_error(scan, "more than 100 levels of nesting");
            rc = json_open(scan, &open[depth++], c, "a value");
        } else {
            rc = skip_scalar(scan);
        }
        if (rc)
            return rc;
        /* close what ends here, then go on to the next member */
        for (;;) {
            if (depth == 0)
                return 0;
            struct json_members *members = &open[depth - 1];
            struct json_string key;
            rc = members->close == '}' ? json_next_key(scan, members, &key) : json_next(scan, members);
            if (rc < 0)
                return rc;
            if (rc > 0)
                break;
            depth--;
        }
    }
}
