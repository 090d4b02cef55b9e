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
    uint32_t line, column; /* place of the field's name, from 1; in a list, place of the value */
    char *name;            /* name of the field; NULL: the root */
    char *text;            /* scalar: a string's bytes, a number as written with its sign, or a word; NULL: a message */
    size_t length;         /* bytes of `text`, without its terminator */
    struct pbtxt_node *first; /* first field of a message, in the file's order */
    struct pbtxt_node *next;  /* next field of the message that holds this node */
};

/* Reads text into a tree, whose root is a message. The caller frees the root. 0, or -EINVAL with "ORIGIN:LINE:COLUMN:
 * sentence". */
int pbtxt_read(const char *origin, const char *text, size_t bytes, struct pbtxt_node **root, struct sy_error *err);
/* Frees a tree, from its root. NULL is allowed. */
void pbtxt_free(struct pbtxt_node *root);

/* The first field with the name `name`, and the next field with the name of `node`; NULL: there is none. */
const struct pbtxt_node *pbtxt_find(const struct pbtxt_node *message, const char *name);
const struct pbtxt_node *pbtxt_next(const struct pbtxt_node *node);

/* -EINVAL with "ORIGIN:LINE:COLUMN: sentence". */
int place_error(const char *origin, uint32_t line, uint32_t column, struct sy_error *err, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* The same of a node, or of another struct that has a line and a column. */
#define pbtxt_error(origin, node, err, ...) place_error(origin, (node)->line, (node)->column, err, __VA_ARGS__)

/* Whether a bool that model_config_check() has passed is true; false of NULL. */
bool pbtxt_flag(const struct pbtxt_node *node);
/* Reads a whole number in [min, max] (decimal, 0x or leading 0). 0, or -EINVAL with a sentence that names the field. */
int pbtxt_get_int(const char *origin, const struct pbtxt_node *node, int64_t min, int64_t max, int64_t *value,
                  struct sy_error *err);
