/* onnxruntime_cuda.c - recorded runs. ONNX Runtime records a session's first run by itself if inputs and outputs lie in
 * the GPU's memory, at addresses that never change. So each input and output has room there for the largest batch. A
 * run copies the inputs to the GPU, starts the graph, and copies the outputs back. */
#include "back/engine/onnxruntime_cuda.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SIZES_MAX 16 /* sizes of batches; a profile's greatest batch allows fewer powers of two */

/* The room of an input or output on the GPU. */
struct room {
    const struct tensor_spec *spec;
    size_t item_bytes;
    cuda_address at; /* address of the room, for the largest batch; 0: none yet */
};

struct graph {
    uint32_t items;
    OrtSession *session;
    OrtRunOptions *options;
    OrtIoBinding *binding;
};

struct cuda_graphs {
    const struct cuda_thread *thread;
    const OrtApi *api;
    OrtMemoryInfo *on_gpu;
    OrtAllocator *on_host;
    struct room inputs[TENSORS_MAX], outputs[TENSORS_MAX];
    uint32_t input_count, output_count;
    bool batched;
    struct graph graphs[SIZES_MAX]; /* [count] graphs in the order of their sizes */
    uint32_t count;
    _Atomic bool stopped; /* runs that begin now fail; relaxed: nothing else depends on it */
};

static bool specs_suit(const struct tensor_spec *specs, uint32_t count, bool batched) {
    for (uint32_t i = 0; i < count; i++)
        if (specs[i].type == DATATYPE_BYTES || dims_product(specs[i].dims, batched, specs[i].dim_count) <= 0)
            return false;
    return true;
}

bool cuda_graphs_suit(const struct signature *signature) {
    return !signature->variable_shapes && !signature->inputs_optional &&
           specs_suit(signature->inputs, signature->input_count, signature->batched) &&
           specs_suit(signature->outputs, signature->output_count, signature->batched);
}

/* ---- rooms ---- */

static int rooms_make(const struct cuda_graphs *g, struct room *rooms, const struct tensor_spec *specs, uint32_t count,
                      uint32_t items, struct sy_error *err) {
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor_spec *spec = rooms[i].spec = &specs[i];
        rooms[i].item_bytes =
            (size_t)dims_product(spec->dims, g->batched, spec->dim_count) * datatype_bytes(spec->type);
        int rc = cuda_alloc(&rooms[i].at, rooms[i].item_bytes * items, spec->name, err);
        if (!rc) /* zeros, as the rows that pad the first batches */
            rc = cuda_clear(g->thread, rooms[i].at, rooms[i].item_bytes * items, spec->name, err);
        if (rc)
            return rc;
    }
    return cuda_wait(g->thread, "GPU memory", err);
}

static void rooms_free(const struct room *rooms, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        cuda_free(rooms[i].at);
}

/* Sets the dimensions of an input or output of `rows` rows, as in the model file. Returns how many there are. */
static uint32_t room_dims(const struct cuda_graphs *g, const struct room *room, uint32_t rows, int64_t *dims) {
    const struct tensor_spec *spec = room->spec;
    memcpy(dims, spec->reshaped ? spec->file_dims : spec->dims, sizeof(spec->dims));
    if (g->batched)
        dims[0] = rows;
    return spec->reshaped ? spec->file_dim_count : spec->dim_count;
}

