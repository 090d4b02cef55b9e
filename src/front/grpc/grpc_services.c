/* grpc_services.c - the answers of every method but inference: reads a message, and writes its answer. */
#include "front/grpc/grpc_services.h"

#include <string.h>

#include "core/util/container.h"
#include "externalscaler.pb-c.h"
#include "front/grpc/external_scaler.h"
#include "front/grpc/grpc_pack.h"
#include "front/grpc/reflection.h"
#include "front/v2/describe.h"
#include "front/v2/settings.h"
#include "health.pb-c.h"

#define SERVICE "/inference.GRPCInferenceService/"
#define SCALER  "/externalscaler.ExternalScaler/"

#define REQUEST(name) &inference__##name##_request__descriptor

/* `request`: form of the message; NULL: the message is read elsewhere, or its answer does not depend on it. */
static const struct {
    const char *path;
    enum grpc_method method;
    const ProtobufCMessageDescriptor *request;
} methods[] = {
    {SERVICE "ModelInfer", GRPC_MODEL_INFER, NULL},
    {SERVICE "ModelStreamInfer", GRPC_MODEL_STREAM_INFER, NULL},
    {SERVICE "ServerLive", GRPC_SERVER_LIVE, NULL},
    {SERVICE "ServerReady", GRPC_SERVER_READY, NULL},
    {SERVICE "ModelReady", GRPC_MODEL_READY, REQUEST(model_ready)},
    {SERVICE "ServerMetadata", GRPC_SERVER_METADATA, NULL},
    {SERVICE "ModelMetadata", GRPC_MODEL_METADATA, REQUEST(model_metadata)},
    {SERVICE "ModelConfig", GRPC_MODEL_CONFIG, REQUEST(model_config)},
    {SERVICE "RepositoryIndex", GRPC_REPOSITORY_INDEX, REQUEST(repository_index)},
    {"/grpc.health.v1.Health/Check", GRPC_HEALTH_CHECK, &grpc__health__v1__health_check_request__descriptor},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", GRPC_REFLECTION, NULL},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", GRPC_REFLECTION, NULL},
    {"/grpc.health.v1.Health/Watch", GRPC_HEALTH_WATCH, &grpc__health__v1__health_check_request__descriptor},
    {SERVICE "ModelStatistics", GRPC_MODEL_STATISTICS, REQUEST(model_statistics)},
    {SERVICE "RepositoryModelLoad", GRPC_LOAD, NULL},
    {SERVICE "RepositoryModelUnload", GRPC_UNLOAD, NULL},
    {SERVICE "SystemSharedMemoryStatus", GRPC_SHARED_STATUS, REQUEST(system_shared_memory_status)},
    {SERVICE "SystemSharedMemoryRegister", GRPC_SHARED_REGISTER, REQUEST(system_shared_memory_register)},
    {SERVICE "SystemSharedMemoryUnregister", GRPC_SHARED_UNREGISTER, REQUEST(system_shared_memory_unregister)},
    {SERVICE "CudaSharedMemoryStatus", GRPC_CUDA_STATUS, NULL},
    {SERVICE "CudaSharedMemoryRegister", GRPC_NOT_SERVED, NULL},
    {SERVICE "CudaSharedMemoryUnregister", GRPC_CUDA_UNREGISTER, NULL},
    {SERVICE "TraceSetting", GRPC_TRACE_SETTING, REQUEST(trace_setting)},
    {SERVICE "LogSettings", GRPC_LOG_SETTINGS, REQUEST(log_settings)},
    {SCALER "IsActive", GRPC_SCALER_ACTIVE, &externalscaler__scaled_object_ref__descriptor},
    {SCALER "StreamIsActive", GRPC_SCALER_WATCH, &externalscaler__scaled_object_ref__descriptor},
    {SCALER "GetMetricSpec", GRPC_SCALER_SPEC, &externalscaler__scaled_object_ref__descriptor},
    {SCALER "StreamMetricSpec", GRPC_SCALER_WATCH_SPEC, &externalscaler__scaled_object_ref__descriptor},
    {SCALER "GetMetrics", GRPC_SCALER_METRICS, &externalscaler__get_metrics_request__descriptor},
};

enum grpc_method grpc_method_find(const char *path, size_t length) {
    for (unsigned i = 0; i < ARRAY_COUNT(methods); i++)
        if (strlen(methods[i].path) == length && memcmp(methods[i].path, path, length) == 0)
            return methods[i].method;
    return GRPC_NO_METHOD;
}

static bool flag(const _Atomic bool *where) {
    return atomic_load_explicit(
        where, memory_order_acquire); /* with the flag's store, which comes after what the flag tells of */
}

