/* http.h - HTTP/1.1: the Open Inference Protocol's paths, or pages that are none of the protocol
 * (frontend_config.page). */
#pragma once

#include "front/net/frontend.h"

/* For frontend_start(). At its end it answers 503 what was cancelled. */
extern const struct protocol http_protocol;
