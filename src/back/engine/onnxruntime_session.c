/* onnxruntime_session.c - opens sessions of ONNX Runtime and reads their signatures. */
#include "back/engine/onnxruntime_session.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "back/engine/division.h"
#include "back/engine/lost_pages.h"
#include "core/system/log.h"
#include "core/util/container.h"

_Static_assert(ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 == 16, "the library's numbers of types are those of models");

ONNXTensorElementDataType onnxruntime_type(enum datatype type) {
    return (ONNXTensorElementDataType)datatype_onnx(type);
}

const OrtApi *onnxruntime_api(struct sy_error *err) {
    const OrtApiBase *base = OrtGetApiBase();
    const OrtApi *api = base->GetApi(ORT_API_VERSION);
    if (!api)
        error_set(err, -ENOTSUP, "ONNX Runtime %s is older than the 1.%d this program was built for",
                  base->GetVersionString(), ORT_API_VERSION);
    return api;
}

#define LACKS_LOCALE "Failed to construct locale with name:"

/* Says which locale an operator on text (StringNormalizer) needs that the system lacks. False: the library's sentence
 * is about something else. */
static bool locale_error(const char *sentence, int rc, struct sy_error *err, const char *what) {
    const char *name = strstr(sentence, LACKS_LOCALE);
    if (!name)
        return false;
    name += strlen(LACKS_LOCALE);
    int length = (int)strcspn(name, ":"), language = (int)strcspn(name, ".:");
    error_set(err, rc,
              "%s: an operator on text needs the locale '%.*s', which this system lacks (on Debian: apt-get install "
              "locales, then localedef -i %.*s -f UTF-8 %.*s)",
              what, length, name, language, name, length, name);
    return true;
}

int onnxruntime_check(const OrtApi *api, OrtStatus *status, struct sy_error *err, const char *what) {
    if (!status)
        return 0;
    static const int codes[] = {
        [ORT_FAIL] = -EIO,
        [ORT_INVALID_ARGUMENT] = -EINVAL,
        [ORT_NO_SUCHFILE] = -ENOENT,
        [ORT_NO_MODEL] = -EINVAL,
        [ORT_ENGINE_ERROR] = -EIO,
        [ORT_RUNTIME_EXCEPTION] = -EIO,
        [ORT_INVALID_PROTOBUF] = -EINVAL,
        [ORT_NOT_IMPLEMENTED] = -ENOTSUP,
        [ORT_INVALID_GRAPH] = -EINVAL,
    };
    OrtErrorCode code = api->GetErrorCode(status);
    int rc = (size_t)code < ARRAY_COUNT(codes) && codes[code] ? codes[code] : -EIO;
    if (!locale_error(api->GetErrorMessage(status), rc, err, what))
        error_set(err, rc, "%s: %s", what, api->GetErrorMessage(status));
    for (char *at = err ? err->text : ""; *at; at++) /* the library's sentences may span lines */
        if (*at == '\n' || *at == '\r' || *at == '\t')
            *at = ' ';
    api->ReleaseStatus(status);
    return rc;
}

static void ORT_API_CALL log_line(void *context, OrtLoggingLevel severity, const char *category, const char *id,
                                  const char *location, const char *message) {
    (void)context;
    (void)category;
    (void)id;
    enum log_level level = severity >= ORT_LOGGING_LEVEL_ERROR     ? LOG_ERROR
                           : severity == ORT_LOGGING_LEVEL_WARNING ? LOG_WARN
                                                                   : LOG_DEBUG;
    char text[512];
    snprintf(text, sizeof(text), "%s", message);
    for (char *at = text; *at; at++)
        *at = *at == '"' ? '\'' : *at == '\n' ? ' ' : *at;
    log_write(level, "onnxruntime", "at=\"%s\" text=\"%s\"", location, text);
}

/* As it is distributed (1.31), the library sends reports to its maker: the program's path, a number of the host,
 * messages of errors. It reads this variable when an environment is created. Set before main(), since later other
 * threads may read the process's variables; a value that is there already stays. */
__attribute__((constructor)) static void telemetry_off(void) {
    setenv("ORT_DISABLE_TELEMETRY", "1", 0);
}

/* References to the environment: the first registers the arena in it. Under the lock. */
static uint32_t env_references;
static pthread_mutex_t env_lock = PTHREAD_MUTEX_INITIALIZER;

/* Gives the environment the arena that sessions share. The library's default, an arena for each session, has no limit.
 */