static bool server_ready(const struct frontend *f) {
    return flag(f->config.ready) && !flag(f->config.draining);
}

/* ---- health ---- */

/* ServingStatus of grpc.health.v1, by its numbers. */
enum grpc_health { GRPC_HEALTH_SERVING = 1, GRPC_HEALTH_NOT_SERVING, GRPC_HEALTH_UNKNOWN_SERVICE };

/* The health of a service that is known. */
static enum grpc_health health_now(const struct frontend *f) {
    return server_ready(f) ? GRPC_HEALTH_SERVING : GRPC_HEALTH_NOT_SERVING;
}

/* The health of a HealthCheckRequest's service. */
static enum grpc_health health_of(const struct frontend *f, const Grpc__Health__V1__HealthCheckRequest *request) {
    bool known = request->service[0] == '\0' || strcmp(request->service, "inference.GRPCInferenceService") == 0;
    return known ? health_now(f) : GRPC_HEALTH_UNKNOWN_SERVICE;
}

/* Appends a HealthCheckResponse. */
static unsigned health_put(struct text *out, enum grpc_health health) {
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)health;
    return grpc_pack(&response, out);
}

/* Answers a health request. If the service is unknown, a watcher is told that, and a call of Check gets an error. */
static unsigned health_answer(const struct frontend *f, bool watched,
                              const Grpc__Health__V1__HealthCheckRequest *request, struct text *out,
                              struct sy_error *err) {
    enum grpc_health health = health_of(f, request);
    if (health == GRPC_HEALTH_UNKNOWN_SERVICE && !watched)
        return (unsigned)error_set(err, 404, "there is no such service");
    return health_put(out, health);
}

/* ---- watchers ---- */

int grpc_watch_first(const struct frontend *f, enum grpc_method method, const char *message, size_t bytes) {
    if (method != GRPC_HEALTH_WATCH)
        return method == GRPC_SCALER_WATCH ? scaler_active(f->config.advice) : 0;
    Grpc__Health__V1__HealthCheckRequest *request =
        grpc_unpack(&grpc__health__v1__health_check_request__descriptor, message, bytes, NULL);
    if (!request)
        return 0; /* the answer ends the call */
    int health = (int)health_of(f, request);
    protobuf_c_message_free_unpacked(&request->base, NULL);
    return health;
}

int grpc_watch_now(const struct frontend *f, enum grpc_method method, int told) {
    int active = scaler_active(f->config.advice);
    if (method == GRPC_HEALTH_WATCH)
        return told == GRPC_HEALTH_UNKNOWN_SERVICE ? told : (int)health_now(f);
    return method == GRPC_SCALER_WATCH && active != ADVICE_NONE ? active : told; /* a description stays as it is */
}

void grpc_watch_put(struct text *out, enum grpc_method method, int now) {
    if (method == GRPC_HEALTH_WATCH)
        health_put(out, (enum grpc_health)now);
    else
        scaler_put_active(out, now);
}

static unsigned model_ready(const struct frontend *f, const Inference__ModelReadyRequest *request, struct text *out) {
    Inference__ModelReadyResponse response = INFERENCE__MODEL_READY_RESPONSE__INIT;
    bool retry;
    int model = model_index_find(f->models, request->name, strlen(request->name), request->version,
                                 strlen(request->version), NULL);
    response.ready = model >= 0 && served_model_ready(&f->models->models[model], &retry, NULL);
    return grpc_pack(&response, out); /* false for a model that is not there: clients expect no error */
}

/* ---- descriptions ---- */

/* Requests for metadata and configuration are of one form. */
static unsigned model_described(const struct frontend *f, enum grpc_method method,
                                const Inference__ModelMetadataRequest *request, struct text *out,
                                struct sy_error *err) {
    Inference__ModelConfigResponse config = INFERENCE__MODEL_CONFIG_RESPONSE__INIT;
    bool retry, versioned = request->version[0] != '\0';
    int found = model_index_find(f->models, request->name, strlen(request->name), request->version,
                                 strlen(request->version), err);
    if (found < 0)
        return (unsigned)-found;
    const struct served_model *model = &f->models->models[found];
    struct description d;
    unsigned status = 503;
    if (!served_model_ready(model, &retry, err))
        return status;
    if (describe_begin(&d, f->models, model) < 0) {
        error_set(err, 503, "out of memory for the answer");
    } else if (method == GRPC_MODEL_METADATA) {
        status = grpc_pack(describe_model(&d, f->models, model, versioned), out);
    } else {
        config.config = (Inference__ModelConfig *)describe_config(&d, model);
        status = grpc_pack(&config, out);
    }
    describe_end(&d);
    return status;
}
_Static_assert(sizeof(Inference__ModelConfigRequest) == sizeof(Inference__ModelMetadataRequest) &&
                   offsetof(Inference__ModelConfigRequest, name) == offsetof(Inference__ModelMetadataRequest, name) &&
                   offsetof(Inference__ModelConfigRequest, version) ==
                       offsetof(Inference__ModelMetadataRequest, version),
               "requests of one form");

