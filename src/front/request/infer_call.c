/* infer_call.c - checks an infer request against its model. */
#include "front/request/infer_call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/data/strings.h"

#define TIMEOUT_US_MAX (24 * 3600 * 1000000LL) /* longest timeout, a day; longer ones are cut */

static size_t room_of(const struct served_model *model) {
    return model->signature.input_count * (sizeof(struct tensor_view) + sizeof(struct infer_shared)) +
           model->signature.output_count * sizeof(struct infer_output);
}

size_t infer_call_room(const struct served_model *model) {
    return room_of(model) > sizeof(((struct infer_call *)NULL)->few) ? room_of(model) : 0;
}

int infer_call_begin(struct infer_call *call, const struct served_model *model, struct infer_memory memory,
                     struct sy_error *err) {
    size_t more = infer_call_room(model);
    void *room = more ? memory.take(memory.context, more) : call->few;
    if (!room)
        return error_set(err, 503, "the memory for inputs is exhausted");
    call->inputs = room;
    call->outputs = (void *)(call->inputs + model->signature.input_count);
    call->shared = (void *)(call->outputs + model->signature.output_count);
    call->output_count = 0;
    call->inputs_named = call->outputs_named = call->inputs_shared = 0;
    call->timeout_us = 0;
    call->priority = 0;
    call->best_effort = call->trail = false;
    call->classified = false;
    call->classes = NULL;
    call->id = NULL;
    call->id_length = 0;
    return 0;
}

static int shown(size_t length) {
    return length < 64 ? (int)length : 64;
}

int infer_call_input(struct infer_call *call, const struct served_model *model, const char *name, size_t length,
                     uint32_t *index, struct sy_error *err) {
    const struct signature *signature = served_model_offered(model);
    int found = tensor_spec_find(signature->inputs, signature->input_count, name, length);
    if (found < 0)
        return error_set(err, 400, "unexpected inference input '%.*s' for model '%.64s'", shown(length), name,
                         model->name);
    if (call->inputs_named & tensor_bit(found))
        return error_set(err, 400, "input '%.*s' already exists in request: it is given twice", shown(length), name);
    call->inputs_named |= tensor_bit(found);
    *index = (uint32_t)found;
    return 0;
}

int infer_call_datatype(const char *name, size_t length, enum datatype *type, struct sy_error *err) {
    *type = datatype_parse(name, length);
    if (*type == DATATYPE_INVALID)
        return error_set(err, 400, "unknown datatype '%.*s'", shown(length), name);
    return 0;
}

int infer_call_shape(struct infer_call *call, const struct served_model *model, uint32_t index, enum datatype type,
                     const int64_t *dims, uint32_t dim_count, struct sy_error *err) {
    const struct tensor_spec *spec = &served_model_offered(model)->inputs[index];
    struct tensor_view *view = &call->inputs[index];
    char expected[160], got[200];
    if (type != spec->type)
        return error_set(err, 400, "inference input '%.64s' data-type is '%s', but model '%.64s' expects '%s'",
                         spec->name, datatype_name(type), model->name, datatype_name(spec->type));
    bool fits = dim_count == spec->dim_count;
    for (uint32_t i = 0; fits && i < dim_count; i++)
        fits = spec->dims[i] < 0 ? dims[i] > 0 || i > 0 || !model->signature.batched : dims[i] == spec->dims[i];
    int64_t extent = dims_extent(dims, 0, dim_count), element_bytes = (int64_t)datatype_bytes_min(type);
    if (!fits || extent < 0 || extent > INFER_TENSOR_BYTES_MAX / element_bytes) {
        dims_format(spec->dims, 0, spec->dim_count, expected, sizeof(expected));
        dims_format(dims, 0, dim_count, got, sizeof(got));
        return error_set(err, 400, "unexpected shape for input '%.64s' for model '%.64s'. Expected %s, got %s%s",
                         spec->name, model->name, expected, got,
                         model->signature.batched ? ". The first dimension is the batch" : "");
    }
    uint32_t items_max = served_model_items_max(model);
    if (model->signature.batched && dims[0] > items_max)
        return error_set(err, 400, "inference request batch-size must be <= %u for '%.64s': input '%.64s' has %" PRId64,
                         items_max, model->name, spec->name, dims[0]);
    view->dim_count = dim_count;
    memcpy(view->dims, dims, dim_count * sizeof(dims[0]));
    view->bytes = (size_t)(dims_product(dims, 0, dim_count) * element_bytes);
    return 0;
}

