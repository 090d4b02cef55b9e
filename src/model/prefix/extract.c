/* extract.c - copies the needed part of a model, message by message. */
#include "model/prefix/extract.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/tensor.h"
#include "core/util/protobuf.h"
#include "model/onnx/onnx_proto.h"

#define MODEL_BYTES_MAX ((size_t)INT32_MAX)
#define NAME_BYTES_MAX  512

static void put_field(struct text *text, uint32_t number, struct onnx_bytes bytes) {
    protobuf_put_bytes(text, number, bytes.data, bytes.length);
}

static void put_number(struct text *text, uint32_t number, uint64_t value) {
    protobuf_put_tag(text, number, PROTOBUF_VARINT);
    protobuf_put_varint(text, value);
}

/* Makes a message that was written apart a field. */
static void put_message(struct text *text, uint32_t number, struct text *message) {
    protobuf_put_bytes(text, number, message->data, message->length);
    text->failed |= message->failed;
    text_free(message);
}

static bool ends_at(const struct extract_part *part, uint32_t tensor) {
    for (uint32_t i = 0; i < part->to_count; i++)
        if (part->to[i].tensor == tensor)
            return true;
    return false;
}

int extract_input_name(const struct onnx_graph *graph, const struct extract_part *part, uint32_t tensor, char *name,
                       size_t size, struct sy_error *err) {
    struct onnx_bytes own = graph->tensors[tensor].name;
    int length =
        snprintf(name, size, "%.*s%s", (int)own.length, (const char *)own.data, ends_at(part, tensor) ? ".prefix" : "");
    if (own.length >= size || length < 0 || (size_t)length >= size)
        return error_set(err, -ENAMETOOLONG, "%s: the name of a tensor is too long", graph->path);
    if ((size_t)length != own.length && onnx_tensor_find(graph, name, (size_t)length) != ONNX_NONE)
        return error_set(err, -EEXIST, "%s: there is a tensor '%s' already", graph->path, name);
    return 0;
}

/* ---- descriptions ---- */

/* Writes a ValueInfoProto: a name, and what is known of the tensor's type. */
static void value_put(struct text *text, uint32_t number, const char *name, const struct tensor_spec *spec) {
    struct text value, type, tensor, shape, dimension;
    text_init(&value, NULL, 0);
    protobuf_put_bytes(&value, VALUE_NAME, name, strlen(name));
    if (spec) {
        text_init(&type, NULL, 0);
        text_init(&tensor, NULL, 0);
        text_init(&shape, NULL, 0);
        for (uint32_t d = 0; d < spec->dim_count; d++) {
            text_init(&dimension, NULL, 0);
            if (spec->dims[d] >= 0)
                put_number(&dimension, DIM_VALUE, (uint64_t)spec->dims[d]);
            put_message(&shape, SHAPE_DIM, &dimension);
        }
        put_number(&tensor, TENSOR_TYPE_ELEM, (uint64_t)datatype_onnx(spec->type));
        put_message(&tensor, TENSOR_TYPE_SHAPE, &shape);
        put_message(&type, TYPE_TENSOR, &tensor);
        put_message(&value, VALUE_TYPE, &type);
    }
    put_message(text, number, &value);
}

/* ---- weights ---- */

/* Writes an initialiser. If its elements lie in a file of their own, they are copied into the model. */
static int weights_put(struct onnx_graph *graph, const struct onnx_tensor *tensor, struct text *text,
                       struct sy_error *err) {
    struct onnx_weights weights;
    struct text copy;
    int rc = onnx_weights_read(graph, tensor->weights, &weights, err);
    if (rc)
        return rc;
    if (weights.bytes + text->length > MODEL_BYTES_MAX) {
        rc = error_set(err, -EFBIG, "%s: a part of it would be larger than 2 GB", graph->path);
    } else if (!weights.external) {
        put_field(text, GRAPH_INITIALIZER, tensor->weights);
    } else {
        text_init(&copy, NULL, 0);
        for (uint32_t d = 0; d < weights.dim_count; d++)
            put_number(&copy, TENSOR_DIMS, (uint64_t)weights.dims[d]);
        put_number(&copy, TENSOR_DATA_TYPE, weights.type);
        put_field(&copy, TENSOR_NAME, tensor->name);
        put_field(&copy, TENSOR_RAW, (struct onnx_bytes){weights.data, weights.bytes});
        put_message(text, GRAPH_INITIALIZER, &copy);
    }
    onnx_weights_free(&weights);
    return rc;
}

/* ---- the graph ---- */

struct extracting {
    struct onnx_graph *graph;
    const struct extract_part *part;
    bool *stops, *nodes, *tensors; /* marks: tensors at which the part begins; nodes of the part; tensors of the part */
    struct text *text;             /* text of the part's GraphProto */
    struct sy_error *err;
};

