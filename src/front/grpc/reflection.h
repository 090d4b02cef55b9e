/* reflection.h - gRPC's server reflection: the list of services, and the descriptors of their messages, so that tools
 * such as grpcurl need no .proto. v1 and v1alpha differ only in their package's name. Pure; any thread. */
#pragma once

#include "core/util/error.h"
#include "core/util/text.h"

/* Appends the ServerReflectionResponse to a ServerReflectionRequest. 200, or 400 with a sentence: the request is no
 * protobuf. If a name is not found, the response says so. */
unsigned reflection_answer(const char *message, size_t bytes, struct text *out, struct sy_error *err);