static int arena_register(const OrtApi *api, OrtEnv *env, struct sy_error *err) {
    const char *const keys[] = {"max_mem"};
    const size_t values[] = {engine_run_memory()};
    OrtArenaCfg *arena = NULL;
    OrtMemoryInfo *memory = NULL;
    OrtStatus *status = api->CreateArenaCfgV2(keys, values, ARRAY_COUNT(keys), &arena);
    if (!status)
        status = api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory);
    if (!status)
        status = api->CreateAndRegisterAllocator(env, memory, arena);
    api->ReleaseMemoryInfo(memory); /* both take NULL */
    api->ReleaseArenaCfg(arena);
    return onnxruntime_check(api, status, err, "memory for runs");
}

int onnxruntime_env(const OrtApi *api, OrtEnv **env, struct sy_error *err) {
    pthread_mutex_lock(&env_lock);
    division_traps_mend();
    lost_pages_mend();
    /* Errors come back as statuses too, so only what is worse than an error is logged. */
    int rc =
        onnxruntime_check(api, api->CreateEnvWithCustomLogger(log_line, NULL, ORT_LOGGING_LEVEL_FATAL, "symphony", env),
                          err, "ONNX Runtime's environment");
    if (!rc && env_references == 0 && engine_run_memory() > 0 && (rc = arena_register(api, *env, err)) < 0) {
        api->ReleaseEnv(*env);
        *env = NULL;
    }
    env_references += rc == 0;
    pthread_mutex_unlock(&env_lock);
    return rc;
}

void onnxruntime_env_put(const OrtApi *api, OrtEnv *env) {
    if (!env)
        return;
    pthread_mutex_lock(&env_lock);
    api->ReleaseEnv(env);
    env_references--;
    pthread_mutex_unlock(&env_lock);
}

/* Execution providers: how each is appended to a session's options. */

static int append_cpu(const OrtApi *api, OrtSessionOptions *options, const struct session_request *request,
                      struct sy_error *err) {
    (void)api;
    (void)options;
    (void)request;
    (void)err;
    return 0; /* always there, as the last resort of every session */
}

/* By default the library tries out the algorithms of a convolution, which takes DenseNet-121 on an H100 1.7 s for each
 * shape; by heuristics it takes 0.24 s, and the runs after that are as fast. */
static int append_cuda(const OrtApi *api, OrtSessionOptions *options, const struct session_request *request,
                       struct sy_error *err) {
    OrtCUDAProviderOptionsV2 *cuda = NULL;
    int rc = onnxruntime_check(api, api->CreateCUDAProviderOptions(&cuda), err, "execution provider cuda");
    if (rc)
        return rc;
    char number[16];
    snprintf(number, sizeof(number), "%d", request->device);
    const char *const keys[] = {"device_id", "cudnn_conv_algo_search", "enable_cuda_graph"};
    const char *const values[] = {number, "HEURISTIC", request->graphs ? "1" : "0"};
    rc = onnxruntime_check(api, api->UpdateCUDAProviderOptions(cuda, keys, values, ARRAY_COUNT(keys)), err,
                           "execution provider cuda");
    if (!rc)
        rc = onnxruntime_check(api, api->SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda), err,
                               "execution provider cuda");
    api->ReleaseCUDAProviderOptions(cuda);
    return rc;
}

static const struct provider {
    const char *name;
    const char *library_name; /* as the library lists what it was built with */
    int (*append)(const OrtApi *api, OrtSessionOptions *options, const struct session_request *request,
                  struct sy_error *err);
} providers[] = {
    {"cpu", "CPUExecutionProvider", append_cpu},
    {"cuda", "CUDAExecutionProvider", append_cuda},
};

static bool provider_available(const OrtApi *api, const char *library_name) {
    char **names;
    int count = 0;
    OrtStatus *status = api->GetAvailableProviders(&names, &count);
    if (status) {
        api->ReleaseStatus(status);
        return false;
    }
    bool found = false;
    for (int i = 0; i < count; i++)
        found |= strcmp(names[i], library_name) == 0;
    status = api->ReleaseAvailableProviders(names, count);
    if (status)
        api->ReleaseStatus(status);
    return found;
}

/* The provider of this name, if this library has it; else NULL, with a sentence. */
static const struct provider *provider_find(const OrtApi *api, const char *name, struct sy_error *err) {
    for (size_t i = 0; i < ARRAY_COUNT(providers); i++) {
        if (strcmp(providers[i].name, name) != 0)
            continue;
        if (provider_available(api, providers[i].library_name))
            return &providers[i];
        error_set(err, -ENOTSUP, "this ONNX Runtime %s was built without the execution provider %s (%s)",
                  OrtGetApiBase()->GetVersionString(), name, providers[i].library_name);
        return NULL;
    }
    error_set(err, -ENOTSUP, "there is no execution provider '%s'", name);
    return NULL;
}

int onnxruntime_provider(const OrtApi *api, const char *name, struct sy_error *err) {
    return provider_find(api, name, err) ? 0 : -ENOTSUP;
}

