/* model_name.h - which names a model may have. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a model may have this name: 1 to MODEL_NAME_MAX - 1 printable ASCII characters without blanks, quotes,
 * slashes and backslashes. Such a name fits into paths, metrics' labels and logs as it is. */
bool model_name_is_valid(const char *name);
#define MODEL_NAME_EXPECTED "1 to 127 printable ASCII characters without blanks, quotes and slashes"

/* A number of a name, for tables; two names may have the same one. */
uint32_t model_name_hash(const char *name, size_t length);
