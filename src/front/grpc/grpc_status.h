/* grpc_status.h - gRPC's status codes and the formats of its headers. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_UNAUTHENTICATED = 16,
    GRPC_CODE_COUNT = 17,
};

/* The gRPC code for a frontends' status, which is HTTP's: 400 INVALID_ARGUMENT, 401 UNAUTHENTICATED, 404 NOT_FOUND, 409
 * ALREADY_EXISTS, 413 and 431 RESOURCE_EXHAUSTED, 415 and 501 UNIMPLEMENTED, 503 UNAVAILABLE, 408 and 504
 * DEADLINE_EXCEEDED, anything else INTERNAL. */
enum grpc_code grpc_code_of(unsigned status);
/* The name of a code, such as "NOT_FOUND". */
const char *grpc_code_name(unsigned code);

#define GRPC_TIMEOUT_NONE INT64_MAX
/* The value of grpc-timeout (up to eight digits and a unit) in nanoseconds; -EINVAL: malformed. More than a century
 * counts as none. */
int64_t grpc_timeout_parse(const char *value, size_t length);
/* Percent-encodes a sentence for grpc-message, and cuts it off where it does not fit. Returns the encoded length. */
size_t grpc_message_encode(const char *sentence, char *out, size_t bytes);
