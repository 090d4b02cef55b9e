/* text.c - growable text. */
#include "core/util/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void text_free(struct text *text) {
    if (text->on_heap)
        free(text->data);
    *text = (struct text){0};
}

bool text_grow(struct text *text, size_t bytes) {
    size_t capacity = text->capacity < 256 ? 256 : text->capacity;
    while (capacity - text->length < bytes && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    char *data =
        text->failed || capacity - text->length < bytes ? NULL : realloc(text->on_heap ? text->data : NULL, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    if (!text->on_heap && text->length > 0)
        memcpy(data, text->data, text->length);
    text->data = data;
    text->capacity = capacity;
    text->on_heap = true;
    return true;
}

void text_printf(struct text *text, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    size_t room = text->capacity - text->length;
    int n = vsnprintf(room ? text->data + text->length : NULL, room, fmt, ap);
    if (n > 0 && (size_t)n >= room && text_reserve(text, (size_t)n + 1))
        vsnprintf(text->data + text->length, (size_t)n + 1, fmt, again);
    if (n > 0 && text->capacity - text->length > (size_t)n)
        text->length += (size_t)n;
    va_end(again);
    va_end(ap);
}

const char *text_end(struct text *text) {
    if (!text_reserve(text, 1))
        return "";
    text->data[text->length] = '\0';
    return text->data;
}