/* Binds the inputs or the outputs of a graph to the first rows of their rooms. */
static int rooms_bind(const struct cuda_graphs *g, const struct graph *graph, const struct room *rooms, uint32_t count,
                      bool inputs, struct sy_error *err) {
    int rc = 0;
    for (uint32_t i = 0; i < count && !rc; i++) {
        const struct tensor_spec *spec = rooms[i].spec;
        int64_t dims[TENSOR_DIMS_MAX];
        OrtValue *value = NULL;
        uint32_t dim_count = room_dims(g, &rooms[i], graph->items, dims);
        OrtStatus *status = g->api->CreateTensorWithDataAsOrtValue(g->on_gpu, (void *)(uintptr_t)rooms[i].at,
                                                                   rooms[i].item_bytes * graph->items, dims, dim_count,
                                                                   onnxruntime_type(spec->type), &value);
        if (!status)
            status = inputs ? g->api->BindInput(graph->binding, spec->name, value)
                            : g->api->BindOutput(graph->binding, spec->name, value);
        g->api->ReleaseValue(value); /* takes NULL; the binding has a reference of its own */
        rc = onnxruntime_check(g->api, status, err, spec->name);
    }
    return rc;
}

/* ---- graphs ---- */

static void graph_free(const OrtApi *api, struct graph *graph) {
    api->ReleaseIoBinding(graph->binding); /* each of these takes NULL */
    api->ReleaseRunOptions(graph->options);
    api->ReleaseSession(graph->session);
    *graph = (struct graph){0};
}

/* Opens a session for batches of `items`, records a run of it, and starts the recorded run once. */
static int graph_add(struct cuda_graphs *g, OrtEnv *env, const struct session_request *request, uint32_t items,
                     struct sy_error *err) {
    struct graph *graph = &g->graphs[g->count];
    graph->items = items;
    int rc = onnxruntime_session(g->api, env, request, &graph->session, err);
    if (!rc)
        rc = onnxruntime_check(g->api, g->api->CreateRunOptions(&graph->options), err, "run options");
    if (!rc)
        rc = onnxruntime_check(g->api, g->api->CreateIoBinding(graph->session, &graph->binding), err, "CUDA graph");
    if (!rc)
        rc = rooms_bind(g, graph, g->inputs, g->input_count, true, err);
    if (!rc)
        rc = rooms_bind(g, graph, g->outputs, g->output_count, false, err);
    for (int run = 0; run < 2 && !rc; run++)
        rc = onnxruntime_check(g->api, g->api->RunWithBinding(graph->session, graph->options, graph->binding), err,
                               "CUDA graph");
    if (rc)
        graph_free(g->api, graph);
    else
        g->count++;
    return rc;
}

int cuda_graphs_open(struct cuda_graphs **graphs, const struct cuda_thread *thread, const OrtApi *api, OrtEnv *env,
                     const struct session_request *request, const struct signature *signature, uint32_t batch_max,
                     struct sy_error *err) {
    struct cuda_graphs *g = calloc(1, sizeof(*g));
    if (!g)
        return error_set(err, -ENOMEM, "no memory for CUDA graphs");
    uint32_t most = !signature->batched ? 1 : batch_max > 2 ? batch_max : 2;
    *g = (struct cuda_graphs){.thread = thread,
                              .api = api,
                              .input_count = signature->input_count,
                              .output_count = signature->output_count,
                              .batched = signature->batched};
    int rc = onnxruntime_check(
        api,
        api->CreateMemoryInfo("Cuda", OrtDeviceAllocator, cuda_thread_device(thread), OrtMemTypeDefault, &g->on_gpu),
        err, "memory");
    if (!rc)
        rc = onnxruntime_check(api, api->GetAllocatorWithDefaultOptions(&g->on_host), err, "memory");
    if (!rc)
        rc = rooms_make(g, g->inputs, signature->inputs, g->input_count, most, err);
    if (!rc)
        rc = rooms_make(g, g->outputs, signature->outputs, g->output_count, most, err);
    for (uint32_t items = 1; !rc && items < most && g->count < SIZES_MAX - 1; items *= 2)
        rc = graph_add(g, env, request, items, err);
    if (!rc)
        rc = graph_add(g, env, request, most, err);
    if (rc)
        cuda_graphs_close(g);
    else
        *graphs = g;
    return rc;
}

