/* server_trails.h - the trails that this process's frontends keep, as JSON. */
#pragma once

#include "core/data/trail.h"
#include "core/util/text.h"
#include "model/repository/model_index.h"

/* What is to be added to a time of CLOCK_MONOTONIC for nanoseconds since 1970. */
int64_t server_trails_wall_ns(void);
/* Appends a trail as an object, with the names of models by `listed`, which is locked (model_list_lock()). `wall_ns`:
 * as above. */
void server_trail_put(const struct model_index *listed, const struct trail *trail, int64_t wall_ns, struct text *out);
