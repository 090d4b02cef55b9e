/* aside.h - lists of models that a backend has and does not serve, with the reasons. A backend sends its list to the
 * scheduler (FRAME_ASIDE), which shows it to visitors. JSON:
 *
 *     [{"name": "resnet50", "version": 1, "reason": "a sentence"}]
 *
 * Any thread; no state. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

/* Adds a model; version 0: not known. Bytes that are not UTF-8 are replaced. Without memory the model is left out. */
void aside_add(json_t *list, const char *name, uint32_t version, const char *reason);
/* The list as text, the caller's to free(). If it would be longer than `bytes_max`, the last models are removed from
 * the list. NULL: no memory. */
char *aside_write(json_t *list, size_t bytes_max);
/* Reads the list of another process. NULL, with a sentence: the text is no such list, or there is no memory. */
json_t *aside_read(const char *text, size_t bytes, struct sy_error *err);
