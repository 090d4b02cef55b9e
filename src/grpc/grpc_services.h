/* grpc_services.h - the methods of the services, and the answers to all but inference. The frontend's thread; not on
 * the hot path. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "base/text.h"
#include "net/frontend.h"
#include "v2/v2.h"

enum grpc_method {
    GRPC_MODEL_INFER,
    GRPC_MODEL_STREAM_INFER,
    GRPC_SERVER_LIVE,
    GRPC_SERVER_READY,
    GRPC_MODEL_READY,
    GRPC_SERVER_METADATA,
    GRPC_MODEL_METADATA,
    GRPC_MODEL_CONFIG,
    GRPC_REPOSITORY_INDEX,
    GRPC_MODEL_STATISTICS,
    GRPC_TRACE_SETTING,
    GRPC_LOG_SETTINGS,
    GRPC_SHARED_STATUS,
    GRPC_SHARED_REGISTER,
    GRPC_SHARED_UNREGISTER,
    GRPC_CUDA_STATUS,
    GRPC_CUDA_UNREGISTER,
    GRPC_HEALTH_CHECK,
    GRPC_HEALTH_WATCH,
    GRPC_REFLECTION,
    GRPC_LOAD, /* this and the next: orders, which grpc_call.c hands in; not answered here */
    GRPC_UNLOAD,
    GRPC_NOT_SERVED, /* a method of these services that is not served */
    GRPC_NO_METHOD,
};

/* A call of it may have any number of messages. */
static inline bool grpc_method_streams(enum grpc_method method) {
    return method == GRPC_MODEL_STREAM_INFER || method == GRPC_REFLECTION;
}

/* Of a request's :path. */
enum grpc_method grpc_method_find(const char *path, size_t length);

/* As grpc.health.v1 has it. */
enum grpc_health { GRPC_HEALTH_NONE, GRPC_HEALTH_SERVING, GRPC_HEALTH_NOT_SERVING, GRPC_HEALTH_UNKNOWN_SERVICE };

/* Answers a unary method's message: appends the response to `out`. 200, or a status with a sentence. */
unsigned grpc_service_answer(const struct frontend *frontend, enum grpc_method method, const char *message,
                             size_t bytes, struct text *out, struct sy_error *err);

/* Of a HealthCheckRequest's service; GRPC_HEALTH_NONE: the message is no protobuf. */
enum grpc_health grpc_health_of(const struct frontend *frontend, const char *message, size_t bytes);
/* Of a service that is known. */
enum grpc_health grpc_health_now(const struct frontend *frontend);
/* Appends a HealthCheckResponse. */
void grpc_health_put(struct text *out, enum grpc_health health);
