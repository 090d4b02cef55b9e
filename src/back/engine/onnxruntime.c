/* onnxruntime.c - runs models by ONNX Runtime's C API: one session a model, on the executor's thread alone. On GPUs a
 * model runs on its own thread, and may have several sessions (cuda.h, onnxruntime_cuda.h).
 *
 * Inputs are wrapped in place, outputs stay in the library's arena until the last answer made of them is sent; strings
 * are copied in both directions. A run costs about 2 us besides the model's kernels.
 *
 * The arena keeps the memory that the largest runs needed. Giving memory back after every run costs up to a third of
 * the run (the pages fault in again: 8 images of text detection 183 ms against 133). So it is given back once a model's
 * runs have been much smaller than its largest for a while. All models share one arena if it is limited; else each
 * model has its own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "back/engine/block_pool.h"
#include "back/engine/lost_pages.h"
#include "back/engine/mapped_weights.h"
#include "back/engine/onnxruntime_cache.h"
#include "back/engine/onnxruntime_cuda.h"
#include "back/engine/onnxruntime_session.h"
#include "back/engine/onnxruntime_strings.h"
#include "back/engine/private_copy.h"
#include "core/system/clock.h"
#include "core/system/log.h"
#include "core/util/container.h"

/* How long a model's runs must have been under half of its largest one before its arena shrinks; also the least time
 * between two shrinkings of a shared arena. */
#define ARENA_KEEP_NS (10 * NS_PER_S)
/* Bytes that a failed run counts as: how much memory it took before it failed is not known. */
#define RUN_BYTES_UNKNOWN (SIZE_MAX / 2)

/* Time after which a file that could not be opened in place of lost weights is tried again. */
#define REPLACE_APART_NS (10 * NS_PER_S)

/* Part of the library's sentence when the arena is at its limit. */
#define LACKS_MEMORY "is smaller than requested bytes"

static _Atomic int64_t arena_shrunk_ns; /* time at which the shared arena last shrank */
static _Atomic bool arena_left;         /* a model has gone since then, and memory of its runs may still be there */

struct engine {
    const OrtApi *api;
    OrtEnv *env;
    struct engine_options options;
    struct cuda_device *gpu;     /* device of provider "cuda"; NULL: another provider */
    struct cuda_thread *starter; /* thread that starts the models' threads, so that these have the executor's cores and
                                  * nice value, whatever thread loads a model */
};

struct engine_model { /* lives until the last of its blocks is back */
    const OrtApi *api;
    OrtEnv *env; /* reference of the model's own, as the session may outlive the engine */
    OrtSession *session;
    OrtRunOptions *run_options, *run_options_shrink;
    size_t large_bytes;         /* bytes of inputs and outputs of the largest run since the model shrank the arena */
    int64_t large_at_ns;        /* time at which a run last had at least half of large_bytes */
    bool small;                 /* the last run had less than half of large_bytes */
    bool shared;                /* the arena is that of all models */
    struct cuda_thread *thread; /* thread that runs the model; NULL: the caller */
    struct cuda_graphs *graphs; /* recorded runs, instead of the session; NULL: runs are not recorded */
    OrtMemoryInfo *memory;
    struct private_copy *copy;      /* copy of the model's files that the session maps; NULL: none */
    struct mapped_weights *weights; /* weights that may leave memory; NULL: they stay */
    const struct signature *signature;
    const char *output_names[TENSORS_MAX];
    struct block_pool *pool;
    struct engine *engine;             /* engine and source of load(), until unload() */
    struct engine_model_source source; /* without a profile */
    bool weights_lost;                 /* the session maps weights that can no longer be read: it must not run */
    int64_t replace_next_ns;           /* time from which on another session may be opened in place of that one */
    struct engine_model *replaced;     /* has the session that was replaced, and may own outputs; NULL: none */
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
    if (!rc && strcmp(options->provider, "cuda") == 0) {
        rc = onnxruntime_provider(e->api, "cuda", err);
        if (!rc)
            rc = cuda_device_open(&e->gpu, options->device, err);
        if (!rc)
            rc = cuda_thread_start(&e->starter, e->gpu, err);
        if (rc) {
            cuda_device_close(e->gpu);
            onnxruntime_env_put(e->api, e->env);
        }
    }
    if (rc)
        free(e);
    else
        *engine = e;
    return rc;
}

