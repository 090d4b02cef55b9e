/* labels.h - the names of an output's classes, from the file that config.pbtxt calls `label_filename`: a line a class.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

struct labels;

/* Reads a file. Set-up only. Free it with labels_free(). -errno with a sentence. */
int labels_read(const char *path, struct labels **labels, struct sy_error *err);
/* The same of a file's bytes in memory, which are taken over, errors or not: free() frees them. */
int labels_take(char *text, size_t bytes, struct labels **labels, struct sy_error *err);
/* Takes another reference, for labels_free(). NULL is allowed, and comes back. Any thread that has one. */
struct labels *labels_hold(struct labels *labels);
/* Gives a reference back; the last one frees. NULL is allowed. */
void labels_free(struct labels *labels);

/* The name of a class and its length, or NULL if the file has no such line. Any thread; `labels` may be NULL. */
const char *labels_get(const struct labels *labels, uint64_t index, size_t *length);
