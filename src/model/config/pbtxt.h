/* pbtxt.h - protobuf's text format as a tree.
 *
 * Read: fields, nested messages in {} or <>, lists in [], strings with escapes and concatenation, numbers, words,
 * comments. Not read: extensions and Any. A file is at most PBTXT_BYTES_MAX bytes. Any thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

#define PBTXT_BYTES_MAX (1 << 20)
#define PBTXT_DEPTH_MAX 32 /* levels of messages within each other */

enum pbtxt_kind { PBTXT_MESSAGE, PBTXT_STRING, PBTXT_NUMBER, PBTXT_WORD };

/* One value of a field; a list gives one node for each of its values. */
struct pbtxt_node {
    enum pbtxt_kind kind;
    uint32_t line, column;    /* of the field's name, from 1; in a list, of the value */
    char *name;               /* of the field; NULL for the root */
    char *text;               /* of a scalar: a string's bytes; a number as written, with its sign; a word. Else NULL */
    size_t length;            /* bytes of text, which has a terminator, too */
    struct pbtxt_node *first; /* of a message: its fields, in the file's order */
    struct pbtxt_node *next;
};

/* -EINVAL with "ORIGIN:LINE:COLUMN: sentence". The root, a message, is the caller's to free. */
int pbtxt_read(const char *origin, const char *text, size_t bytes, struct pbtxt_node **root, struct sy_error *err);
/* NULL is fine. */
void pbtxt_free(struct pbtxt_node *root);

/* The first field of that name, or NULL; pbtxt_next() the next of the same name. */
const struct pbtxt_node *pbtxt_find(const struct pbtxt_node *message, const char *name);
const struct pbtxt_node *pbtxt_next(const struct pbtxt_node *node);

/* -EINVAL with "ORIGIN:LINE:COLUMN: sentence". */
int pbtxt_error(const char *origin, const struct pbtxt_node *node, struct sy_error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A whole number in [min, max] (decimal, 0x or leading 0), or -EINVAL that names the field. */
int pbtxt_get_int(const char *origin, const struct pbtxt_node *node, int64_t min, int64_t max, int64_t *value,
                  struct sy_error *err);