static void onnxruntime_close(struct engine *engine) {
    cuda_thread_end(engine->starter); /* both take NULL */
    cuda_device_close(engine->gpu);
    onnxruntime_env_put(engine->api, engine->env);
    free(engine);
}

static void values_release(struct pooled_block *pooled) {
    const OrtApi *api = onnxruntime_api(NULL);
    for (uint32_t i = 0; i < pooled->value_count; i++) {
        if (pooled->values[i])
            api->ReleaseValue(pooled->values[i]);
        pooled->values[i] = NULL;
    }
}

static void model_free(void *context) {
    struct engine_model *m = context;
    if (m->thread)
        cuda_relax();
    if (m->shared)
        atomic_store_explicit(&arena_left, true, memory_order_relaxed);
    m->api->ReleaseMemoryInfo(m->memory); /* each of these takes NULL */
    m->api->ReleaseRunOptions(m->run_options_shrink);
    m->api->ReleaseRunOptions(m->run_options);
    if (m->weights)
        mapped_weights_close_begin(m->weights);
    m->api->ReleaseSession(m->session);
    if (m->weights)
        mapped_weights_close_end(m->weights);
    private_copy_put(m->copy);
    if (m->replaced)
        block_pool_leave(m->replaced->pool);
    onnxruntime_env_put(m->api, m->env);
    free(m);
}

/* Opens the model's session, or records its runs. */
static int session_open(struct engine_model *m, const struct engine_model_source *source,
                        const struct session_request *request, struct sy_error *err) {
    struct sy_error why = {""};
    if (m->thread && cuda_graphs_suit(source->signature)) {
        struct session_request recorded = *request;
        recorded.graphs = true;
        if (cuda_graphs_open(&m->graphs, m->thread, m->api, m->env, &recorded, source->signature, source->batch_max,
                             &why) == 0)
            return 0;
        log_info("model runs without CUDA graphs", "model=%s reason=\"%s\"", source->name, why.text);
    }
    return onnxruntime_session(m->api, m->env, request, &m->session, err);
}

/* Loads the file of `request`, which is the source's own or made from it, on the thread that runs it. */
static int model_open_here(struct engine *engine, const struct engine_model_source *source,
                           const struct session_request *request, struct cuda_thread *thread,
                           struct engine_model **model, struct sy_error *err) {
    const OrtApi *api = engine->api;
    struct engine_model *m = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, -ENOMEM, "model '%s': no memory", source->name);
    char arenas[32] = "cpu:0";
    if (engine->gpu)
        snprintf(arenas, sizeof(arenas), "cpu:0;gpu:%d", engine->options.device);
    m->api = api;
    m->thread = thread;
    m->signature = source->signature;
    m->engine = engine;
    m->source = *source;
    m->source.profile = NULL;
    m->shared = engine_run_memory() > 0;
    for (uint32_t i = 0; i < source->signature->output_count; i++)
        m->output_names[i] = source->signature->outputs[i].name;
    int rc = onnxruntime_env(api, &m->env, err);
    if (!rc)
        rc = session_open(m, source, request, err);
    if (!rc)
        rc = onnxruntime_check(api, api->CreateRunOptions(&m->run_options), err, "run options");
    if (!rc)
        rc = onnxruntime_check(api, api->CreateRunOptions(&m->run_options_shrink), err, "run options");
    if (!rc)
        rc = onnxruntime_check(
            api, api->AddRunConfigEntry(m->run_options_shrink, "memory.enable_memory_arena_shrinkage", arenas), err,
            "run options");
    if (!rc)
        rc = onnxruntime_check(api, api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &m->memory), err,
                               "memory");
    if (!rc && !(m->pool = block_pool_new(source->signature->output_count, values_release, model_free, m)))
        rc = error_set(err, -ENOMEM, "model '%s': no memory", source->name);
    if (rc) {
        cuda_graphs_close(m->graphs);
        model_free(m);
    } else {
        *model = m;
    }
    return rc;
}

