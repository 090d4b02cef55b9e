/* refusal.h - what a client is told of a request that the scheduler refused. Pure; any thread. */
#pragma once

#include "base/error.h"
#include "repository/served_model.h"
#include "request/request.h"

/* The status (503, or 504 if the deadline was the client's own: `limited`) and the sentence for a request of `model`
 * that came back refused. *retry: whether it is worth trying again soon. */
unsigned refusal_result(const struct served_model *model, const struct request *request, bool limited, bool *retry,
                        struct sy_error *err);
