/* engine_backend.c - a backend for Triton's core that calls ONNX Runtime in Triton's own process, as its ONNX Runtime
 * backend does: gathers a batch's inputs, runs, and copies the outputs into the answers. For models of one input and
 * one output with a batch dimension, of fixed sizes behind it.
 *
 * The declarations are those of Triton's backend interface, version 1, that are used here. */
#include <onnxruntime_c_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct TRITONSERVER_Error TRITONSERVER_Error;
typedef struct TRITONBACKEND_Model TRITONBACKEND_Model;
typedef struct TRITONBACKEND_ModelInstance TRITONBACKEND_ModelInstance;
typedef struct TRITONBACKEND_Request TRITONBACKEND_Request;
typedef struct TRITONBACKEND_Response TRITONBACKEND_Response;
typedef struct TRITONBACKEND_Input TRITONBACKEND_Input;
typedef struct TRITONBACKEND_Output TRITONBACKEND_Output;

enum { ERROR_INTERNAL = 1, MEMORY_CPU = 0, TYPE_INT32 = 8, TYPE_FP32 = 11, RESPONSE_FINAL = 1, RELEASE_ALL = 1 };

TRITONSERVER_Error *TRITONSERVER_ErrorNew(int code, const char *message);
TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *, int *kind, const char **location);
TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *, uint64_t *);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *, TRITONBACKEND_Model **);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance *, void **);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance *, void *);
TRITONSERVER_Error *TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *, uint32_t index, TRITONBACKEND_Input **);
TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *, uint32_t flags);
TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *, const char **name, int *type,
                                                  const int64_t **shape, uint32_t *dims, uint64_t *bytes,
                                                  uint32_t *buffers);
TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *, uint32_t index, const void **, uint64_t *bytes,
                                              int *memory, int64_t *memory_id);
TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **, TRITONBACKEND_Request *);
TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *, TRITONBACKEND_Output **, const char *name,
                                                 int type, const int64_t *shape, uint32_t dims);
TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *, void **, uint64_t bytes, int *memory,
                                               int64_t *memory_id);
TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *, uint32_t flags, TRITONSERVER_Error *);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *, TRITONBACKEND_Request **,
                                                       uint32_t);

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        TRITONSERVER_Error *e_ = call;                                                                                 \
        if (e_)                                                                                                        \
            return e_;                                                                                                 \
    } while (0)

/* Nothing that ONNX Runtime refuses here is expected: the comparison ends. */
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        OrtStatus *s_ = call;                                                                                          \
        if (s_) {                                                                                                      \
            fprintf(stderr, "engine_backend: %s\n", ort->GetErrorMessage(s_));                                         \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static const OrtApi *ort;

/* Of one instance; used by its thread alone. */
struct engine {
    OrtEnv *env;
    OrtSession *session;
    OrtMemoryInfo *memory;
    char *input, *output;
    char *gathered;
    size_t gathered_max;
};

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance) {
    TRITONBACKEND_Model *model;
    const char *folder;
    uint64_t version;
    int kind;
    char path[4096];
    struct engine *e = calloc(1, sizeof(*e));
    OrtSessionOptions *options;
    OrtAllocator *allocator;
    TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
    TRY(TRITONBACKEND_ModelRepository(model, &kind, &folder));
    TRY(TRITONBACKEND_ModelVersion(model, &version));
    snprintf(path, sizeof(path), "%s/%llu/model.onnx", folder, (unsigned long long)version);
    ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
    MUST(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "engine", &e->env));
    MUST(ort->CreateSessionOptions(&options));
    MUST(ort->SetIntraOpNumThreads(options, 1));
    MUST(ort->SetInterOpNumThreads(options, 1));
    MUST(ort->CreateSession(e->env, path, options, &e->session));
    ort->ReleaseSessionOptions(options);
    MUST(ort->GetAllocatorWithDefaultOptions(&allocator));
    MUST(ort->SessionGetInputName(e->session, 0, allocator, &e->input));
    MUST(ort->SessionGetOutputName(e->session, 0, allocator, &e->output));
    MUST(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &e->memory));
    return TRITONBACKEND_ModelInstanceSetState(instance, e);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance) {
    void *state;
    TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
    struct engine *e = state;
    ort->ReleaseMemoryInfo(e->memory);
    ort->ReleaseSession(e->session);
    ort->ReleaseEnv(e->env);
    free(e->gathered);
    free(e); /* the names are the allocator's */
    return NULL;
}