struct opening {
    struct engine *engine;
    const struct engine_model_source *source;
    const struct session_request *request;
    struct cuda_thread *thread;
    struct engine_model **model;
    struct sy_error *err;
    int rc;
};

static void starting_call(void *argument) {
    struct opening *o = argument;
    o->rc = cuda_thread_start(&o->thread, o->engine->gpu, o->err);
}

static void opening_call(void *argument) {
    struct opening *o = argument;
    o->rc = model_open_here(o->engine, o->source, o->request, o->thread, o->model, o->err);
}

static int model_open(struct engine *engine, const struct engine_model_source *source,
                      const struct session_request *request, struct engine_model **model, struct sy_error *err) {
    struct opening o = {engine, source, request, NULL, model, err, 0};
    if (!engine->gpu) {
        opening_call(&o);
        return o.rc;
    }
    cuda_thread_call(engine->starter, starting_call, &o);
    if (o.rc)
        return o.rc;
    cuda_thread_call(o.thread, opening_call, &o);
    if (o.rc)
        cuda_thread_end(o.thread);
    return o.rc;
}

/* The model's own file, to be optimised while it loads. */
static struct session_request request_original(const struct engine *engine, const struct engine_model_source *source) {
    return (struct session_request){.path = source->path,
                                    .libraries = source->libraries,
                                    .provider = engine->options.provider,
                                    .device = engine->options.device,
                                    .optimise = true};
}

static struct session_request request_cached(const struct engine *engine, const char *path, enum cache_format format) {
    return (struct session_request){.path = path,
                                    .provider = engine->options.provider,
                                    .device = engine->options.device,
                                    .prepacked = format == CACHE_PREPACKED};
}

static int onnxruntime_load(struct engine *engine, const struct engine_model_source *source,
                            struct engine_model **model, struct sy_error *err) {
    char path[SIDECAR_PATH_MAX];
    bool original = source->original || op_libraries_any(source->libraries);
    enum cache_format format = original ? CACHE_NONE : cache_find(source->path, &engine->options, path);
    if (format != CACHE_NONE) {
        struct session_request cached = request_cached(engine, path, format);
        struct sy_error why;
        struct mapped_weights *weights = NULL;
        if (format == CACHE_PREPACKED && engine->options.pages_weights && !engine->gpu) {
            char mapped[SIDECAR_PATH_MAX];
            snprintf(mapped, sizeof(mapped), "%.*s.weights", (int)(strlen(path) - strlen(".onnx")), path);
            weights = mapped_weights_begin(mapped);
        }
        int rc = model_open(engine, source, &cached, model, &why);
        weights = weights ? mapped_weights_end(weights) : NULL;
        if (rc == 0) {
            (*model)->weights = weights;
            log_debug("model loaded", "model=%s form=%s file=\"%s\"", source->name, cache_format_name(format), path);
            return 0;
        }
        log_warn("optimised model not used", "model=%s file=\"%s\" reason=\"%s\"", source->name, path, why.text);
    }
    struct session_request request = request_original(engine, source);
    struct private_copy *copy = NULL;
    if (engine->options.private_weights)
        request.path = private_copy_open(source->path, &copy);
    int rc = model_open(engine, source, &request, model, err);
    if (rc)
        private_copy_put(copy);
    else
        (*model)->copy = copy;
    return rc;
}

static void graphs_close_call(void *argument) {
    cuda_graphs_close(argument);
}

static int onnxruntime_page_out(struct engine_model *model) {
    return model->weights ? mapped_weights_out(model->weights) : -ENOTSUP;
}

static int onnxruntime_page_in(struct engine_model *model, struct sy_error *err) {
    return mapped_weights_in(model->weights, err);
}

