/* ensemble_tensors.c - finds, joins and gives back the tensors of an ensemble's steps. */
#include "front/request/ensemble_tensors.h"

#include <string.h>

static char nothing[8]; /* memory that tensors without elements point to */

static struct step_request *request_nth(const struct run_step *step, uint32_t n) {
    return (struct step_request *)((char *)step->requests + n * step->request_bytes);
}

static const struct served_model *model_of(const struct ensemble_run *run, uint32_t step) {
    return &run->inference->home->models->models[run->models[step]];
}

/* The number of the model's output that a flow names; -1: the model has changed, and has no such output. */
static int output_index(const struct served_model *model, const struct ensemble_flow *flow) {
    return tensor_spec_find(model->signature.outputs, model->signature.output_count, flow->name, strlen(flow->name));
}

struct tensor_view ensemble_tensor(const struct ensemble_run *run, uint32_t tensor, enum datatype *type) {
    const struct ensemble_tensor *t = &run->ensemble->tensors[tensor];
    if (t->step == ENSEMBLE_NONE) {
        *type = run->inference->model->signature.inputs[t->place].type;
        return run->inference->call.inputs[t->place];
    }
    const struct served_model *model = model_of(run, t->step);
    int index = output_index(model, &run->ensemble->steps[t->step].outputs[t->place]);
    *type = index < 0 ? DATATYPE_INVALID : model->signature.outputs[index].type;
    return run->steps[t->step].outputs[t->place];
}

/* Changes a tensor's dim_count by one, if it is not `dim_count`: adds a first dimension of one, or removes a first
 * dimension of one or zero. A tensor that would need another change stays as it is. */
static void tensor_as(struct tensor_view *view, uint32_t dim_count) {
    if (view->dim_count + 1 == dim_count) {
        memmove(view->dims + 1, view->dims, view->dim_count * sizeof(view->dims[0]));
        view->dims[0] = 1;
    } else if (view->dim_count == dim_count + 1 && dim_count > 0 && view->dims[0] <= 1) {
        bool none = view->dims[0] == 0;
        memmove(view->dims, view->dims + 1, dim_count * sizeof(view->dims[0]));
        if (none)
            view->dims[0] = 0;
    } else {
        return;
    }
    view->dim_count = dim_count;
    view->row_at = NULL;
}

struct tensor_view ensemble_step_input(const struct ensemble_run *run, uint32_t v, const struct ensemble_flow *flow,
                                       enum datatype *type) {
    const struct signature *signature = served_model_offered(model_of(run, v));
    struct tensor_view view = ensemble_tensor(run, flow->tensor, type);
    int index = tensor_spec_find(signature->inputs, signature->input_count, flow->name, strlen(flow->name));
    if (index >= 0)
        tensor_as(&view, signature->inputs[index].dim_count);
    return view;
}

bool ensemble_tensor_none(const struct ensemble_run *run, uint32_t tensor) {
    uint32_t step = run->ensemble->tensors[tensor].step;
    return step != ENSEMBLE_NONE && run->steps[step].count == 0;
}

void ensemble_step_empty(struct ensemble_run *run, uint32_t v, const struct served_model *model) {
    const struct ensemble_step *step = &run->ensemble->steps[v];
    for (uint32_t i = 0; i < step->output_count; i++) {
        struct tensor_view *view = &run->steps[v].outputs[i];
        int index = output_index(model, &step->outputs[i]);
        *view = (struct tensor_view){.data = nothing, .dim_count = 1};
        if (index < 0)
            continue;
        const struct tensor_spec *spec = &model->signature.outputs[index];
        view->dim_count = spec->dim_count > 0 ? spec->dim_count : 1;
        for (uint32_t d = 1; d < view->dim_count; d++)
            view->dims[d] = spec->dims[d] > 0 ? spec->dims[d] : 0;
    }
}

