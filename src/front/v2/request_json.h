/* request_json.h - reads the JSON of requests other than infer. */
#pragma once

#include <jansson.h>

#include "front/v2/v2.h"

/* The body as a JSON object, which the caller frees; an empty body is an empty object. NULL: see the answer. */
json_t *request_json(struct v2_answer *answer, const char *body, size_t bytes);
