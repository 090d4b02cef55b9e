/* utf8.c - recognises and writes UTF-8. */
#include "core/util/utf8.h"

#include <string.h>

size_t utf8_length(const char *at, const char *end_of_text) {
    const unsigned char *p = (const unsigned char *)at, *end = (const unsigned char *)end_of_text;
    size_t length = p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (length == 0 || (size_t)(end - p) < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return length;
}

/* As utf8_length(), also for a sequence of one byte. */
static size_t sequence_length(const char *at, const char *end) {
    return (unsigned char)*at < 0x80 ? 1 : utf8_length(at, end);
}

bool utf8_is_valid(const char *text) {
    const char *end = text + strlen(text);
    while (text < end) {
        size_t length = sequence_length(text, end);
        if (length == 0)
            return false;
        text += length;
    }
    return true;
}

void utf8_clean(char *text, size_t length) {
    for (char *at = text, *end = text + length; at < end;) {
        unsigned char c = (unsigned char)*at;
        size_t bytes = sequence_length(at, end);
        if (c == '\n' || c == '\t')
            *at = ' ';
        else if (bytes == 0 || c < ' ' || c == 0x7f)
            *at = '?';
        at += bytes > 0 ? bytes : 1;
    }
}

size_t utf8_write(uint32_t c, char *out) {
    size_t tail = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    out[0] = (char)(tail ? 0xff << (7 - tail) | c >> (6 * tail) : c);
    for (size_t i = 1; i <= tail; i++)
        out[i] = (char)(0x80 | (c >> (6 * (tail - i)) & 0x3f));
    return 1 + tail;
}