static int options_fill(const OrtApi *api, OrtSessionOptions *options, const struct session_request *request,
                        struct sy_error *err) {
    const struct {
        const char *key, *value;
    } entries[] = {
        {"session.intra_op.allow_spinning", "0"},
        {"session.inter_op.allow_spinning", "0"},
        /* Runs use the arena of onnxruntime_env(); weights do not, as they are freed with their model. */
        {"session.use_env_allocators", engine_run_memory() > 0 ? "1" : NULL},
        {"session.use_device_allocator_for_initializers", engine_run_memory() > 0 ? "1" : NULL},
        {"session.save_external_prepacked_constant_initializers",
         request->prepacked || request->save_weights ? "1" : NULL},
        {"session.optimized_model_external_initializers_file_name", request->save_weights},
        {"session.optimized_model_external_initializers_min_size_in_bytes", request->save_weights ? "1024" : NULL},
    };
    OrtStatus *status = api->SetIntraOpNumThreads(options, 1);
    if (!status)
        status = api->SetInterOpNumThreads(options, 1);
    if (!status)
        status = api->SetSessionExecutionMode(options, ORT_SEQUENTIAL);
    if (!status)
        status = api->SetSessionGraphOptimizationLevel(options, request->optimise ? ORT_ENABLE_ALL : ORT_DISABLE_ALL);
    if (!status && request->save_path)
        status = api->SetOptimizedModelFilePath(options, request->save_path);
    for (size_t i = 0; i < ARRAY_COUNT(entries) && !status; i++)
        if (entries[i].value)
            status = api->AddSessionConfigEntry(options, entries[i].key, entries[i].value);
    int rc = onnxruntime_check(api, status, err, "session options");
    for (size_t i = 0; !rc && request->libraries && i < OP_LIBRARIES_MAX && request->libraries->paths[i][0]; i++)
        rc = onnxruntime_check(api, api->RegisterCustomOpsLibrary_V2(options, request->libraries->paths[i]), err,
                               "op_library_filename");
    if (rc)
        return rc;
    const struct provider *provider = provider_find(api, request->provider, err);
    return provider ? provider->append(api, options, request, err) : -ENOTSUP;
}

int onnxruntime_session(const OrtApi *api, OrtEnv *env, const struct session_request *request, OrtSession **session,
                        struct sy_error *err) {
    OrtSessionOptions *options = NULL;
    int rc = onnxruntime_check(api, api->CreateSessionOptions(&options), err, "session options");
    if (rc)
        return rc;
    rc = options_fill(api, options, request, err);
    if (!rc) {
        lost_pages_begin();
        OrtStatus *status = request->contents ? api->CreateSessionFromArray(env, request->contents,
                                                                            request->contents_bytes, options, session)
                                              : api->CreateSession(env, request->path, options, session);
        bool lost = lost_pages_end();
        rc = onnxruntime_check(api, status, err, "ONNX Runtime");
        if (!rc && lost) {
            api->ReleaseSession(*session);
            *session = NULL;
            rc = error_set(err, -EIO, "a file of weights was cut short, or cannot be read");
        }
    }
    api->ReleaseSessionOptions(options);
    return rc;
}

/* Signatures. */

/* Reads the type and the shape of an input or output, and copies its name. */
static int spec_read(const OrtApi *api, const OrtTypeInfo *type, const char *name, const char *what,
                     struct tensor_spec *spec, struct sy_error *err) {
    const OrtTensorTypeAndShapeInfo *tensor = NULL;
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    size_t dim_count = 0;
    if (strlen(name) >= sizeof(spec->name))
        return error_set(err, -ENOTSUP, "the name of %s '%.40s...' is longer than %zu bytes", what, name,
                         sizeof(spec->name) - 1);
    strcpy(spec->name, name);
    int rc = onnxruntime_check(api, api->CastTypeInfoToTensorInfo(type, &tensor), err, name);
    if (rc)
        return rc;
    if (!tensor)
        return error_set(
            err, -ENOTSUP, "%s '%s' is not a tensor but a sequence, map or optional, which is not served%s", what, name,
            strcmp(what, "output") == 0 ? "; skl2onnx writes a tensor with options={'zipmap': False}" : "");
    rc = onnxruntime_check(api, api->GetTensorElementType(tensor, &element), err, name);
    if (!rc)
        rc = onnxruntime_check(api, api->GetDimensionsCount(tensor, &dim_count), err, name);
    if (rc)
        return rc;
    spec->type = DATATYPE_INVALID;
    for (int t = DATATYPE_INVALID + 1; t < DATATYPE_COUNT && element != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED; t++)
        if (onnxruntime_type(t) == element)
            spec->type = t;
    if (spec->type == DATATYPE_INVALID)
        return error_set(err, -ENOTSUP, "%s '%s' holds elements of a type that is not served", what, name);
    if (dim_count > TENSOR_DIMS_MAX)
        return error_set(err, -ENOTSUP, "%s '%s' has %zu dimensions; at most %d are served", what, name, dim_count,
                         TENSOR_DIMS_MAX);
    spec->dim_count = (uint32_t)dim_count;
    rc = onnxruntime_check(api, api->GetDimensions(tensor, spec->dims, dim_count), err, name);
    for (size_t i = 0; i < dim_count; i++)
        spec->dims[i] = spec->dims[i] < 0 ? -1 : spec->dims[i];
    return rc;
}

