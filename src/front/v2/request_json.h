/* request_json.h - reads the JSON of requests other than infer. */
#pragma once

#include <jansson.h>

#include "core/util/error.h"

/* The body as a JSON object, which the caller frees; an empty body is an empty object. NULL with a sentence: it is
 * none. */
json_t *request_json(const char *body, size_t bytes, struct sy_error *err);