int infer_call_data(struct infer_call *call, const struct served_model *model, uint32_t index, void *data, size_t bytes,
                    struct sy_error *err) {
    const struct tensor_spec *spec = &served_model_offered(model)->inputs[index];
    struct tensor_view *view = &call->inputs[index];
    struct sy_error why;
    if (spec->type == DATATYPE_BYTES &&
        strings_check(data, bytes, dims_product(view->dims, 0, view->dim_count), &why) < 0)
        return error_set(err, 400, "input '%.64s': %.300s", spec->name, why.text);
    if (spec->type != DATATYPE_BYTES && bytes != view->bytes)
        return error_set(err, 400, INFER_MISMATCH " %zu, got %zu", spec->name, model->name, view->bytes, bytes);
    view->data = data;
    view->bytes = bytes;
    return 0;
}

int infer_call_shared(struct infer_call *call, const struct served_model *model, uint32_t index,
                      const struct infer_shared *shared, struct sy_error *err) {
    const struct tensor_spec *spec = &served_model_offered(model)->inputs[index];
    struct tensor_view *view = &call->inputs[index];
    bool strings = spec->type == DATATYPE_BYTES;
    if (strings ? shared->bytes < view->bytes || shared->bytes > (uint64_t)INFER_TENSOR_BYTES_MAX
                : shared->bytes != view->bytes)
        return error_set(err, 400, INFER_MISMATCH " %s%zu, got %" PRIu64 ", the shared_memory_byte_size", spec->name,
                         model->name, strings ? "at least " : "", view->bytes, shared->bytes);
    call->shared[index] = *shared;
    call->inputs_shared |= tensor_bit(index);
    return 0;
}

int infer_call_output(struct infer_call *call, const struct served_model *model, const char *name, size_t length,
                      struct infer_output **output, struct sy_error *err) {
    int found = tensor_spec_find(model->signature.outputs, model->signature.output_count, name, length);
    if (found < 0)
        return error_set(err, 400, "unexpected inference output '%.*s' for model '%.64s'", shown(length), name,
                         model->name);
    if (call->outputs_named & tensor_bit(found))
        return error_set(err, 400, "output '%.*s' already exists in request: it is asked for twice", shown(length),
                         name);
    call->outputs_named |= tensor_bit(found);
    *output = &call->outputs[call->output_count++];
    **output = (struct infer_output){.index = (uint32_t)found};
    return 0;
}

/* Whether an output of this type can be classified: whole numbers, FP32, FP64, as in Triton. */
static bool has_scores(enum datatype type) {
    return (type >= DATATYPE_UINT8 && type <= DATATYPE_INT64) || type == DATATYPE_FP32 || type == DATATYPE_FP64;
}

int infer_call_classify(struct infer_call *call, const struct served_model *model, struct infer_output *output,
                        int64_t classes, struct sy_error *err) {
    const struct tensor_spec *spec = &model->signature.outputs[output->index];
    if (classes < 0)
        return error_set(err, 400, "output '%.64s': classification is %" PRId64 ", which is negative", spec->name,
                         classes);
    if (classes > 0 && !has_scores(spec->type))
        return error_set(err, 400, "output '%.64s': class result not available for output due to unsupported type '%s'",
                         spec->name, datatype_name(spec->type));
    output->classified = classes > 0;
    output->classes = classes < UINT32_MAX ? (uint32_t)classes : UINT32_MAX;
    call->classified |= output->classified;
    return 0;
}

int infer_call_timeout(struct infer_call *call, int64_t timeout_us, struct sy_error *err) {
    if (timeout_us < 0)
        return error_set(err, 400, "parameter 'timeout' is not a positive whole number of microseconds");
    call->timeout_us = timeout_us < TIMEOUT_US_MAX ? timeout_us : TIMEOUT_US_MAX;
    return 0;
}

int infer_call_priority(struct infer_call *call, int64_t priority, struct sy_error *err) {
    if (priority < 0)
        return error_set(err, 400, "parameter 'priority' is not a whole number from 0 on");
    call->priority = (uint64_t)priority;
    return 0;
}

/* A hash of which inputs there are and of the dimensions that a batch must share. Clients choose these, and requests
 * with the same key are batched, so the hash is keyed with a secret that no client knows. */
static uint64_t shape_key(const struct infer_call *call, const struct served_model *model) {
    uint64_t words[2 + TENSORS_MAX * TENSOR_DIMS_MAX], key;
    uint32_t count = 0;
    words[count++] = (uint64_t)call->inputs_named;
    if (model->signature.input_count > 64)
        words[count++] = (uint64_t)(call->inputs_named >> 64);
    for (uint32_t i = 0; i < model->signature.input_count; i++)
        for (uint32_t d = model->signature.batched ? 1 : 0; d < call->inputs[i].dim_count; d++)
            words[count++] = (uint64_t)call->inputs[i].dims[d];
    key = siphash_words(&model->shape_secret, words, count);
    return key ? key : 1;
}

