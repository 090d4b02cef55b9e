/* grpc_services.c - the answers of every method but inference: reads a message, and writes its answer. */
#include "front/grpc/grpc_services.h"

#include <string.h>

#include "core/util/container.h"
#include "front/grpc/external_scaler.h"
#include "front/grpc/grpc_pack.h"
#include "front/grpc/reflection.h"
#include "front/v2/describe.h"
#include "front/v2/settings.h"
#include "health.pb-c.h"

#define SERVICE "/inference.GRPCInferenceService/"
#define SCALER  "/externalscaler.ExternalScaler/"

enum grpc_method grpc_method_find(const char *path, size_t length) {
    static const struct {
        const char *path;
        enum grpc_method method;
    } rows[] = {
        {SERVICE "ModelInfer", GRPC_MODEL_INFER},
        {SERVICE "ModelStreamInfer", GRPC_MODEL_STREAM_INFER},
        {SERVICE "ServerLive", GRPC_SERVER_LIVE},
        {SERVICE "ServerReady", GRPC_SERVER_READY},
        {SERVICE "ModelReady", GRPC_MODEL_READY},
        {SERVICE "ServerMetadata", GRPC_SERVER_METADATA},
        {SERVICE "ModelMetadata", GRPC_MODEL_METADATA},
        {SERVICE "ModelConfig", GRPC_MODEL_CONFIG},
        {SERVICE "RepositoryIndex", GRPC_REPOSITORY_INDEX},
        {"/grpc.health.v1.Health/Check", GRPC_HEALTH_CHECK},
        {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", GRPC_REFLECTION},
        {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", GRPC_REFLECTION},
        {"/grpc.health.v1.Health/Watch", GRPC_HEALTH_WATCH},
        {SERVICE "ModelStatistics", GRPC_MODEL_STATISTICS},
        {SERVICE "RepositoryModelLoad", GRPC_LOAD},
        {SERVICE "RepositoryModelUnload", GRPC_UNLOAD},
        {SERVICE "SystemSharedMemoryStatus", GRPC_SHARED_STATUS},
        {SERVICE "SystemSharedMemoryRegister", GRPC_SHARED_REGISTER},
        {SERVICE "SystemSharedMemoryUnregister", GRPC_SHARED_UNREGISTER},
        {SERVICE "CudaSharedMemoryStatus", GRPC_CUDA_STATUS},
        {SERVICE "CudaSharedMemoryRegister", GRPC_NOT_SERVED},
        {SERVICE "CudaSharedMemoryUnregister", GRPC_CUDA_UNREGISTER},
        {SERVICE "TraceSetting", GRPC_TRACE_SETTING},
        {SERVICE "LogSettings", GRPC_LOG_SETTINGS},
        {SCALER "IsActive", GRPC_SCALER_ACTIVE},
        {SCALER "StreamIsActive", GRPC_SCALER_WATCH},
        {SCALER "GetMetricSpec", GRPC_SCALER_SPEC},
        {SCALER "StreamMetricSpec", GRPC_SCALER_WATCH_SPEC},
        {SCALER "GetMetrics", GRPC_SCALER_METRICS},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++)
        if (strlen(rows[i].path) == length && memcmp(rows[i].path, path, length) == 0)
            return rows[i].method;
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
enum grpc_health { GRPC_HEALTH_NONE, GRPC_HEALTH_SERVING, GRPC_HEALTH_NOT_SERVING, GRPC_HEALTH_UNKNOWN_SERVICE };

/* The health of a service that is known. */
static enum grpc_health health_now(const struct frontend *f) {
    return server_ready(f) ? GRPC_HEALTH_SERVING : GRPC_HEALTH_NOT_SERVING;
}

/* The health of a HealthCheckRequest's service; GRPC_HEALTH_NONE: the message is no protobuf. */
static enum grpc_health health_of(const struct frontend *f, const char *message, size_t bytes) {
    Grpc__Health__V1__HealthCheckRequest *request =
        grpc_unpack(&grpc__health__v1__health_check_request__descriptor, message, bytes, NULL);
    if (!request)
        return GRPC_HEALTH_NONE;
    bool known = request->service[0] == '\0' || strcmp(request->service, "inference.GRPCInferenceService") == 0;
    protobuf_c_message_free_unpacked(&request->base, NULL);
    return known ? health_now(f) : GRPC_HEALTH_UNKNOWN_SERVICE;
}

/* Appends a HealthCheckResponse. */
static void health_put(struct text *out, enum grpc_health health) {
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)health;
    grpc_pack(&response, out);
}

/* Answers a health request. If the service is unknown, a watcher is told that, and a call of Check gets an error. */
static unsigned health_answer(const struct frontend *f, bool watched, const char *message, size_t bytes,
                              struct text *out, struct sy_error *err) {
    enum grpc_health health = health_of(f, message, bytes);
    if (health == GRPC_HEALTH_NONE)
        return (unsigned)protobuf_malformed(err);
    if (health == GRPC_HEALTH_UNKNOWN_SERVICE && !watched)
        return (unsigned)error_set(err, 404, "there is no such service");
    health_put(out, health);
    return 200;
}

/* ---- watchers ---- */

int grpc_watch_first(const struct frontend *f, enum grpc_method method, const char *message, size_t bytes) {
    return method == GRPC_HEALTH_WATCH   ? (int)health_of(f, message, bytes)
           : method == GRPC_SCALER_WATCH ? scaler_active(f->config.advice)
                                         : 0;
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

static unsigned model_ready(const struct frontend *f, const char *message, size_t bytes, struct text *out,
                            struct sy_error *err) {
    Inference__ModelReadyRequest *request =
        grpc_unpack(&inference__model_ready_request__descriptor, message, bytes, err);
    Inference__ModelReadyResponse response = INFERENCE__MODEL_READY_RESPONSE__INIT;
    bool retry;
    if (!request)
        return 400;
    int model = model_index_find(f->models, request->name, strlen(request->name), request->version,
                                 strlen(request->version), err);
    protobuf_c_message_free_unpacked(&request->base, NULL);
    response.ready = model >= 0 && served_model_ready(&f->models->models[model], &retry, NULL);
    return grpc_pack(&response, out); /* false for a model that is not there: clients expect no error */
}

/* ---- descriptions ---- */

/* The model that a request names. Requests for metadata, configuration and statistics are of one form. 200, or a status
 * with a sentence. */
static unsigned named_model(const struct frontend *f, const ProtobufCMessageDescriptor *descriptor, const char *message,
                            size_t bytes, const struct served_model **model, bool *versioned, struct sy_error *err) {
    Inference__ModelMetadataRequest *request = grpc_unpack(descriptor, message, bytes, err);
    bool retry;
    if (!request)
        return 400;
    int found = model_index_find(f->models, request->name, strlen(request->name), request->version,
                                 strlen(request->version), err);
    *versioned = request->version[0] != '\0';
    protobuf_c_message_free_unpacked(&request->base, NULL);
    if (found < 0)
        return (unsigned)-found;
    *model = &f->models->models[found];
    return served_model_ready(*model, &retry, err) ? 200 : 503;
}
_Static_assert(sizeof(Inference__ModelConfigRequest) == sizeof(Inference__ModelMetadataRequest) &&
                   offsetof(Inference__ModelConfigRequest, name) == offsetof(Inference__ModelMetadataRequest, name) &&
                   offsetof(Inference__ModelConfigRequest, version) ==
                       offsetof(Inference__ModelMetadataRequest, version),
               "requests of one form");

static unsigned model_metadata(const struct frontend *f, struct description *d, const char *message, size_t bytes,
                               struct text *out, struct sy_error *err) {
    const struct served_model *model;
    bool versioned;
    unsigned status =
        named_model(f, &inference__model_metadata_request__descriptor, message, bytes, &model, &versioned, err);
    return status == 200 ? grpc_pack(describe_model(d, f->models, model, versioned), out) : status;
}

static unsigned model_config(const struct frontend *f, struct description *d, const char *message, size_t bytes,
                             struct text *out, struct sy_error *err) {
    const struct served_model *model;
    bool versioned;
    unsigned status =
        named_model(f, &inference__model_config_request__descriptor, message, bytes, &model, &versioned, err);
    if (status != 200)
        return status;
    Inference__ModelConfigResponse response = INFERENCE__MODEL_CONFIG_RESPONSE__INIT;
    response.config = (Inference__ModelConfig *)describe_config(d, model);
    return grpc_pack(&response, out);
}

static unsigned repository_index(const struct frontend *f, struct description *d, const char *message, size_t bytes,
                                 struct text *out, struct sy_error *err) {
    Inference__RepositoryIndexRequest *request =
        grpc_unpack(&inference__repository_index_request__descriptor, message, bytes, err);
    if (!request)
        return 400;
    bool ready_only = request->ready;
    protobuf_c_message_free_unpacked(&request->base, NULL);
    return grpc_pack(describe_index(d, f->models, ready_only), out);
}

static unsigned statistics(const struct frontend *f, struct description *d, const char *message, size_t bytes,
                           struct text *out, struct sy_error *err) {
    Inference__ModelStatisticsRequest *request =
        grpc_unpack(&inference__model_statistics_request__descriptor, message, bytes, err);
    if (!request)
        return 400;
    bool all = request->name[0] == '\0', versioned = request->version[0] != '\0';
    int model = all ? 0
                    : model_index_find(f->models, request->name, strlen(request->name), request->version,
                                       strlen(request->version), err);
    protobuf_c_message_free_unpacked(&request->base, NULL);
    if (model < 0)
        return (unsigned)-model;
    return grpc_pack(
        describe_statistics(d, f->models, all ? NULL : &f->models->models[model], versioned, &f->config.statistics),
        out);
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

static unsigned log_settings(struct description *d, const char *message, size_t bytes, struct text *out,
                             struct sy_error *err) {
    Inference__LogSettingsRequest *request =
        grpc_unpack(&inference__log_settings_request__descriptor, message, bytes, err);
    if (!request)
        return 400;
    int status = log_settings_read_message(request, err);
    protobuf_c_message_free_unpacked(&request->base, NULL);
    return status ? (unsigned)status : grpc_pack(describe_log_settings(d), out);
}

/* The trace settings of a model, or of the server if the request names none. */
static unsigned trace_settings(const struct frontend *f, struct description *d, const char *message, size_t bytes,
                               struct text *out, struct sy_error *err) {
    Inference__TraceSettingRequest *request =
        grpc_unpack(&inference__trace_setting_request__descriptor, message, bytes, err);
    struct tracing_change changes[TRACE_FIELDS];
    uint32_t model = TRACING_ALL;
    int status = 0;
    if (!request)
        return 400;
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
    protobuf_c_message_free_unpacked(&request->base, NULL);
    return status ? (unsigned)status : grpc_pack(describe_trace_settings(d, f->config.tracing, model), out);
}

/* ---- shared memory ---- */

static unsigned shared_status(const struct frontend *f, struct description *d, bool local, const char *message,
                              size_t bytes, struct text *out, struct sy_error *err) {
    const Inference__SystemSharedMemoryStatusResponse *response;
    Inference__SystemSharedMemoryStatusRequest *request =
        grpc_unpack(&inference__system_shared_memory_status_request__descriptor, message, bytes, err);
    if (!request)
        return 400;
    int status = describe_regions(d, f->config.shared, local, request->name, &response, err);
    protobuf_c_message_free_unpacked(&request->base, NULL);
    return status ? (unsigned)status : grpc_pack(response, out);
}

static unsigned shared_register(const struct frontend *f, bool local, const char *message, size_t bytes,
                                struct sy_error *err) {
    Inference__SystemSharedMemoryRegisterRequest *request =
        grpc_unpack(&inference__system_shared_memory_register_request__descriptor, message, bytes, err);
    if (!request)
        return 400;
    int status = shared_memory_allows(f->config.shared, local, err);
    if (!status)
        status = shared_memory_register(f->config.shared, request->name, request->key, request->offset,
                                        request->byte_size, err);
    protobuf_c_message_free_unpacked(&request->base, NULL);
    return status ? (unsigned)status : 200; /* an empty message */
}

static unsigned shared_unregister(const struct frontend *f, bool local, const char *message, size_t bytes,
                                  struct sy_error *err) {
    Inference__SystemSharedMemoryUnregisterRequest *request =
        grpc_unpack(&inference__system_shared_memory_unregister_request__descriptor, message, bytes, err);
    if (!request)
        return 400;
    int status = f->config.shared ? shared_memory_allows(f->config.shared, local, err) : 0; /* else there are none */
    if (f->config.shared && !status)
        shared_memory_unregister(f->config.shared, request->name);
    protobuf_c_message_free_unpacked(&request->base, NULL);
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
                          const char *message, size_t bytes, struct text *out, struct sy_error *err) {
    switch (method) {
    case GRPC_SERVER_METADATA:
        return grpc_pack(describe_server(d, f->config.name, f->config.desk, f->config.shared), out);
    case GRPC_MODEL_METADATA:
        return model_metadata(f, d, message, bytes, out, err);
    case GRPC_MODEL_CONFIG:
        return model_config(f, d, message, bytes, out, err);
    case GRPC_REPOSITORY_INDEX:
        return repository_index(f, d, message, bytes, out, err);
    case GRPC_SHARED_STATUS:
        return shared_status(f, d, local, message, bytes, out, err);
    case GRPC_SHARED_REGISTER:
        return shared_register(f, local, message, bytes, err);
    case GRPC_SHARED_UNREGISTER:
        return shared_unregister(f, local, message, bytes, err);
    case GRPC_MODEL_STATISTICS:
        return statistics(f, d, message, bytes, out, err);
    case GRPC_LOG_SETTINGS:
        return log_settings(d, message, bytes, out, err);
    case GRPC_TRACE_SETTING:
        return trace_settings(f, d, message, bytes, out, err);
    default:
        return (unsigned)error_set(err, 501, "this method is not served");
    }
}

unsigned grpc_service_answer(const struct frontend *f, enum grpc_method method, bool local, const char *message,
                             size_t bytes, struct text *out, struct sy_error *err) {
    switch (method) {
    case GRPC_SERVER_LIVE:
        return server_live(f, out);
    case GRPC_SERVER_READY:
        return server_is_ready(f, out);
    case GRPC_MODEL_READY:
        return model_ready(f, message, bytes, out, err);
    case GRPC_HEALTH_CHECK:
    case GRPC_HEALTH_WATCH:
        return health_answer(f, method == GRPC_HEALTH_WATCH, message, bytes, out, err);
    case GRPC_REFLECTION:
        return reflection_answer(message, bytes, out, err);
    case GRPC_SCALER_ACTIVE:
    case GRPC_SCALER_WATCH:
    case GRPC_SCALER_SPEC:
    case GRPC_SCALER_WATCH_SPEC:
    case GRPC_SCALER_METRICS:
        return scaler_answer(f->config.advice, method, message, bytes, out, err);
    case GRPC_CUDA_STATUS: /* there are no regions: an empty message */
    case GRPC_CUDA_UNREGISTER:
        return 200;
    default:
        break;
    }
    struct description d;
    unsigned status = 503;
    if (describe_begin(&d, f->models) < 0)
        error_set(err, 503, "out of memory for the answer");
    else
        status = described(f, method, &d, local, message, bytes, out, err);
    describe_end(&d);
    return status;
}