static void onnxruntime_unload(struct engine_model *model) {
    if (model->thread) /* the session is freed with the last of its outputs, on whatever thread that is */
        cuda_thread_call(model->thread, graphs_close_call, model->graphs);
    cuda_thread_end(model->thread); /* takes NULL */
    block_pool_leave(model->pool);
}

/* Finds where an output lies, and its shape. An output of strings is replaced by one in our form. */
static int output_view(struct engine_model *model, uint32_t i, OrtValue **value, struct tensor_view *view,
                       struct sy_error *err) {
    const OrtApi *api = model->api;
    const struct tensor_spec *spec = &model->signature->outputs[i];
    OrtTensorTypeAndShapeInfo *info = NULL;
    size_t dim_count = 0;
    bool strings = spec->type == DATATYPE_BYTES;
    OrtStatus *status = strings ? NULL : api->GetTensorMutableData(*value, &view->data);
    if (!status)
        status = api->GetTensorTypeAndShape(*value, &info);
    if (!status)
        status = api->GetDimensionsCount(info, &dim_count);
    if (!status && dim_count <= TENSOR_DIMS_MAX)
        status = api->GetDimensions(info, view->dims, dim_count);
    api->ReleaseTensorTypeAndShapeInfo(info);
    int rc = onnxruntime_check(api, status, err, spec->name);
    if (rc)
        return rc;
    if (dim_count > TENSOR_DIMS_MAX)
        return error_set(err, -EIO, "output '%s' has %zu dimensions; at most %d are served", spec->name, dim_count,
                         TENSOR_DIMS_MAX);
    view->dim_count = (uint32_t)dim_count;
    if (spec->reshaped && tensor_reshape(view, spec->file_dims, spec->file_dim_count, spec->dims, spec->dim_count)) {
        char got[128], wanted[128];
        dims_format(view->dims, 0, view->dim_count, got, sizeof(got));
        dims_format(spec->dims, 0, spec->dim_count, wanted, sizeof(wanted));
        return error_set(err, -EIO, "output '%s' is %s, which cannot be reshaped to %s", spec->name, got, wanted);
    }
    if (strings)
        return onnxruntime_strings_take(api, value, view, err);
    view->row_at = NULL;
    view->bytes = (size_t)dims_product(view->dims, 0, view->dim_count) * datatype_bytes(spec->type);
    return 0;
}

/* The options of the next run: those that shrink the arena after it, if that is due. */
static const OrtRunOptions *run_options_choose(struct engine_model *model, int64_t now_ns) {
    bool own = model->small && now_ns - model->large_at_ns >= ARENA_KEEP_NS;
    /* relaxed, here and below: a flag and a number by themselves */
    bool left = model->shared && atomic_load_explicit(&arena_left, memory_order_relaxed);
    if (!own && !left)
        return model->run_options;
    if (model->shared && now_ns - atomic_load_explicit(&arena_shrunk_ns, memory_order_relaxed) < ARENA_KEEP_NS)
        return model->run_options;
    atomic_store_explicit(&arena_shrunk_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&arena_left, false, memory_order_relaxed);
    if (own)
        model->large_bytes = 0;
    return model->run_options_shrink;
}

static uint32_t onnxruntime_padded(const struct engine_model *model, uint32_t items) {
    return model->graphs ? cuda_graphs_size(model->graphs, items) : items;
}

static void *onnxruntime_memory(struct engine *engine, size_t bytes) {
    return engine->gpu ? cuda_pinned(engine->gpu, bytes) : NULL;
}

static void onnxruntime_memory_free(struct engine *engine, void *memory) {
    cuda_pinned_free(engine->gpu, memory);
}

