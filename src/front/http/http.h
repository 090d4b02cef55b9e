/* http.h - HTTP/1.1: the Open Inference Protocol's paths, or pages of another kind (frontend_config.page). */
#pragma once

#include "front/net/frontend.h"

/* The protocol for frontend_start(). When the frontend ends, cancelled requests are answered 503. */
extern const struct protocol http_protocol;
