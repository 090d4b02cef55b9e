/* model_config_json.h - turns a ModelConfig of Triton that a client sends as JSON into the text of a config.pbtxt. Any
 * thread; no state. */
#pragma once

#include <stddef.h>

#include "core/util/error.h"
#include "core/util/text.h"

/* Appends the text of a config.pbtxt. The JSON has fields by their names in the .proto, or in lower camel case; 64-bit
 * integers may be strings; null means not given. -EINVAL with "config: PLACE: sentence". The values are checked when
 * the text is read (model_config.h). */
int model_config_of_json(const char *json, size_t bytes, struct text *out, struct sy_error *err);