static void all_outputs(struct infer_call *call, const struct signature *signature) {
    call->output_count = signature->output_count;
    for (uint32_t i = 0; i < call->output_count; i++)
        call->outputs[i] = (struct infer_output){.index = i};
}

/* Writes the names of the inputs in a set as "'a','b'"; cut off if they do not fit. */
static void names_format(const struct signature *signature, tensor_set set, char *text, size_t bytes) {
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < signature->input_count && at < bytes; i++)
        if (set & tensor_bit(i))
            at += (size_t)snprintf(text + at, bytes - at, "%s'%.64s'", at ? "," : "", signature->inputs[i].name);
}

static int inputs_missing(const struct infer_call *call, const struct served_model *model, struct sy_error *err) {
    const struct signature *s = &model->signature;
    tensor_set required = tensor_set_first(s->input_count) & ~s->inputs_optional;
    char got[140], missing[140], expected[64];
    names_format(s, call->inputs_named, got, sizeof(got));
    names_format(s, required & ~call->inputs_named, missing, sizeof(missing));
    if (s->inputs_optional)
        snprintf(expected, sizeof(expected), "number of inputs between %u and %u", tensor_set_count(required),
                 s->input_count);
    else
        snprintf(expected, sizeof(expected), "%u inputs", s->input_count);
    return error_set(
        err, 400,
        "expected %s but got %u inputs for model '%.64s'. Got input(s) [%s], but missing required input(s) "
        "[%s]. Please provide all required input(s).",
        expected, tensor_set_count(call->inputs_named), model->name, got, missing);
}

void infer_call_shapes(struct infer_call *call, const struct served_model *model) {
    const struct signature *signature = &model->signature;
    int64_t elements = 0;
    call->shape_key = 0;
    call->work = 1;
    if (!signature->variable_shapes)
        return;
    for (uint32_t i = 0; i < signature->input_count; i++)
        if (!(signature->inputs_optional & tensor_bit(i)))
            elements += dims_product(call->inputs[i].dims, signature->batched ? 1 : 0, call->inputs[i].dim_count);
    call->shape_key = shape_key(call, model);
    if (model->item_elements > 0 && elements > 0)
        call->work = (float)elements / (float)model->item_elements;
}

int infer_call_finish(struct infer_call *call, const struct served_model *model, struct sy_error *err) {
    const struct signature *signature = served_model_offered(model);
    const struct tensor_view *inputs = call->inputs;
    uint32_t first = TENSORS_MAX; /* the input whose batch size the others are compared with */
    for (uint32_t i = 0; i < signature->input_count; i++) {
        bool named = call->inputs_named & tensor_bit(i), optional = signature->inputs_optional & tensor_bit(i);
        if (!named && !optional)
            return inputs_missing(call, model, err);
        if (!named) {
            call->inputs[i] = (struct tensor_view){.data = NULL};
            continue;
        }
        if (first == TENSORS_MAX)
            first = i;
        if (signature->batched && inputs[i].dims[0] != inputs[first].dims[0])
            return error_set(err, 400,
                             "input '%.64s' batch size does not match other inputs for '%.64s': %" PRId64
                             ", but '%.64s' has %" PRId64,
                             signature->inputs[i].name, model->name, inputs[i].dims[0], signature->inputs[first].name,
                             inputs[first].dims[0]);
    }
    call->items = signature->batched && first < TENSORS_MAX ? (uint32_t)inputs[first].dims[0] : 1;
    infer_call_shapes(call, model);
    if (call->output_count == 0)
        all_outputs(call, signature);
    return 0;
}

enum datatype infer_output_type(const struct served_model *model, const struct infer_output *wanted) {
    return wanted->classified ? DATATYPE_BYTES : model->signature.outputs[wanted->index].type;
}

int infer_output_slice(struct tensor_view *part, const struct served_model *model, const struct infer_call *call,
                       const struct infer_output *wanted, const struct tensor_view *outputs, uint32_t output_count,
                       uint32_t first_item, struct sy_error *err) {
    const char *name = model->signature.outputs[wanted->index].name;
    if (wanted->classified && call->classes) {
        *part =
            (struct tensor_view){.data = (char *)call->classes + wanted->classes_at, .bytes = wanted->classes_bytes};
        if (model->signature.batched)
            part->dims[part->dim_count++] = call->items;
        part->dims[part->dim_count++] = wanted->classes;
        return 0;
    }
    if (wanted->index >= output_count)
        return error_set(err, -EINVAL, "output '%s' is missing", name);
    const struct tensor_view *output = &outputs[wanted->index];
    *part = *output;
    if (model->signature.batched && first_item != ITEMS_WHOLE && tensor_rows(output, first_item, call->items, part) < 0)
        return error_set(err, -EINVAL, "output '%s' has fewer items than the batch", name);
    return 0;
}
