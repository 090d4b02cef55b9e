/* aside.h - models that a backend has and that are not served, with their reasons: as a backend tells its scheduler of
 * them (FRAME_ASIDE), and as the scheduler tells visitors. JSON:
 *
 *     [{"name": "resnet50", "version": 1, "reason": "a sentence"}]
 *
 * Any thread; no state. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

/* Adds a model; version 0: not known. What is not UTF-8 is replaced. Without memory it is left out. */
void aside_add(json_t *list, const char *name, uint32_t version, const char *reason);
/* The list as text, the caller's to free(). If it would be longer than `bytes_max`, the last models are removed from
 * the list. NULL: no memory. */
char *aside_write(json_t *list, size_t bytes_max);
/* Reads what another process wrote. NULL, with a sentence: it is no such list, or there is no memory. */
json_t *aside_read(const char *text, size_t bytes, struct sy_error *err);
