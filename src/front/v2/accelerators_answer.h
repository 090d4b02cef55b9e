/* accelerators_answer.h - /v2/symphony/accelerators: which there are, and orders to drain them and to have them back.
 * An extension of this server's own. */
#pragma once

#include "front/request/accelerators.h"
#include "front/v2/v2.h"

/* GET: all of them. */
void accelerators_answer(struct v2_answer *answer, const struct accelerator_source *source);
/* GET and POST of one, whose number is the route's `version`; `body` is a POST's. */
void accelerator_answer(struct v2_answer *answer, const struct v2_route *route, const struct accelerator_source *source,
                        const char *body, size_t bytes);
