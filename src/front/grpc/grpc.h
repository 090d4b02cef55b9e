/* grpc.h - gRPC over HTTP/2: inference.GRPCInferenceService, grpc.health.v1.Health and grpc.reflection. */
#pragma once

#include "front/net/frontend.h"

/* The protocol for frontend_start(). Quiescing sends GOAWAY: connections end with their last call. When the frontend
 * ends, cancelled requests are answered UNAVAILABLE. */
extern const struct protocol grpc_protocol;
