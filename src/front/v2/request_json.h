/* request_json.h - the JSON of requests other than infer. */
#pragma once

#include <jansson.h>

#include "front/v2/v2.h"

/* The body as an object, which the caller frees; an empty body is an empty one. NULL: the answer says what is wrong. */
json_t *request_json(struct v2_answer *answer, const char *body, size_t bytes);