enum specs_of { SPECS_INPUTS, SPECS_OUTPUTS, SPECS_INITIALIZERS };

/* Adds all of a kind. Initialisers that a run may replace become optional inputs, if there is room for all of them:
 * older exporters list every weight. Those of a type or shape that is not served stay as they are in the model. */
static int specs_read(const OrtApi *api, const OrtSession *session, enum specs_of of, struct tensor_spec *specs,
                      uint32_t *count, struct sy_error *err) {
    const struct {
        const char *what;
        __typeof__(api->SessionGetInputCount) count;
        __typeof__(api->SessionGetInputName) name;
        __typeof__(api->SessionGetInputTypeInfo) type;
    } calls[] =
        {
            {"input", api->SessionGetInputCount, api->SessionGetInputName, api->SessionGetInputTypeInfo},
            {"output", api->SessionGetOutputCount, api->SessionGetOutputName, api->SessionGetOutputTypeInfo},
            {"initializer", api->SessionGetOverridableInitializerCount, api->SessionGetOverridableInitializerName,
             api->SessionGetOverridableInitializerTypeInfo},
        },
      *call = &calls[of];
    bool optional = of == SPECS_INITIALIZERS;
    size_t n = 0;
    OrtAllocator *allocator = NULL;
    int rc = onnxruntime_check(api, api->GetAllocatorWithDefaultOptions(&allocator), err, "allocator");
    if (!rc)
        rc = onnxruntime_check(api, call->count(session, &n), err, call->what);
    if (rc || (optional && n + *count > TENSORS_MAX))
        return rc;
    if (n > TENSORS_MAX || (n == 0 && of == SPECS_OUTPUTS))
        return error_set(err, -ENOTSUP, "the model has %zu %ss; %d to %d are served", n, call->what,
                         of == SPECS_OUTPUTS, TENSORS_MAX);
    for (size_t i = 0; i < n && !rc; i++) {
        char *name = NULL;
        OrtTypeInfo *type = NULL;
        rc = onnxruntime_check(api, call->name(session, i, allocator, &name), err, call->what);
        if (rc)
            break;
        rc = onnxruntime_check(api, call->type(session, i, &type), err, name);
        if (!rc) {
            rc = spec_read(api, type, name, call->what, &specs[*count], optional ? NULL : err);
            *count += rc == 0;
            rc = optional ? 0 : rc;
        }
        api->ReleaseTypeInfo(type);
        allocator->Free(allocator, name);
    }
    return rc;
}

static bool specs_batched(const struct tensor_spec *specs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (specs[i].dim_count == 0 || specs[i].dims[0] >= 0)
            return false;
    return true;
}

int onnxruntime_session_signature(const OrtApi *api, const OrtSession *session, struct signature_room *room,
                                  struct sy_error *err) {
    memset(room, 0, sizeof(*room));
    struct signature *signature = signature_room_open(room);
    int rc = specs_read(api, session, SPECS_INPUTS, signature->inputs, &signature->input_count, err);
    if (!rc)
        rc = specs_read(api, session, SPECS_OUTPUTS, signature->outputs, &signature->output_count, err);
    if (rc)
        return rc;
    /* Exporters name the batch dimension of inputs and outputs differently, or not at all, so names decide nothing;
     * profiling runs two items and looks. */
    signature->batched = signature->input_count > 0 && specs_batched(signature->inputs, signature->input_count) &&
                         specs_batched(signature->outputs, signature->output_count);
    for (uint32_t i = 0; i < signature->input_count; i++)
        for (uint32_t d = signature->batched; d < signature->inputs[i].dim_count; d++)
            signature->variable_shapes |= signature->inputs[i].dims[d] < 0;
    uint32_t needed = signature->input_count;
    rc = specs_read(api, session, SPECS_INITIALIZERS, signature->inputs, &signature->input_count, err);
    for (uint32_t i = needed; i < signature->input_count; i++)
        signature->inputs_optional |= tensor_bit(i);
    return rc;
}