/* Appends a request's input at *used; its items, type and sizes are the input's. */
static TRITONSERVER_Error *input_take(struct engine *e, TRITONBACKEND_Request *request, size_t *used, int *type,
                                      const int64_t **shape, uint32_t *dims) {
    TRITONBACKEND_Input *input;
    uint64_t bytes;
    uint32_t buffers;
    const char *name;
    TRY(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
    TRY(TRITONBACKEND_InputProperties(input, &name, type, shape, dims, &bytes, &buffers));
    if (*used + bytes > e->gathered_max) {
        e->gathered_max = 2 * (*used + bytes);
        e->gathered = realloc(e->gathered, e->gathered_max);
    }
    for (uint32_t i = 0; i < buffers; i++) {
        const void *from;
        uint64_t length;
        int memory = MEMORY_CPU;
        int64_t memory_id = 0;
        TRY(TRITONBACKEND_InputBuffer(input, i, &from, &length, &memory, &memory_id));
        memcpy(e->gathered + *used, from, length);
        *used += length;
    }
    return NULL;
}

/* Answers one request with its rows of the batch's output, and gives it back. */
static TRITONSERVER_Error *request_answer(const struct engine *e, TRITONBACKEND_Request *request, const char *rows,
                                          int64_t items, int64_t width) {
    TRITONBACKEND_Response *response;
    TRITONBACKEND_Output *output;
    void *to;
    int memory = MEMORY_CPU;
    int64_t memory_id = 0, shape[2] = {items, width};
    uint64_t bytes = (uint64_t)(items * width) * sizeof(float);
    TRY(TRITONBACKEND_ResponseNew(&response, request));
    TRY(TRITONBACKEND_ResponseOutput(response, &output, e->output, TYPE_FP32, shape, 2));
    TRY(TRITONBACKEND_OutputBuffer(output, &to, bytes, &memory, &memory_id));
    memcpy(to, rows, bytes);
    TRY(TRITONBACKEND_ResponseSend(response, RESPONSE_FINAL, NULL));
    return TRITONBACKEND_RequestRelease(request, RELEASE_ALL);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests, uint32_t count) {
    void *state;
    size_t used = 0;
    int64_t items[1024], batch[2] = {0, 0}, made[2];
    TRY(TRITONBACKEND_ModelInstanceState(instance, &state));
    struct engine *e = state;
    if (count > sizeof(items) / sizeof(items[0]))
        return TRITONSERVER_ErrorNew(ERROR_INTERNAL, "more requests than engine_backend.c takes");
    int type = TYPE_FP32;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t *shape;
        uint32_t dims;
        TRY(input_take(e, requests[i], &used, &type, &shape, &dims));
        if (dims != 2)
            return TRITONSERVER_ErrorNew(ERROR_INTERNAL, "engine_backend.c takes inputs of two dimensions");
        items[i] = shape[0];
        batch[0] += shape[0];
        batch[1] = shape[1];
    }
    OrtValue *in, *out = NULL;
    OrtTensorTypeAndShapeInfo *info;
    void *rows;
    MUST(ort->CreateTensorWithDataAsOrtValue(
        e->memory, e->gathered, used, batch, 2,
        type == TYPE_INT32 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &in));
    MUST(ort->Run(e->session, NULL, (const char *const *)&e->input, (const OrtValue *const *)&in, 1,
                  (const char *const *)&e->output, 1, &out));
    MUST(ort->GetTensorMutableData(out, &rows));
    MUST(ort->GetTensorTypeAndShape(out, &info));
    MUST(ort->GetDimensions(info, made, 2));
    ort->ReleaseTensorTypeAndShapeInfo(info);
    const char *row = rows;
    for (uint32_t i = 0; i < count; i++) {
        TRY(request_answer(e, requests[i], row, items[i], made[1]));
        row += (size_t)(items[i] * made[1]) * sizeof(float);
    }
    ort->ReleaseValue(in);
    ort->ReleaseValue(out);
    return NULL;
}