/* A request's part of an output of its batch. */
static int part_of(const struct served_model *model, const struct request *request, const struct ensemble_flow *flow,
                   struct tensor_view *part, struct sy_error *err) {
    int index = output_index(model, flow);
    if (index < 0 || (uint32_t)index >= request->block->output_count)
        return error_set(err, 500, "model '%.100s' gave no output '%.100s'", model->name, flow->name);
    *part = request->block->outputs[index];
    if (model->signature.batched && request->first_item != ITEMS_WHOLE &&
        tensor_rows(part, request->first_item, request->items, part) < 0)
        return error_set(err, 500, "output '%.100s' of model '%.100s' has fewer items than the batch", flow->name,
                         model->name);
    return 0;
}

/* Adds up the requests' parts of an output: *joined has their rows and bytes, and no data yet. */
static int join_size(const struct ensemble_run *run, uint32_t v, uint32_t output, const struct served_model *model,
                     struct tensor_view *joined, struct sy_error *err) {
    const struct ensemble_flow *flow = &run->ensemble->steps[v].outputs[output];
    for (uint32_t n = 0; n < run->steps[v].count; n++) {
        struct tensor_view part;
        int status = part_of(model, &request_nth(&run->steps[v], n)->request, flow, &part, err);
        if (status)
            return status;
        if (n > 0 && (part.dim_count != joined->dim_count || part.dim_count == 0 ||
                      memcmp(part.dims + 1, joined->dims + 1, (part.dim_count - 1) * sizeof(part.dims[0])) != 0))
            return error_set(err, 500,
                             "output '%.100s' of model '%.100s' has another shape for one item than for another, so "
                             "that they do not fit into one tensor",
                             flow->name, model->name);
        if (n == 0)
            *joined = (struct tensor_view){.dim_count = part.dim_count};
        memcpy(joined->dims + 1, part.dims + 1, sizeof(part.dims) - sizeof(part.dims[0]));
        joined->dims[0] += part.dim_count > 0 ? part.dims[0] : 1;
        joined->bytes += part.bytes;
    }
    return 0;
}

static size_t aligned(size_t bytes) {
    return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

/* Copies the parts of several requests behind each other. */
static int join(struct ensemble_run *run, uint32_t v, const struct served_model *model, struct sy_error *err) {
    const struct ensemble_step *step = &run->ensemble->steps[v];
    struct run_step *to = &run->steps[v];
    size_t total = CACHE_LINE;
    int status = 0;
    for (uint32_t i = 0; i < step->output_count && !status; i++) {
        status = join_size(run, v, i, model, &to->outputs[i], err);
        total += aligned(to->outputs[i].bytes);
    }
    if (status)
        return status;
    char *at = to->joined = slab_take(run->inference->home->slab, total);
    if (!at)
        return error_set(err, 503, "the memory for inputs is exhausted");
    for (uint32_t i = 0; i < step->output_count; i++) {
        char *row = to->outputs[i].data = at;
        for (uint32_t n = 0; n < to->count; n++) {
            struct tensor_view part;
            part_of(model, &request_nth(to, n)->request, &step->outputs[i], &part, err); /* as in join_size() */
            memcpy(row, part.data, part.bytes);
            row += part.bytes;
        }
        at += aligned(to->outputs[i].bytes);
    }
    return 0;
}

static void blocks_put(struct run_step *step) {
    for (uint32_t n = 0; n < step->count; n++) {
        struct request *request = &request_nth(step, n)->request;
        output_block_put(request->block);
        request->block = NULL;
    }
}

/* Whether a later step takes this output of step v. */
static bool is_taken(const struct ensemble *ensemble, uint32_t v, uint32_t output) {
    for (uint32_t w = v + 1; w < ensemble->step_count; w++)
        if ((ensemble->steps[w].after >> v & 1) &&
            ensemble_step_takes(&ensemble->steps[w], ensemble->steps[v].outputs[output].tensor))
            return true;
    return false;
}

/* Copies the outputs that other steps take to where other processes may read them. */
static int show(struct ensemble_run *run, uint32_t v, struct sy_error *err) {
    struct run_step *to = &run->steps[v];
    uint32_t count = run->ensemble->steps[v].output_count, taken = 0;
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_taken(run->ensemble, v, i)) {
            total += aligned(to->outputs[i].bytes);
            taken++;
        }
    char *at = to->joined = total ? slab_take(run->inference->home->slab, total) : NULL;
    if (total && !at)
        return error_set(err, 503, "the memory for inputs is exhausted");
    for (uint32_t i = 0; i < count && at; i++) {
        struct tensor_view *view = &to->outputs[i];
        if (!is_taken(run->ensemble, v, i) || !view->bytes)
            continue;
        view->data = memcpy(at, view->data, view->bytes);
        at += aligned(view->bytes);
    }
    if (taken == count && at)
        blocks_put(to);
    return 0;
}