/* Appends a response of one model: responses one after the other are the response of all. */
static void statistics_put(void *out, const Inference__ModelStatistics *statistics) {
    Inference__ModelStatistics *one = (Inference__ModelStatistics *)statistics;
    Inference__ModelStatisticsResponse response = INFERENCE__MODEL_STATISTICS_RESPONSE__INIT;
    response.n_model_stats = 1;
    response.model_stats = &one;
    grpc_pack(&response, out);
}

static unsigned statistics(const struct frontend *f, const Inference__ModelStatisticsRequest *request, struct text *out,
                           struct sy_error *err) {
    bool all = request->name[0] == '\0', versioned = request->version[0] != '\0';
    int model = all ? 0
                    : model_index_find(f->models, request->name, strlen(request->name), request->version,
                                       strlen(request->version), err);
    if (model < 0)
        return (unsigned)-model;
    int rc = describe_statistics(f->models, all ? NULL : &f->models->models[model], versioned, &f->config.statistics,
                                 statistics_put, out);
    return rc < 0 ? (unsigned)error_set(err, 503, "out of memory for the answer") : 200;
}

/* ---- settings ---- */

static int log_settings_read_message(const Inference__LogSettingsRequest *request, struct sy_error *err) {
    struct setting settings[LOG_SETTINGS];
    if (request->n_settings > LOG_SETTINGS)
        return error_set(err, 400, "there are not so many log settings");
    for (size_t i = 0; i < request->n_settings; i++) {
        static const Inference__LogSettingsRequest__SettingValue none =
            INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__INIT;
        const Inference__LogSettingsRequest__SettingValue *value =
            request->settings[i]->value ? request->settings[i]->value : &none;
        struct setting *s = &settings[i];
        *s = (struct setting){.name = request->settings[i]->key};
        switch (value->parameter_choice_case) {
        case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM:
            s->flag = value->bool_param;
            break;
        case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM:
            s->kind = SETTING_NUMBER;
            s->number = value->uint32_param > 0 ? 1 : 0; /* every level above 0 is the same */
            break;
        case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM:
            s->kind = SETTING_TEXT;
            s->text = value->string_param;
            break;
        default:
            return error_set(err, 400, "'%.64s' has no value", s->name);
        }
    }
    return log_settings_change(settings, request->n_settings, err);
}

static unsigned log_settings(struct description *d, const Inference__LogSettingsRequest *request, struct text *out,
                             struct sy_error *err) {
    int status = log_settings_read_message(request, err);
    return status ? (unsigned)status : grpc_pack(describe_log_settings(d), out);
}

/* The trace settings of a model, or of the server if the request names none. */
static unsigned trace_settings(const struct frontend *f, struct description *d,
                               const Inference__TraceSettingRequest *request, struct text *out, struct sy_error *err) {
    struct tracing_change changes[TRACE_FIELDS];
    uint32_t model = TRACING_ALL;
    int status = 0;
    if (request->model_name[0] != '\0') {
        int found = model_index_find(f->models, request->model_name, strlen(request->model_name), "", 0, err);
        status = found < 0 ? -found : 0;
        model = (uint32_t)found;
    }
    if (status == 0 && request->n_settings > TRACE_FIELDS)
        status = error_set(err, 400, "there are not so many trace settings that can be changed");
    for (size_t i = 0; i < request->n_settings && status == 0; i++) {
        const Inference__TraceSettingRequest__SettingValue *value = request->settings[i]->value;
        changes[i] = (struct tracing_change){.name = request->settings[i]->key,
                                             .values = value ? (const char *const *)value->value : NULL,
                                             .count = value ? value->n_value : 0};
    }
    if (status == 0)
        status = tracing_change(f->config.tracing, model, changes, request->n_settings, err);
    return status ? (unsigned)status : grpc_pack(describe_trace_settings(d, f->config.tracing, model), out);
}

/* ---- shared memory ---- */

static unsigned shared_status(const struct frontend *f, struct description *d, bool local,
                              const Inference__SystemSharedMemoryStatusRequest *request, struct text *out,
                              struct sy_error *err) {
    const Inference__SystemSharedMemoryStatusResponse *response;
    int status = describe_regions(d, f->config.shared, local, request->name, &response, err);
    return status ? (unsigned)status : grpc_pack(response, out);
}

