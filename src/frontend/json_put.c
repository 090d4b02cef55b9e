/* json_put.c - writes strings and whole numbers as JSON. */
#include "frontend/json_put.h"

#include "frontend/json_scan.h"

void json_put_string(struct text *text, const char *string) {
    const char *end = string + strlen(string);
    text_put_char(text, '"');
    while (string < end) {
        unsigned char c = (unsigned char)*string;
        size_t length = c < 0x80 ? 1 : json_utf8_length(string, end);
        if (c == '"' || c == '\\')
            text_put_char(text, '\\');
        if (c < 0x20)
            text_printf(text, "\\u%04x", c);
        else if (length > 0)
            text_append(text, string, length);
        else
            text_put_char(text, '?');
        string += length > 0 ? length : 1;
    }
    text_put_char(text, '"');
}

void json_put_unsigned(struct text *text, uint64_t value) {
    char digits[20];
    size_t n = sizeof(digits);
    do {
        digits[--n] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    text_append(text, digits + n, sizeof(digits) - n);
}

void json_put_error(struct text *text, const char *sentence) {
    text_put(text, "{\"error\":");
    json_put_string(text, sentence);
    text_put_char(text, '}');
}
