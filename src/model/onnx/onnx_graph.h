/* onnx_graph.h - the graph of an ONNX model, read from its file: nodes, the tensors between them, and their weights.
 * All names and contents stay where they lie in the file's bytes.
 *
 * The file is a protobuf message ModelProto (onnx/onnx.proto of the ONNX project, IR versions 3 to 13). A graph that
 * was read is consistent: every tensor that a node takes was given before that node, and no tensor is given twice.
 * Tensors and nodes are known by their numbers. Set-up only, one thread; afterwards the graph is constant, and any
 * thread reads it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"

#define ONNX_NONE     UINT32_MAX /* no node, no tensor, no input */
#define ONNX_RANK_MAX 32         /* dimensions of weights */

/* A piece of the file's bytes. */
struct onnx_bytes {
    const uint8_t *data;
    size_t length;
};

struct onnx_tensor {
    struct onnx_bytes name;
    struct onnx_bytes info;    /* ValueInfoProto of an input or output of the graph; no data: there is none */
    struct onnx_bytes weights; /* TensorProto of an initialiser; no data: the tensor is none */
    uint32_t node;             /* node that gives the tensor; ONNX_NONE: the tensor is an input or an initialiser */
    uint32_t input;            /* number among the inputs that clients give; ONNX_NONE: the tensor is no such input */
    bool output;               /* whether the tensor is an output of the graph */
    bool overridable;          /* whether the tensor is an initialiser that clients may replace by an input */
};

struct onnx_node {
    struct onnx_bytes raw; /* NodeProto */
    struct onnx_bytes op, domain, overload;
    uint32_t uses_at, input_count; /* inputs, from graph.uses[uses_at] on; ONNX_NONE there: an input is left out */
    uint32_t captured_count; /* number of tensors, behind the inputs, that the node's subgraphs take from outside */
    uint32_t gives_at, output_count;
    bool subgraphs; /* whether the node has subgraphs: If, Loop, Scan */
};

/* A file that holds weights, read whole. */
struct onnx_file {
    struct onnx_bytes name; /* name of the file in the model */
    const uint8_t *data;
    size_t bytes;
};

struct onnx_graph {
    char *path;
    const uint8_t *data; /* contents of the model's file */
    size_t bytes;
    void *own; /* contents of the file that are freed with the graph; NULL: they are the caller's */
    uint64_t ir_version;
    struct onnx_bytes *imports;   /* [import_count] OperatorSetIdProto */
    struct onnx_bytes *functions; /* [function_count] FunctionProto */
    struct onnx_node *nodes;
    struct onnx_tensor *tensors;
    uint32_t *uses, *gives;     /* tensors that nodes take, and tensors that nodes give: numbers, node by node */
    uint32_t *inputs, *outputs; /* inputs that clients must give, and outputs, of the graph: numbers of tensors */
    struct onnx_file *files;    /* files of weights that were read so far */
    uint32_t import_count, function_count, node_count, tensor_count, use_count, give_count, input_count, output_count,
        file_count;
    uint32_t *names; /* hash table of the tensors' numbers by name */
    uint32_t name_slots;
};

/* Reads a model's file. onnx_graph_free() frees the graph after success. -errno with a sentence that begins with the
 * path; -ENOMEM; -EINVAL: the file is no ONNX model, or contradicts itself; -ENOTSUP: the file has something that is
 * not read here (sparse weights). */
int onnx_graph_read(const char *path, struct onnx_graph *graph, struct sy_error *err);
/* As onnx_graph_read(), from memory, which must outlive the graph. Files of weights are looked for beside `path`. */
int onnx_graph_parse(const char *path, const void *data, size_t bytes, struct onnx_graph *graph, struct sy_error *err);
void onnx_graph_free(struct onnx_graph *graph);

/* The number of the tensor with this name; ONNX_NONE: there is none. */
uint32_t onnx_tensor_find(const struct onnx_graph *graph, const void *name, size_t length);

static inline bool onnx_bytes_are(struct onnx_bytes bytes, const char *text) {
    size_t length = __builtin_strlen(text);
    return bytes.length == length && (length == 0 || __builtin_memcmp(bytes.data, text, length) == 0);
}

/* The elements of a TensorProto, whichever field or file they are in. */
struct onnx_weights {
    uint64_t type; /* TensorProto.DataType */
    uint32_t dim_count;
    int64_t dims[ONNX_RANK_MAX];
    const uint8_t *data; /* elements in order, little-endian; each string is led by its length, 8 bytes */
    uint64_t bytes;
    bool external; /* whether the elements lie in a file of their own */
    void *owned;   /* memory that `data` points into; NULL: `data` points into a file's contents */
};

/* Reads a TensorProto, and the file that it names if that file is not read yet. onnx_weights_free() frees the weights
 * after success. -EINVAL, -ENOTSUP or another errno with a sentence, e.g. if the file is outside the model's folder. */
int onnx_weights_read(struct onnx_graph *graph, struct onnx_bytes tensor, struct onnx_weights *weights,
                      struct sy_error *err);
void onnx_weights_free(struct onnx_weights *weights);
