/* onnxruntime.c - runs models by ONNX Runtime's C API: one session a model, on the executor's thread alone.
 *
 * Inputs are wrapped in place, outputs stay in the library's arena until the last answer made of them is sent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/block_pool.h"
#include "engine/onnxruntime_session.h"

struct engine {
    const OrtApi *api;
    OrtEnv *env;
    struct engine_options options;
};

struct engine_model { /* lives until the last of its blocks is back */
    const OrtApi *api;
    OrtEnv *env; /* a reference of its own, as the session may outlive the engine */
    OrtSession *session;
    OrtRunOptions *run_options;
    OrtMemoryInfo *memory;
    const struct signature *signature;
    const char *input_names[TENSORS_MAX], *output_names[TENSORS_MAX];
    struct block_pool *pool;
};

static const char *onnxruntime_version(void) {
    return OrtGetApiBase()->GetVersionString();
}

static int onnxruntime_open(struct engine **engine, const struct engine_options *options, struct sy_error *err) {
    struct engine *e = calloc(1, sizeof(*e));
    if (!e)
        return error_set(err, -ENOMEM, "no memory for an accelerator");
    e->options = *options;
    e->api = onnxruntime_api(err);
    int rc = e->api ? onnxruntime_env(e->api, &e->env, err) : -ENOTSUP;
    if (rc)
        free(e);
    else
        *engine = e;
    return rc;
}

static void onnxruntime_close(struct engine *engine) {
    engine->api->ReleaseEnv(engine->env);
    free(engine);
}

static void values_release(struct pooled_block *pooled) {
    const OrtApi *api = onnxruntime_api(NULL);
    for (uint32_t i = 0; i < TENSORS_MAX; i++) {
        if (pooled->values[i])
            api->ReleaseValue(pooled->values[i]);
        pooled->values[i] = NULL;
    }
}

static void model_free(void *context) {
    struct engine_model *m = context;
    m->api->ReleaseMemoryInfo(m->memory); /* each of these takes NULL */
    m->api->ReleaseRunOptions(m->run_options);
    m->api->ReleaseSession(m->session);
    m->api->ReleaseEnv(m->env);
    free(m);
}

static int onnxruntime_load(struct engine *engine, const struct engine_model_source *source,
                            struct engine_model **model, struct sy_error *err) {
    const OrtApi *api = engine->api;
    struct engine_model *m = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, -ENOMEM, "model '%s': no memory", source->name);
    m->api = api;
    m->signature = source->signature;
    for (uint32_t i = 0; i < source->signature->input_count; i++)
        m->input_names[i] = source->signature->inputs[i].name;
    for (uint32_t i = 0; i < source->signature->output_count; i++)
        m->output_names[i] = source->signature->outputs[i].name;
    int rc = onnxruntime_env(api, &m->env, err);
    if (rc)
        goto err_model;
    struct session_request request = {
        .path = source->path, .provider = engine->options.provider, .device = engine->options.device, .optimise = true};
    rc = onnxruntime_session(api, m->env, &request, &m->session, err);
    if (!rc)
        rc = onnxruntime_check(api, api->CreateRunOptions(&m->run_options), err, "run options");
    if (!rc)
        rc = onnxruntime_check(api, api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &m->memory), err,
                               "memory");
    if (rc)
        goto err_model;
    m->pool = block_pool_new(values_release, model_free, m);
    if (!m->pool) {
        rc = error_set(err, -ENOMEM, "model '%s': no memory", source->name);
        goto err_model;
    }
    *model = m;
    return 0;

err_model:
    model_free(m);
    return rc;
}

static void onnxruntime_unload(struct engine_model *model) {
    block_pool_leave(model->pool);
}

/* Where an output lies and its shape. */
static int output_view(struct engine_model *model, uint32_t i, uint32_t items, OrtValue *value,
                       struct tensor_view *view, struct sy_error *err) {
    const OrtApi *api = model->api;
    const struct tensor_spec *spec = &model->signature->outputs[i];
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t rank = 0;
    OrtStatus *status = api->GetTensorMutableData(value, &view->data);
    if (!status)
        status = api->GetTensorTypeAndShape(value, &info);
    if (!status)
        status = api->GetDimensionsCount(info, &rank);
    if (!status && rank <= TENSOR_DIMS_MAX)
        status = api->GetDimensions(info, view->dims, rank);
    api->ReleaseTensorTypeAndShapeInfo(info);
    int rc = onnxruntime_check(api, status, err, spec->name);
    if (rc)
        return rc;
    if (rank > TENSOR_DIMS_MAX)
        return error_set(err, -EIO, "output '%s' has %zu dimensions; at most %d are served", spec->name, rank,
                         TENSOR_DIMS_MAX);
    if (model->signature->batched && (rank == 0 || view->dims[0] != items))
        return error_set(err, -EIO, "output '%s' has %lld rows for a batch of %u", spec->name,
                         rank ? (long long)view->dims[0] : 0, items);
    view->rank = (uint32_t)rank;
    view->bytes = (size_t)dims_product(view->dims, 0, view->rank) * datatype_bytes(spec->type);
    return 0;
}

static int onnxruntime_run(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
                           struct output_block **outputs, struct sy_error *err) {
    const OrtApi *api = model->api;
    const struct signature *signature = model->signature;
    OrtValue *values[TENSORS_MAX] = {NULL};
    struct pooled_block *pooled = block_pool_get(model->pool);
    if (!pooled)
        return error_set(err, -ENOMEM, "no memory for the outputs");
    OrtStatus *status = NULL;
    for (uint32_t i = 0; i < signature->input_count && !status; i++)
        status = api->CreateTensorWithDataAsOrtValue(model->memory, inputs[i].data, inputs[i].bytes, inputs[i].dims,
                                                     inputs[i].rank, onnxruntime_type(signature->inputs[i].type),
                                                     &values[i]);
    if (!status)
        status =
            api->Run(model->session, model->run_options, model->input_names, (const OrtValue *const *)values,
                     signature->input_count, model->output_names, signature->output_count, (OrtValue **)pooled->values);
    int rc = onnxruntime_check(api, status, err, "run");
    for (uint32_t i = 0; i < signature->input_count; i++)
        api->ReleaseValue(values[i]);
    for (uint32_t i = 0; i < signature->output_count && !rc; i++)
        rc = output_view(model, i, items, pooled->values[i], &pooled->block.outputs[i], err);
    if (rc) {
        output_block_put(&pooled->block);
        return rc;
    }
    pooled->block.output_count = signature->output_count;
    *outputs = &pooled->block;
    return 0;
}

static int onnxruntime_signature(const char *path, struct signature *signature, struct sy_error *err) {
    const OrtApi *api = onnxruntime_api(err);
    if (!api)
        return -ENOTSUP;
    OrtEnv *env = NULL;
    OrtSession *session = NULL;
    int rc = onnxruntime_env(api, &env, err);
    if (rc)
        return rc;
    struct session_request request = {.path = path, .provider = "cpu"};
    rc = onnxruntime_session(api, env, &request, &session, err);
    if (!rc)
        rc = onnxruntime_session_signature(api, session, signature, err);
    api->ReleaseSession(session);
    api->ReleaseEnv(env);
    return rc;
}

const struct engine_ops engine_onnxruntime = {
    .name = "onnxruntime",
    .version = onnxruntime_version,
    .open = onnxruntime_open,
    .close = onnxruntime_close,
    .load = onnxruntime_load,
    .unload = onnxruntime_unload,
    .run = onnxruntime_run,
    .signature = onnxruntime_signature,
};
