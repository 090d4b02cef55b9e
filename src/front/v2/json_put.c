/* json_put.c - writes strings and whole numbers as JSON. */
#include "front/v2/json_put.h"

#include "core/util/utf8.h"

bool json_put_bytes(struct text *text, const char *data, size_t length) {
    const char *end = data + length;
    bool valid = true;
    text_put_char(text, '"');
    while (data < end) {
        const char *plain = data; /* the start of what is written as it is */
        unsigned char c = 0;
        size_t bytes = 0;
        for (; data < end; data += bytes) {
            c = (unsigned char)*data;
            bytes = c < 0x80 ? 1 : utf8_length(data, end);
            if (c < 0x20 || c == '"' || c == '\\' || bytes == 0)
                break;
        }
        text_append(text, plain, (size_t)(data - plain));
        if (data == end)
            break;
        if (bytes == 0)
            text_put_char(text, '?');
        else if (c < 0x20)
            text_printf(text, "\\u%04x", c);
        else
            text_append(text, (const char[]){'\\', (char)c}, 2);
        valid &= bytes > 0;
        data++;
    }
    text_put_char(text, '"');
    return valid;
}

void json_put_string(struct text *text, const char *string) {
    json_put_bytes(text, string, strlen(string));
}

void json_put_unsigned(struct text *text, uint64_t value) {
    char digits[JSON_DIGITS_MAX];
    text_append(text, digits, json_digits(digits, value));
}

void json_put_error(struct text *text, const char *sentence) {
    text_put(text, "{\"error\":");
    json_put_string(text, sentence);
    text_put_char(text, '}');
}