/* An input as the library wants it: where it lies, or a copy of its strings. */
static int input_value(const struct engine_model *model, uint32_t i, const struct tensor_view *view, OrtValue **value,
                       struct sy_error *err) {
    const struct tensor_spec *spec = &model->signature->inputs[i];
    struct tensor_view reshaped;
    if (spec->reshaped) {
        reshaped = *view;
        if (tensor_reshape(&reshaped, spec->dims, spec->dim_count, spec->file_dims, spec->file_dim_count))
            return error_set(err, -EINVAL, "input '%s' cannot be reshaped", spec->name);
        view = &reshaped;
    }
    if (spec->type == DATATYPE_BYTES)
        return onnxruntime_strings_make(model->api, view, value, err);
    return onnxruntime_check(model->api,
                             model->api->CreateTensorWithDataAsOrtValue(model->memory, view->data, view->bytes,
                                                                        view->dims, view->dim_count,
                                                                        onnxruntime_type(spec->type), value),
                             err, spec->name);
}

/* Runs a session on inputs in host memory; the outputs are the caller's. */
static int session_run(struct engine_model *model, const struct tensor_view *inputs, int64_t now_ns, OrtValue **outputs,
                       struct sy_error *err) {
    const OrtApi *api = model->api;
    const struct signature *signature = model->signature;
    OrtValue *values[TENSORS_MAX];
    const char *names[TENSORS_MAX];
    size_t count = 0;
    int rc = 0;
    for (uint32_t i = 0; i < signature->input_count && !rc; i++) {
        if (!inputs[i].data)
            continue; /* the model has a value of its own */
        names[count] = signature->inputs[i].name;
        values[count] = NULL;
        rc = input_value(model, i, &inputs[i], &values[count++], err);
    }
    if (!rc)
        rc = onnxruntime_check(api,
                               api->Run(model->session, run_options_choose(model, now_ns), names,
                                        (const OrtValue *const *)values, count, model->output_names,
                                        signature->output_count, outputs),
                               err, "run");
    if (rc && err && strstr(err->text, LACKS_MEMORY))
        error_set(err, rc, "run: it needs more memory than runs may take, %llu MiB for all (--run-memory-max-mib)",
                  (unsigned long long)(engine_run_memory() >> 20));
    for (size_t i = 0; i < count; i++)
        api->ReleaseValue(values[i]);
    return rc;
}

/* Opens a session on the model's own file in place of one whose weights are lost. That one lives as long as the model,
 * since outputs of its runs may be under way, and so there is no second replacement. */
static int session_replace(struct engine_model *m, int64_t now_ns, struct sy_error *err) {
    struct engine_model *fresh;
    struct engine_model_source original = m->source;
    struct sy_error why = {"the model cannot be loaded anew while it serves"};
    int rc = -EIO;
    if (now_ns < m->replace_next_ns)
        return error_set(err, rc, "its weights can no longer be read; it is soon tried again");
    original.original = true;
    if (!m->replaced && !m->thread)
        rc = onnxruntime_load(m->engine, &original, &fresh, &why);
    if (rc) {
        log_error("weights can no longer be read", "model=%s reason=\"%s\"", m->source.name, why.text);
        m->replace_next_ns = now_ns + REPLACE_APART_NS;
        return error_set(err, -EIO, "its weights can no longer be read: %.300s", why.text);
    }
    log_warn("weights can no longer be read: the model was loaded anew", "model=%s seconds=%.3f", m->source.name,
             (double)(clock_now_ns() - now_ns) / NS_PER_S);
    OrtSession *session = m->session;
    struct mapped_weights *weights = m->weights;
    struct private_copy *copy = m->copy;
    m->session = fresh->session;
    m->weights = fresh->weights;
    m->copy = fresh->copy;
    fresh->session = session;
    fresh->weights = weights;
    fresh->copy = copy;
    m->replaced = fresh;
    m->weights_lost = false;
    return 0;
}

/* As session_run(). What was computed from weights that could not be read is computed again. */
static int session_run_whole(struct engine_model *m, const struct tensor_view *inputs, int64_t now_ns,
                             OrtValue **outputs, struct sy_error *err) {
    for (;;) {
        int rc = m->weights_lost ? session_replace(m, clock_now_ns(), err) : 0;
        if (rc)
            return rc;
        lost_pages_begin();
        rc = session_run(m, inputs, now_ns, outputs, err);
        m->weights_lost = lost_pages_end();
        if (!m->weights_lost)
            return rc;
        for (uint32_t i = 0; i < m->signature->output_count; i++) {
            if (outputs[i])
                m->api->ReleaseValue(outputs[i]);
            outputs[i] = NULL;
        }
    }
}

