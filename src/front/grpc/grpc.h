/* grpc.h - gRPC over HTTP/2: inference.GRPCInferenceService, grpc.health.v1.Health and grpc.reflection. */
#pragma once

#include "front/net/frontend.h"

/* For frontend_start(). Quiescing sends GOAWAY: connections end with their last call. At its end it answers UNAVAILABLE
 * what was cancelled. */
extern const struct protocol grpc_protocol;
