/* request_trail.h - the trail of a request, from what its frontend knows of it. Pure; any thread. */
#pragma once

#include "core/data/trail.h"
#include "front/request/request.h"

/* The trail of a request whose answer went out, or is to go out, at end_ns; without its model, status and id. */
struct trail request_trail(const struct request *request, enum trail_state state, int64_t end_ns);
