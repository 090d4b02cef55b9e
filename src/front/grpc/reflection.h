/* reflection.h - gRPC's server reflection: what services there are, and the descriptors of their messages, so that
 * tools such as grpcurl need no .proto. v1 and v1alpha are the same but for their package's name. Pure; any thread. */
#pragma once

#include "core/util/error.h"
#include "core/util/text.h"

/* Appends the ServerReflectionResponse to a ServerReflectionRequest. 200, or 400 with a sentence: the request is no
 * protobuf. The response tells what was not found. */
unsigned reflection_answer(const char *message, size_t bytes, struct text *out, struct sy_error *err);
