/* onnx_build.h - small ONNX models for tests, written by hand as protobuf. */
#pragma once

#include <string.h>

#include "core/util/protobuf.h"
#include "core/util/text.h"
#include "model/onnx/onnx_proto.h"

/* A node: its operator, and its inputs and outputs, each a list of words. */
struct build_node {
    const char *op, *inputs, *outputs;
};

static inline void build_words(struct text *text, uint32_t number, const char *words) {
    for (const char *at = words; *at;) {
        size_t length = strcspn(at, " ");
        protobuf_put_bytes(text, number, at, length);
        at += length + (at[length] == ' ');
    }
}

static inline void build_message(struct text *text, uint32_t number, struct text *message) {
    protobuf_put_bytes(text, number, message->data, message->length);
    text_free(message);
}

static inline void build_number(struct text *text, uint32_t number, uint64_t value) {
    protobuf_put_tag(text, number, PROTOBUF_VARINT);
    protobuf_put_varint(text, value);
}

static inline void build_node(struct text *graph, const struct build_node *node) {
    struct text t;
    text_init(&t, NULL, 0);
    build_words(&t, NODE_INPUT, node->inputs);
    build_words(&t, NODE_OUTPUT, node->outputs);
    build_words(&t, NODE_OP, node->op);
    build_message(graph, GRAPH_NODE, &t);
}

/* Inputs or outputs, without types. */
static inline void build_values(struct text *graph, uint32_t number, const char *names) {
    for (const char *at = names; *at;) {
        struct text t;
        size_t length = strcspn(at, " ");
        text_init(&t, NULL, 0);
        protobuf_put_bytes(&t, VALUE_NAME, at, length);
        build_message(graph, number, &t);
        at += length + (at[length] == ' ');
    }
}

/* An initialiser of type INT64 with one element. */
static inline void build_weight(struct text *graph, const char *name, uint64_t value, bool raw) {
    struct text t;
    text_init(&t, NULL, 0);
    build_number(&t, TENSOR_DIMS, 1);
    build_number(&t, TENSOR_DATA_TYPE, 7);
    protobuf_put_bytes(&t, TENSOR_NAME, name, strlen(name));
    if (raw)
        protobuf_put_bytes(&t, TENSOR_RAW, &value, sizeof(value));
    else
        build_number(&t, TENSOR_INT64S, value);
    build_message(graph, GRAPH_INITIALIZER, &t);
}

/* The model around a graph, which is freed: opset 17, IR version 9. */
static inline void build_model(struct text *model, struct text *graph) {
    struct text import;
    text_init(&import, NULL, 0);
    build_number(&import, OPSET_VERSION, 17);
    text_init(model, NULL, 0);
    build_number(model, MODEL_IR_VERSION, 9);
    build_message(model, MODEL_OPSET_IMPORT, &import);
    build_message(model, MODEL_GRAPH, graph);
}

/* Nodes end with one that has no operator. */
static inline void build_chain(struct text *model, const char *inputs, const struct build_node *nodes,
                               const char *outputs) {
    struct text graph;
    text_init(&graph, NULL, 0);
    build_values(&graph, GRAPH_INPUT, inputs);
    for (; nodes->op; nodes++)
        build_node(&graph, nodes);
    build_values(&graph, GRAPH_OUTPUT, outputs);
    build_model(model, &graph);
}
