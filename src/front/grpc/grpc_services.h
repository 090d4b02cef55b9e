/* grpc_services.h - the methods of the services, and the answers to all but inference. The frontend's thread; not on
 * the hot path. */
#pragma once

#include <stddef.h>

#include "core/util/error.h"
#include "core/util/text.h"
#include "front/net/frontend.h"
#include "front/v2/v2.h"

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
    GRPC_SCALER_ACTIVE, /* KEDA's external scaler (external_scaler.h) */
    GRPC_SCALER_WATCH,
    GRPC_SCALER_SPEC,
    GRPC_SCALER_WATCH_SPEC,
    GRPC_SCALER_METRICS,
    GRPC_LOAD,       /* an order, which grpc_exchange.c hands in; not answered here */
    GRPC_UNLOAD,     /* an order, too */
    GRPC_NOT_SERVED, /* a method of these services that is not served */
    GRPC_NO_METHOD,
};

/* Whether a call of the method may have any number of messages. */
static inline bool grpc_method_streams(enum grpc_method method) {
    return method == GRPC_MODEL_STREAM_INFER || method == GRPC_REFLECTION;
}

/* Whether a call of the method is answered at once, and again when the answer changes. */
static inline bool grpc_method_watches(enum grpc_method method) {
    return method == GRPC_HEALTH_WATCH || method == GRPC_SCALER_WATCH || method == GRPC_SCALER_WATCH_SPEC;
}

static inline bool grpc_method_infers(enum grpc_method method) {
    return method == GRPC_MODEL_INFER || method == GRPC_MODEL_STREAM_INFER;
}

/* Whether the method loads or unloads a model. */
static inline bool grpc_method_orders(enum grpc_method method) {
    return method == GRPC_LOAD || method == GRPC_UNLOAD;
}

/* Whether the method asks for health, and is answered once. */
static inline bool grpc_method_asks_health(enum grpc_method method) {
    return method == GRPC_SERVER_LIVE || method == GRPC_SERVER_READY || method == GRPC_HEALTH_CHECK;
}

/* The method of a request's :path. */
enum grpc_method grpc_method_find(const char *path, size_t length);

/* Answers a unary method's message: appends the response to `out`. 200, or a status with a sentence. `local`: the
 * client is on this machine. */
unsigned grpc_service_answer(const struct frontend *frontend, enum grpc_method method, bool local, const char *message,
                             size_t bytes, struct text *out, struct sy_error *err);

/* The present answer to a watcher with this message, as a number. */
int grpc_watch_first(const struct frontend *frontend, enum grpc_method method, const char *message, size_t bytes);
/* The present answer to a watcher, as a number; `told`, the last answer, if nothing has changed. */
int grpc_watch_now(const struct frontend *frontend, enum grpc_method method, int told);
/* Appends the answer with the number `now`. */
void grpc_watch_put(struct text *out, enum grpc_method method, int now);