int ensemble_step_outputs(struct ensemble_run *run, uint32_t v, const struct served_model *model,
                          struct sy_error *err) {
    const struct ensemble_step *step = &run->ensemble->steps[v];
    struct run_step *to = &run->steps[v];
    int status = 0;
    if (to->count > 1) {
        status = join(run, v, model, err);
        if (!status)
            blocks_put(to);
        return status;
    }
    for (uint32_t i = 0; i < step->output_count && !status; i++)
        status = part_of(model, &request_nth(to, 0)->request, &step->outputs[i], &to->outputs[i], err);
    if (status || !port_is_visible(run->inference->home->port))
        return status;
    return show(run, v, err);
}

void ensemble_step_put(struct ensemble_run *run, uint32_t v) {
    struct run_step *step = &run->steps[v];
    if (!step->outputs || step->put)
        return;
    blocks_put(step);
    slab_give(step->joined);
    step->joined = NULL;
    step->put = true;
}

/* Whether an output of the step is one of the ensemble's. */
static bool is_answer(const struct ensemble *ensemble, uint32_t v) {
    for (uint32_t i = 0; i < ensemble->steps[v].output_count; i++)
        if (ensemble->tensors[ensemble->steps[v].outputs[i].tensor].output != ENSEMBLE_NONE)
            return true;
    return false;
}

void ensemble_outputs_put(struct ensemble_run *run) {
    const struct ensemble *ensemble = run->ensemble;
    uint64_t ended = run->query->ended;
    for (uint64_t left = run->read ? 0 : ended; left; left &= left - 1) { /* a hanging run may read any of them */
        uint32_t v = (uint32_t)__builtin_ctzll(left);
        bool wanted = run->steps[v].put || is_answer(ensemble, v);
        for (uint32_t w = v + 1; w < ensemble->step_count && !wanted; w++)
            wanted = (ensemble->steps[w].after >> v & 1) && !(ended >> w & 1);
        if (!wanted)
            ensemble_step_put(run, v);
    }
}

/* The run holds what the views refer to, until its inference is over. */
static void composed_release(struct output_block *block) {
    (void)block;
}

bool ensemble_compose(struct ensemble_run *run, struct sy_error *err) {
    const struct served_model *model = run->inference->model;
    struct output_block *block = run->composed;
    enum datatype type;
    atomic_init(&block->references, 1);
    block->output_count = model->signature.output_count;
    block->release = composed_release;
    for (uint32_t t = 0; t < run->ensemble->tensor_count; t++) {
        uint32_t output = run->ensemble->tensors[t].output;
        if (output == ENSEMBLE_NONE || !run->steps[run->ensemble->tensors[t].step].outputs)
            continue; /* it stays inside, or nobody asked for it and its step was left out */
        const struct tensor_spec *spec = &model->signature.outputs[output];
        block->outputs[output] = ensemble_tensor(run, t, &type);
        tensor_as(&block->outputs[output], spec->dim_count);
        const struct tensor_view *view = &block->outputs[output];
        if (type != spec->type || view->dim_count != spec->dim_count) {
            char dims[100], wanted[100];
            dims_format(view->dims, 0, view->dim_count, dims, sizeof(dims));
            dims_format(spec->dims, 0, spec->dim_count, wanted, sizeof(wanted));
            error_set(err, 0, "ensemble '%.100s': output '%.100s' is %s %s, but its config.pbtxt says %s %s",
                      model->name, spec->name, datatype_name(type), dims, datatype_name(spec->type), wanted);
            return false;
        }
    }
    return true;
}