static int run_here(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
                    struct output_block **outputs, struct sy_error *err) {
    const struct signature *signature = model->signature;
    struct pooled_block *pooled = block_pool_get(model->pool);
    if (!pooled)
        return error_set(err, -ENOMEM, "no memory for the outputs");
    OrtValue **values = (OrtValue **)pooled->values;
    int64_t now_ns = clock_now_ns();
    size_t bytes = 0;
    int rc = model->graphs ? cuda_graphs_run(model->graphs, inputs, items, values, err)
                           : session_run_whole(model, inputs, now_ns, values, err);
    for (uint32_t i = 0; i < signature->input_count; i++)
        bytes += inputs[i].data ? inputs[i].bytes : 0;
    for (uint32_t i = 0; i < signature->output_count && !rc; i++) {
        rc = output_view(model, i, &values[i], &pooled->block.outputs[i], err);
        bytes += rc ? 0 : pooled->block.outputs[i].bytes;
    }
    bytes = rc ? RUN_BYTES_UNKNOWN : bytes;
    model->small = bytes < model->large_bytes / 2;
    if (!model->small) {
        model->large_bytes = bytes > model->large_bytes ? bytes : model->large_bytes;
        model->large_at_ns = now_ns;
    }
    if (rc) {
        output_block_put(&pooled->block);
        return rc;
    }
    pooled->block.output_count = signature->output_count;
    *outputs = &pooled->block;
    return 0;
}

struct running {
    struct engine_model *model;
    const struct tensor_view *inputs;
    uint32_t items;
    struct output_block **outputs;
    struct sy_error *err;
    int rc;
};

static void running_call(void *argument) {
    struct running *r = argument;
    r->rc = run_here(r->model, r->inputs, r->items, r->outputs, r->err);
}

static int onnxruntime_run(struct engine_model *model, const struct tensor_view *inputs, uint32_t items,
                           struct output_block **outputs, struct sy_error *err) {
    struct running r = {model, inputs, items, outputs, err, 0};
    if (model->thread)
        cuda_thread_call(model->thread, running_call, &r);
    else
        running_call(&r);
    return r.rc;
}

static int onnxruntime_signature(const char *path, const struct op_libraries *libraries, struct signature_room *room,
                                 struct sy_error *err) {
    const OrtApi *api = onnxruntime_api(err);
    if (!api)
        return -ENOTSUP;
    OrtEnv *env = NULL;
    OrtSession *session = NULL;
    int rc = onnxruntime_env(api, &env, err);
    if (rc)
        return rc;
    struct session_request request = {.path = path, .libraries = libraries, .provider = "cpu"};
    rc = onnxruntime_session(api, env, &request, &session, err);
    if (!rc)
        rc = onnxruntime_session_signature(api, session, room, err);
    api->ReleaseSession(session);
    onnxruntime_env_put(api, env);
    return rc;
}

/* The library checks the flag between the nodes of a graph, and between the iterations of a loop. A recorded run does
 * not stop once it has begun. */
static void terminate_set(struct engine_model *model, bool wanted) {
    if (model->graphs) {
        cuda_graphs_stop(model->graphs, wanted);
        return;
    }
    OrtRunOptions *const options[] = {model->run_options, model->run_options_shrink};
    for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
        OrtStatus *status =
            wanted ? model->api->RunOptionsSetTerminate(options[i]) : model->api->RunOptionsUnsetTerminate(options[i]);
        if (status)
            model->api->ReleaseStatus(status);
    }
}

static void onnxruntime_stop(struct engine_model *model) {
    terminate_set(model, true);
}

static void onnxruntime_go_on(struct engine_model *model) {
    terminate_set(model, false);
}

