/* labels.h - the names of an output's classes, from the file that config.pbtxt calls `label_filename`: one line for
 * each class. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

struct labels;

/* Reads a file of labels. Set-up only. labels_free() frees the labels. 0, or -errno with a sentence. */
int labels_read(const char *path, struct labels **labels, struct sy_error *err);
/* As labels_read(), from `text`, the bytes of such a file in memory that malloc() gave. labels_take() takes `text`
 * over, errors or not. */
int labels_take(char *text, size_t bytes, struct labels **labels, struct sy_error *err);
/* Takes another reference, which labels_free() gives back. Returns `labels`, which may be NULL. Any thread that has a
 * reference. */
struct labels *labels_hold(struct labels *labels);
/* Gives a reference back; the last one frees the labels. NULL is allowed. */
void labels_free(struct labels *labels);

/* The name of the class `index`, and its length; NULL: the file has no such line. Any thread; `labels` may be NULL. */
const char *labels_get(const struct labels *labels, uint64_t index, size_t *length);
