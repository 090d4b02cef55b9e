/* accelerators_answer.h - /v2/symphony/accelerators: lists accelerators, and takes orders to drain them and to take
 * them back. An extension of this server. */
#pragma once

#include "front/request/accelerators.h"
#include "front/v2/v2.h"

/* Answers GET of all accelerators. */
void accelerators_answer(struct v2_answer *answer, const struct accelerator_source *source);
/* Answers GET and POST of one accelerator, whose number is the route's `version`; `body` is a POST's. 0, or a status
 * with a sentence. */
int accelerator_answer(struct v2_answer *answer, const struct v2_route *route, const struct accelerator_source *source,
                       const char *body, size_t bytes, struct sy_error *err);
