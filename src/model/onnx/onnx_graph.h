/* onnx_graph.h - the graph of an ONNX model, read from its file: nodes, the tensors between them, and their weights,
 * all of which stay where they lie in the file's contents.
 *
 * The file is a protobuf message ModelProto (onnx/onnx.proto of the ONNX project, IR versions 3 to 13). A graph that
 * was read is consistent: every tensor that a node takes was given before it, and nobody gives a tensor twice. Tensors
 * and nodes are known by their numbers. Set-up only, one thread; afterwards constant, and any thread reads it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"

#define ONNX_NONE     UINT32_MAX /* no node, no tensor, no input */
#define ONNX_RANK_MAX 32         /* dimensions of weights */

/* Bytes of the file. */
struct onnx_bytes {
    const uint8_t *data;
    size_t length;
};

struct onnx_tensor {
    struct onnx_bytes name;
    struct onnx_bytes info;    /* ValueInfoProto of a graph's input or output; no data: there is none */
    struct onnx_bytes weights; /* TensorProto of an initialiser; no data: it is none */
    uint32_t node;             /* that gives it; ONNX_NONE: it is an input or an initialiser */
    uint32_t input;            /* its number among the inputs that clients give; ONNX_NONE: it is none */
    bool output;               /* of the graph */
    bool overridable;          /* an initialiser that clients may replace by an input of their own */
};

struct onnx_node {
    struct onnx_bytes raw; /* NodeProto */
    struct onnx_bytes op, domain, overload;
    uint32_t uses_at, input_count; /* its inputs, uses[uses_at...]; ONNX_NONE: one that is left out */
    uint32_t captured_count;       /* behind them: tensors that its subgraphs take from around them */
    uint32_t gives_at, output_count;
    bool subgraphs; /* If, Loop, Scan */
};

/* A file that holds weights, read whole. */
struct onnx_file {
    struct onnx_bytes name; /* as the model calls it */
    const uint8_t *data;
    size_t bytes;
};

struct onnx_graph {
    char *path;
    const uint8_t *data; /* the model's file */
    size_t bytes;
    void *own; /* the same, freed with the graph; NULL: it is the caller's */
    uint64_t ir_version;
    struct onnx_bytes *imports;   /* OperatorSetIdProto */
    struct onnx_bytes *functions; /* FunctionProto */
    struct onnx_node *nodes;
    struct onnx_tensor *tensors;
    uint32_t *uses, *gives;     /* tensors of the nodes */
    uint32_t *inputs, *outputs; /* tensors of the graph; `inputs` are those that clients must give */
    struct onnx_file *files;    /* of weights, as they are asked for */
    uint32_t import_count, function_count, node_count, tensor_count, use_count, give_count, input_count, output_count,
        file_count;
    uint32_t *names; /* hash table of tensors by name */
    uint32_t name_slots;
};

/* Reads a model's file. -errno with a sentence that begins with the path; -ENOMEM; -EINVAL for what is no ONNX model or
 * contradicts itself; -ENOTSUP for what is not read (sparse weights). Free it with onnx_graph_free() after success. */
int onnx_graph_read(const char *path, struct onnx_graph *graph, struct sy_error *err);
/* The same from memory, which must outlive the graph. Files of weights are looked for beside `path`. */
int onnx_graph_parse(const char *path, const void *data, size_t bytes, struct onnx_graph *graph, struct sy_error *err);
void onnx_graph_free(struct onnx_graph *graph);

/* The tensor of a name, or ONNX_NONE. */
uint32_t onnx_tensor_find(const struct onnx_graph *graph, const void *name, size_t length);

static inline bool onnx_bytes_are(struct onnx_bytes bytes, const char *text) {
    size_t length = __builtin_strlen(text);
    return bytes.length == length && (length == 0 || __builtin_memcmp(bytes.data, text, length) == 0);
}

/* What a TensorProto holds, whichever field or file it is in. */
struct onnx_weights {
    uint64_t type; /* TensorProto.DataType */
    uint32_t rank;
    int64_t dims[ONNX_RANK_MAX];
    const uint8_t *data; /* elements in order, little-endian; strings each led by its length, 8 bytes */
    uint64_t bytes;
    bool external; /* they lie in a file of their own */
    void *owned;   /* memory that `data` points into; NULL: it is the file's */
};

/* Reads it; reads the file it names if that is not read yet. -EINVAL, -ENOTSUP or another errno with a sentence, e.g.
 * if the file is outside the model's folder. Free it with onnx_weights_free() after success. */
int onnx_weights_read(struct onnx_graph *graph, struct onnx_bytes tensor, struct onnx_weights *weights,
                      struct sy_error *err);
void onnx_weights_free(struct onnx_weights *weights);
