/* onnxruntime_transform.c - runs models that prepare inputs: one session each, for all threads. */
#include <errno.h>
#include <stdlib.h>

#include "back/engine/onnxruntime_session.h"
#include "back/engine/private_copy.h"
#include "core/util/container.h"
#include "model/engine/engine.h"

struct onnx_transform {
    struct transform transform;
    const OrtApi *api;
    OrtEnv *env;
    OrtSession *session;
    struct private_copy *copy; /* copy of the model's files that the session maps; NULL: none */
    OrtMemoryInfo *memory;
};

static void transform_close(struct transform *transform) {
    struct onnx_transform *t = container_of(transform, struct onnx_transform, transform);
    t->api->ReleaseMemoryInfo(t->memory); /* each of these takes NULL */
    t->api->ReleaseSession(t->session);
    private_copy_put(t->copy);
    onnxruntime_env_put(t->api, t->env);
    free(t);
}

static int specs_take(struct onnx_transform *t, struct sy_error *err) {
    struct signature_room *room = malloc(sizeof(*room));
    if (!room)
        return error_set(err, -ENOMEM, "no memory");
    int rc = onnxruntime_session_signature(t->api, t->session, room, err);
    const struct signature *signature = &room->signature;
    uint32_t inputs = signature->input_count - tensor_set_count(signature->inputs_optional);
    if (!rc && (inputs != 1 || signature->output_count != 1))
        rc = error_set(err, -EINVAL, "it has %u inputs and %u outputs; a model that prepares has one of each", inputs,
                       signature->output_count);
    if (!rc) {
        t->transform.input = signature->inputs[0];
        t->transform.output = signature->outputs[0];
    }
    free(room);
    return rc;
}

static int session_open(const struct session_request *request, struct transform **transform, struct sy_error *err) {
    const OrtApi *api = onnxruntime_api(err);
    if (!api)
        return -ENOTSUP;
    struct onnx_transform *t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, -ENOMEM, "no memory");
    t->api = api;
    t->transform.ops = &transform_onnxruntime;
    int rc = onnxruntime_env(api, &t->env, err);
    if (!rc)
        rc = onnxruntime_session(api, t->env, request, &t->session, err);
    if (!rc)
        rc = onnxruntime_check(api, api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &t->memory), err,
                               "memory");
    if (!rc)
        rc = specs_take(t, err);
    if (rc)
        transform_close(&t->transform);
    else
        *transform = &t->transform;
    return rc;
}

static int transform_open(const char *path, struct transform **transform, struct sy_error *err) {
    struct private_copy *copy;
    struct session_request request = {.path = private_copy_open(path, &copy), .provider = "cpu", .optimise = true};
    int rc = session_open(&request, transform, err);
    if (rc)
        private_copy_put(copy);
    else
        container_of(*transform, struct onnx_transform, transform)->copy = copy;
    return rc;
}

static int transform_open_bytes(const void *contents, size_t bytes, struct transform **transform,
                                struct sy_error *err) {
    return session_open(
        &(struct session_request){.contents = contents, .contents_bytes = bytes, .provider = "cpu", .optimise = true},
        transform, err);
}

static OrtStatus *value_make(const struct onnx_transform *t, const struct tensor_spec *spec,
                             const struct tensor_view *view, OrtValue **value) {
    return t->api->CreateTensorWithDataAsOrtValue(t->memory, view->data, view->bytes, view->dims, view->dim_count,
                                                  onnxruntime_type(spec->type), value);
}

/* The library writes into a tensor that it is given for the output, and fails if the shape is another one. */
static int transform_run(struct transform *transform, struct transform_stop *stop, const struct tensor_view *input,
                         const struct tensor_view *output, struct sy_error *err) {
    const struct onnx_transform *t = container_of(transform, struct onnx_transform, transform);
    const char *const inputs[] = {transform->input.name}, *const outputs[] = {transform->output.name};
    OrtValue *from = NULL, *to = NULL;
    OrtStatus *status = value_make(t, &transform->input, input, &from);
    if (!status)
        status = value_make(t, &transform->output, output, &to);
    if (!status)
        status = t->api->Run(t->session, (const OrtRunOptions *)stop, inputs, (const OrtValue *const *)&from, 1,
                             outputs, 1, &to);
    t->api->ReleaseValue(from);
    t->api->ReleaseValue(to);
    return onnxruntime_check(t->api, status, err, "run");
}

static struct transform_stop *stop_new(void) {
    const OrtApi *api = onnxruntime_api(NULL);
    OrtRunOptions *options = NULL;
    if (onnxruntime_check(api, api->CreateRunOptions(&options), NULL, "run options"))
        return NULL;
    return (struct transform_stop *)options;
}

static void stop_free(struct transform_stop *stop) {
    onnxruntime_api(NULL)->ReleaseRunOptions((OrtRunOptions *)stop);
}

static void stop_set(struct transform_stop *stop, bool wanted) {
    const OrtApi *api = onnxruntime_api(NULL);
    OrtRunOptions *options = (OrtRunOptions *)stop;
    OrtStatus *status = wanted ? api->RunOptionsSetTerminate(options) : api->RunOptionsUnsetTerminate(options);
    if (status)
        api->ReleaseStatus(status);
}

const struct transform_ops transform_onnxruntime = {
    .open = transform_open,
    .open_bytes = transform_open_bytes,
    .close = transform_close,
    .run = transform_run,
    .stop_new = stop_new,
    .stop_free = stop_free,
    .stop = stop_set,
};