void cuda_graphs_close(struct cuda_graphs *graphs) {
    if (!graphs)
        return;
    for (uint32_t i = 0; i < graphs->count; i++)
        graph_free(graphs->api, &graphs->graphs[i]);
    rooms_free(graphs->inputs, graphs->input_count);
    rooms_free(graphs->outputs, graphs->output_count);
    graphs->api->ReleaseMemoryInfo(graphs->on_gpu); /* takes NULL */
    free(graphs);
}

/* The graph for a batch of `items`; NULL: the batch is too large. */
static const struct graph *graph_of(const struct cuda_graphs *graphs, uint32_t items) {
    for (uint32_t i = 0; i < graphs->count; i++)
        if (graphs->graphs[i].items >= items)
            return &graphs->graphs[i];
    return NULL;
}

uint32_t cuda_graphs_size(const struct cuda_graphs *graphs, uint32_t items) {
    const struct graph *graph = graph_of(graphs, items);
    return graph ? graph->items : 0;
}

/* ---- runs ---- */

/* Begins to copy a batch's rows of an input. */
static int input_put(const struct cuda_graphs *g, const struct room *room, const struct tensor_view *input,
                     uint32_t rows, struct sy_error *err) {
    size_t bytes = room->item_bytes * rows;
    if (input->bytes != bytes)
        return error_set(err, -EINVAL, "input '%s' has %zu bytes, not %zu", room->spec->name, input->bytes, bytes);
    return cuda_copy_in(g->thread, room->at, input->data, bytes, room->spec->name, err);
}

/* Begins to copy a batch's rows of an output. */
static int output_take(const struct cuda_graphs *g, const struct room *room, uint32_t rows, OrtValue **value,
                       struct sy_error *err) {
    const struct tensor_spec *spec = room->spec;
    int64_t dims[TENSOR_DIMS_MAX];
    void *data = NULL;
    uint32_t dim_count = room_dims(g, room, rows, dims);
    OrtStatus *status =
        g->api->CreateTensorAsOrtValue(g->on_host, dims, dim_count, onnxruntime_type(spec->type), value);
    if (!status)
        status = g->api->GetTensorMutableData(*value, &data);
    int rc = onnxruntime_check(g->api, status, err, spec->name);
    return rc ? rc : cuda_copy_out(g->thread, data, room->at, room->item_bytes * rows, spec->name, err);
}

int cuda_graphs_run(struct cuda_graphs *graphs, const struct tensor_view *inputs, uint32_t items, OrtValue **outputs,
                    struct sy_error *err) {
    uint32_t rows = graphs->batched ? items : 1;
    const struct graph *graph = graph_of(graphs, rows);
    int rc = 0;
    if (!graph)
        return error_set(err, -EINVAL, "run: the model was loaded for batches of %u items, not of %u",
                         graphs->graphs[graphs->count - 1].items, items);
    if (atomic_load_explicit(&graphs->stopped, memory_order_relaxed))
        return error_set(err, -EIO, "run: it was stopped");
    for (uint32_t i = 0; i < graphs->input_count && !rc; i++)
        rc = input_put(graphs, &graphs->inputs[i], &inputs[i], rows, err);
    if (!rc)
        rc = cuda_wait(graphs->thread, "inputs to the GPU", err);
    if (!rc)
        rc = onnxruntime_check(graphs->api, graphs->api->RunWithBinding(graph->session, graph->options, graph->binding),
                               err, "run");
    for (uint32_t i = 0; i < graphs->output_count && !rc; i++)
        rc = output_take(graphs, &graphs->outputs[i], rows, &outputs[i], err);
    /* waits also after an error, whose sentence stays: copies under way use memory of the caller's */
    int waited = cuda_wait(graphs->thread, "outputs from the GPU", rc ? NULL : err);
    return rc ? rc : waited;
}

void cuda_graphs_stop(struct cuda_graphs *graphs, bool wanted) {
    atomic_store_explicit(&graphs->stopped, wanted, memory_order_relaxed);
}