/* The answers to these two are empty messages. */
static unsigned shared_register(const struct frontend *f, bool local,
                                const Inference__SystemSharedMemoryRegisterRequest *request, struct sy_error *err) {
    int status = shared_memory_allows(f->config.shared, local, err);
    if (!status)
        status = shared_memory_register(f->config.shared, request->name, request->key, request->offset,
                                        request->byte_size, err);
    return status ? (unsigned)status : 200;
}

static unsigned shared_unregister(const struct frontend *f, bool local,
                                  const Inference__SystemSharedMemoryUnregisterRequest *request, struct sy_error *err) {
    if (!f->config.shared) /* then there are none */
        return 200;
    int status = shared_memory_allows(f->config.shared, local, err);
    if (!status)
        shared_memory_unregister(f->config.shared, request->name);
    return status ? (unsigned)status : 200;
}

/* ---- the table ---- */

static unsigned server_live(const struct frontend *f, struct text *out) {
    Inference__ServerLiveResponse live = INFERENCE__SERVER_LIVE_RESPONSE__INIT;
    live.live = !f->config.failed || !flag(f->config.failed);
    return grpc_pack(&live, out);
}

static unsigned server_is_ready(const struct frontend *f, struct text *out) {
    Inference__ServerReadyResponse ready = INFERENCE__SERVER_READY_RESPONSE__INIT;
    ready.ready = server_ready(f);
    return grpc_pack(&ready, out);
}

static unsigned described(const struct frontend *f, enum grpc_method method, struct description *d, bool local,
                          const void *request, struct text *out, struct sy_error *err) {
    switch (method) {
    case GRPC_SERVER_METADATA:
        return grpc_pack(describe_server(d, f->config.name, f->config.desk, f->config.shared), out);
    case GRPC_REPOSITORY_INDEX:
        return grpc_pack(describe_index(d, f->models, ((const Inference__RepositoryIndexRequest *)request)->ready),
                         out);
    case GRPC_SHARED_STATUS:
        return shared_status(f, d, local, request, out, err);
    case GRPC_SHARED_REGISTER:
        return shared_register(f, local, request, err);
    case GRPC_SHARED_UNREGISTER:
        return shared_unregister(f, local, request, err);
    case GRPC_LOG_SETTINGS:
        return log_settings(d, request, out, err);
    case GRPC_TRACE_SETTING:
        return trace_settings(f, d, request, out, err);
    default:
        return (unsigned)error_set(err, 501, "this method is not served");
    }
}

static unsigned answer(const struct frontend *f, enum grpc_method method, bool local, const void *request,
                       struct text *out, struct sy_error *err) {
    switch (method) {
    case GRPC_SERVER_LIVE:
        return server_live(f, out);
    case GRPC_SERVER_READY:
        return server_is_ready(f, out);
    case GRPC_MODEL_READY:
        return model_ready(f, request, out);
    case GRPC_MODEL_METADATA:
    case GRPC_MODEL_CONFIG:
        return model_described(f, method, request, out, err);
    case GRPC_MODEL_STATISTICS:
        return statistics(f, request, out, err);
    case GRPC_HEALTH_CHECK:
    case GRPC_HEALTH_WATCH:
        return health_answer(f, method == GRPC_HEALTH_WATCH, request, out, err);
    case GRPC_SCALER_ACTIVE:
    case GRPC_SCALER_WATCH:
    case GRPC_SCALER_SPEC:
    case GRPC_SCALER_WATCH_SPEC:
    case GRPC_SCALER_METRICS:
        return scaler_answer(f->config.advice, method, request, out, err);
    case GRPC_CUDA_STATUS: /* there are no regions: an empty message */
    case GRPC_CUDA_UNREGISTER:
        return 200;
    default:
        break;
    }
    struct description d;
    unsigned status = 503;
    if (describe_begin(&d, f->models, NULL) < 0)
        error_set(err, 503, "out of memory for the answer");
    else
        status = described(f, method, &d, local, request, out, err);
    describe_end(&d);
    return status;
}

unsigned grpc_service_answer(const struct frontend *f, enum grpc_method method, bool local, const char *message,
                             size_t bytes, struct text *out, struct sy_error *err) {
    if (method == GRPC_REFLECTION)
        return reflection_answer(message, bytes, out, err);
    unsigned row = 0;
    while (row < ARRAY_COUNT(methods) && methods[row].method != method)
        row++;
    const ProtobufCMessageDescriptor *form = row < ARRAY_COUNT(methods) ? methods[row].request : NULL;
    ProtobufCMessage *request = form ? grpc_unpack(form, message, bytes, err) : NULL;
    unsigned status = form && !request ? 400 : answer(f, method, local, request, out, err);
    if (request)
        protobuf_c_message_free_unpacked(request, NULL);
    return status;
}
