/* query.c - takes a query apart. */
#include "front/v2/query.h"

#include <string.h>

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decodes a text in which `%` and two digits stand for a byte, and '+' for a blank. Returns its length; what is longer
 * than room - 1 is cut off. */
static size_t decode(const char *at, const char *end, char *out, size_t room) {
    size_t n = 0;
    for (; at < end && n < room - 1; at++) {
        bool escaped = *at == '%' && end - at > 2 && digit_of(at[1]) >= 0 && digit_of(at[2]) >= 0;
        out[n++] = escaped ? (char)(digit_of(at[1]) * 16 + digit_of(at[2])) : *at == '+' ? ' ' : *at;
        at += escaped ? 2 : 0;
    }
    out[n] = '\0';
    return n;
}

bool query_next(struct query *q) {
    while (q->at < q->end && *q->at == '&')
        q->at++;
    if (q->at == q->end)
        return false;
    const char *end = memchr(q->at, '&', (size_t)(q->end - q->at));
    end = end ? end : q->end;
    const char *equals = memchr(q->at, '=', (size_t)(end - q->at));
    decode(q->at, equals ? equals : end, q->key, sizeof(q->key));
    q->value_length = decode(equals ? equals + 1 : end, end, q->value, sizeof(q->value));
    q->at = end;
    return true;
}

int query_number(const struct query *q, uint32_t min, uint32_t max, uint32_t *number, struct sy_error *err) {
    uint64_t value = 0;
    for (const char *c = q->value; *c >= '0' && *c <= '9' && value <= max; c++)
        value = value * 10 + (uint64_t)(*c - '0');
    if (!*q->value || value < min || value > max || q->value[strspn(q->value, "0123456789")])
        return error_set(err, 400, "expected a number from %u to %u for '%s'", (unsigned)min, (unsigned)max, q->key);
    *number = (uint32_t)value;
    return 0;
}
