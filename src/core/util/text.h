/* text.h - growable text: starts in memory of the caller's, moves to the heap when it outgrows that.
 *
 * Not thread-safe. Running out of memory sets `failed` and drops what does not fit, so that a writer checks once, at
 * the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct text {
    char *data; /* not terminated; see text_end() */
    size_t length, capacity;
    bool on_heap, failed;
};

/* Starts in `memory` (which must outlive the text or its first growth), or with NULL and 0 on the heap. */
static inline void text_init(struct text *text, char *memory, size_t bytes) {
    *text = (struct text){.data = memory, .capacity = bytes};
}

/* Frees what the text allocated. The text is then empty and no longer has the memory it started in. */
void text_free(struct text *text);

/* Slow path of text_reserve(). */
bool text_grow(struct text *text, size_t bytes);

/* Room for `bytes` more at data + length; false, with `failed` set, when memory is out. */
static inline bool text_reserve(struct text *text, size_t bytes) {
    return text->capacity - text->length >= bytes || text_grow(text, bytes);
}

static inline void text_append(struct text *text, const char *data, size_t length) {
    if (length > 0 && text_reserve(text, length)) {
        memcpy(text->data + text->length, data, length);
        text->length += length;
    }
}

static inline void text_put(struct text *text, const char *string) {
    text_append(text, string, strlen(string));
}

static inline void text_put_char(struct text *text, char c) {
    text_append(text, &c, 1);
}

void text_printf(struct text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The text as a C string: terminates it without counting the terminator. "" when memory is out. */
const char *text_end(struct text *text);
