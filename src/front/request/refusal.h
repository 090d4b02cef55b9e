/* refusal.h - the status and sentence for a client whose request the scheduler refused. Pure; any thread. */
#pragma once

#include "core/util/error.h"
#include "front/request/request.h"
#include "model/config/served_model.h"

struct model_index;

/* The status (503, or 504 if the deadline was the client's own: `limited`) and the sentence for a request of `model`
 * that came back refused: what, why, and what would help. *retry: whether the client may try again soon. `models`: the
 * present list, for the name of another model; NULL: none is named. */
unsigned refusal_result(const struct served_model *model, const struct request *request, bool limited,
                        const struct model_index *models, int64_t now_ns, bool *retry, struct sy_error *err);
