/* text.h - growable text: it starts in memory of the caller, and moves to the heap when it outgrows that memory.
 *
 * Not thread-safe. When memory runs out, `failed` is set and text that does not fit is dropped, so that a writer checks
 * once, at the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct text {
    char *data; /* characters of the text, not terminated; see text_end() */
    size_t length, capacity;
    bool on_heap, failed;
};

/* Starts the text in `memory`, which must stay until text_free() or until the text has moved to the heap; or on the
 * heap, if `memory` is NULL and `bytes` is 0. */
static inline void text_init(struct text *text, char *memory, size_t bytes) {
    *text = (struct text){.data = memory, .capacity = bytes};
}

/* Empties the text, which keeps its memory. What failed before is forgotten. */
static inline void text_clear(struct text *text) {
    text->length = 0;
    text->failed = false;
}

/* Frees what the text allocated. The text is then empty and no longer has the memory it started in. */
void text_free(struct text *text);

/* Slow path of text_reserve(). */
bool text_grow(struct text *text, size_t bytes);

/* Makes room for `bytes` more bytes at data + length. False, with `failed` set: out of memory. */
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

/* The text as a C string: adds a terminator, which `length` does not count. "": out of memory. */
const char *text_end(struct text *text);
