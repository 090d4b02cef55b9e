/* visit.h - asks the scheduler of a cluster one thing, and goes. Blocks, up to its timeout. Any thread. */
#pragma once

#include "cluster/wire.h"

struct visit {
    const char *scheduler; /* HOST:PORT */
    const char *token;     /* "": none */
    int64_t timeout_ns;
};

/* Sends a frame of `kind` (FRAME_STATUS, FRAME_DRAIN) with `text` as its head. 0, and the JSON that answers,
 * terminated, to be freed; or -errno with a sentence: -EACCES if the scheduler refused. */
int visit_ask(const struct visit *visit, enum frame_kind kind, const char *text, char **answer, struct sy_error *err);
