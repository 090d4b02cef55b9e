/* model_config_json.h - turns Triton's ModelConfig given as JSON, as clients send it, into the text of a config.pbtxt.
 * Any thread; no state. */
#pragma once

#include <stddef.h>

#include "core/util/error.h"
#include "core/util/text.h"

/* Appends the text. Fields by their names in the .proto, or in lower camel case; 64-bit integers may be strings; null
 * means not given. -EINVAL with "config: PLACE: sentence". What the values mean is checked when the text is read
 * (model_config.h). */
int model_config_of_json(const char *json, size_t bytes, struct text *out, struct sy_error *err);