/* Same library, same kernels, one thread: the bits must be the same. */
static int outputs_compare(const struct output_block *a, const struct output_block *b,
                           const struct signature *signature, struct sy_error *err) {
    for (uint32_t i = 0; i < signature->output_count; i++)
        if (a->outputs[i].bytes != b->outputs[i].bytes ||
            memcmp(a->outputs[i].data, b->outputs[i].data, a->outputs[i].bytes) != 0)
            return error_set(err, -EIO, "output '%s' differs from the original's", signature->outputs[i].name);
    return 0;
}

/* Runs both models on the trials and compares their outputs. */
static int trials_run(struct engine_model *original, struct engine_model *cached, const struct engine_trial *trials,
                      uint32_t trial_count, struct sy_error *err) {
    int rc = 0;
    for (uint32_t i = 0; i < trial_count && !rc; i++) {
        struct output_block *expected = NULL, *got = NULL;
        rc = onnxruntime_run(original, trials[i].inputs, trials[i].items, &expected, i > 0 ? NULL : err);
        if (rc && i > 0) {
            rc = 0; /* a shape that is not one of the model's */
            continue;
        }
        if (!rc)
            rc = onnxruntime_run(cached, trials[i].inputs, trials[i].items, &got, err);
        if (!rc && cached->replaced)
            rc = error_set(err, -EIO, "its weights cannot be read");
        if (!rc)
            rc = outputs_compare(expected, got, original->signature, err);
        output_block_put(expected);
        output_block_put(got);
    }
    return rc;
}

static int onnxruntime_cache(struct engine *engine, const struct engine_model_source *source,
                             const struct engine_trial *trials, uint32_t trial_count, uint32_t attempt,
                             const char **made, struct sy_error *err) {
    if (attempt >= CACHE_FORMATS)
        return -ENOENT;
    struct engine_model_source small = *source; /* trials are of two items at most */
    struct cache_draft draft;
    struct session_request request = request_original(engine, source), saving = request, optimised;
    struct engine_model *original = NULL, *cached = NULL;
    OrtSession *session = NULL;
    small.batch_max = 2;
    *made = cache_format_name(attempt);
    int rc = cache_draft_open(&draft, source->path, &engine->options, attempt, err);
    if (rc)
        return rc;
    if (attempt == CACHE_NONE) {
        rc = cache_draft_commit(&draft, source->path, &engine->options, "no format passed its trial", err);
        goto out;
    }
    saving.save_path = draft.model;
    saving.save_weights = *draft.weights ? draft.weights : NULL;
    rc = onnxruntime_session(engine->api, engine->env, &saving, &session, err);
    engine->api->ReleaseSession(session);
    if (rc)
        goto out;
    rc = model_open(engine, &small, &request, &original, err);
    if (rc)
        goto out;
    optimised = request_cached(engine, draft.model, attempt);
    rc = model_open(engine, &small, &optimised, &cached, err);
    if (!rc) {
        rc = trials_run(original, cached, trials, trial_count, err);
        onnxruntime_unload(cached);
    }
    onnxruntime_unload(original);
    if (!rc)
        rc = cache_draft_commit(&draft, source->path, &engine->options, "same outputs as the original", err);
out:
    cache_draft_close(&draft);
    return rc;
}

const struct engine_ops engine_onnxruntime = {
    .name = "onnxruntime",
    .version = onnxruntime_version,
    .open = onnxruntime_open,
    .close = onnxruntime_close,
    .load = onnxruntime_load,
    .unload = onnxruntime_unload,
    .page_out = onnxruntime_page_out,
    .page_in = onnxruntime_page_in,
    .run = onnxruntime_run,
    .signature = onnxruntime_signature,
    .cache = onnxruntime_cache,
    .padded = onnxruntime_padded,
    .memory = onnxruntime_memory,
    .memory_free = onnxruntime_memory_free,
    .stop = onnxruntime_stop,
    .go_on = onnxruntime_go_on,
    .transforms = &transform_onnxruntime,
};