static int graph_put(struct extracting *x) {
    struct onnx_graph *graph = x->graph;
    const struct extract_part *part = x->part;
    char name[NAME_BYTES_MAX];
    uint32_t goals[CUT_TENSORS_MAX > 64 ? CUT_TENSORS_MAX : 64];
    if (part->to_count > sizeof(goals) / sizeof(goals[0]))
        return error_set(x->err, -ENOTSUP, "%s: it has more than 64 outputs", graph->path);
    for (uint32_t i = 0; i < part->to_count; i++)
        goals[i] = part->to[i].tensor;
    for (uint32_t i = 0; i < part->from_count; i++)
        x->stops[part->from[i].tensor] = true;
    cut_needed(graph, goals, part->to_count, x->stops, x->nodes, x->tensors);
    protobuf_put_bytes(x->text, GRAPH_NAME, part->name, strlen(part->name));
    for (uint32_t i = 0; i < part->from_count; i++) {
        uint32_t t = part->from[i].tensor;
        int rc = extract_input_name(graph, part, t, name, sizeof(name), x->err);
        if (rc)
            return rc;
        value_put(x->text, GRAPH_INPUT, name, part->from[i].spec);
        if (ends_at(part, t)) { /* an input that is handed through: an Identity node gives it its own name */
            struct text node;
            text_init(&node, NULL, 0);
            protobuf_put_bytes(&node, NODE_INPUT, name, strlen(name));
            put_field(&node, NODE_OUTPUT, graph->tensors[t].name);
            protobuf_put_bytes(&node, NODE_OP, "Identity", strlen("Identity"));
            put_message(x->text, GRAPH_NODE, &node);
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++)
        if (x->tensors[graph->inputs[i]])
            put_field(x->text, GRAPH_INPUT, graph->tensors[graph->inputs[i]].info);
    /* Initialisers that are inputs, too: clients may replace them, or the model is so old that all of them are. */
    for (uint32_t t = 0; t < graph->tensor_count; t++)
        if (x->tensors[t] && graph->tensors[t].weights.data && graph->tensors[t].info.data &&
            (graph->tensors[t].overridable || graph->ir_version < 4))
            put_field(x->text, GRAPH_INPUT, graph->tensors[t].info);
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (x->nodes[n])
            put_field(x->text, GRAPH_NODE, graph->nodes[n].raw);
    int rc = 0;
    for (uint32_t t = 0; !rc && t < graph->tensor_count; t++)
        if (x->tensors[t] && graph->tensors[t].weights.data)
            rc = weights_put(graph, &graph->tensors[t], x->text, x->err);
    for (uint32_t i = 0; !rc && i < part->to_count; i++) {
        const struct onnx_tensor *tensor = &graph->tensors[part->to[i].tensor];
        if (part->own_outputs) {
            put_field(x->text, GRAPH_OUTPUT, tensor->info);
            continue;
        }
        if (tensor->name.length >= sizeof(name))
            return error_set(x->err, -ENAMETOOLONG, "%s: the name of a tensor is too long", graph->path);
        snprintf(name, sizeof(name), "%.*s", (int)tensor->name.length, (const char *)tensor->name.data);
        value_put(x->text, GRAPH_OUTPUT, name, part->to[i].spec);
    }
    return rc;
}

int extract_write(struct onnx_graph *graph, const struct extract_part *part, struct text *text, struct sy_error *err) {
    struct text inside;
    struct extracting x = {
        .graph = graph,
        .part = part,
        .stops = calloc(graph->tensor_count + 1, sizeof(bool)),
        .nodes = calloc(graph->node_count + 1, sizeof(bool)),
        .tensors = calloc(graph->tensor_count + 1, sizeof(bool)),
        .text = &inside,
        .err = err,
    };
    text_init(&inside, NULL, 0);
    int rc =
        x.stops && x.nodes && x.tensors ? graph_put(&x) : error_set(err, -ENOMEM, "%s: out of memory", graph->path);
    if (rc) {
        text_free(&inside);
    } else {
        put_number(text, MODEL_IR_VERSION, graph->ir_version);
        for (uint32_t i = 0; i < graph->import_count; i++)
            put_field(text, MODEL_OPSET_IMPORT, graph->imports[i]);
        for (uint32_t f = 0; f < graph->function_count; f++)
            put_field(text, MODEL_FUNCTIONS, graph->functions[f]);
        put_message(text, MODEL_GRAPH, &inside);
    }
    if (!rc && text->failed)
        rc = error_set(err, -ENOMEM, "%s: out of memory", graph->path);
    if (!rc && text->length > MODEL_BYTES_MAX)
        rc = error_set(err, -EFBIG, "%s: a part of it would be larger than 2 GB", graph->path);
    free(x.stops);
    free(x.nodes);
    free(x.tensors);
    return rc;
}
