/* graph_fingerprint.c - the fingerprint of a graph without its weights. */
#include "model/onnx/graph_fingerprint.h"

#include <errno.h>
#include <stdlib.h>

#include "core/util/protobuf.h"
#include "model/onnx/onnx_graph.h"
#include "model/onnx/onnx_proto.h"

/* Operators that take values of numbers for sizes or for what runs; operators of other domains may. */
static const char *const sizing[] = {"Range", "Resize", "Upsample", "OneHot", "NonMaxSuppression", NULL};

static bool only_computes(const struct onnx_node *node) {
    bool own = node->domain.length == 0 || onnx_bytes_are(node->domain, "ai.onnx");
    for (int i = 0; sizing[i] && own; i++)
        own = !onnx_bytes_are(node->op, sizing[i]);
    return own;
}

/* Marks the initialisers whose elements do not count. */
static void weights_mark(const struct onnx_graph *g, bool *weights) {
    for (uint32_t t = 0; t < g->tensor_count; t++)
        weights[t] = g->tensors[t].weights.data && !g->tensors[t].overridable && !g->tensors[t].output;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const struct onnx_node *node = &g->nodes[n];
        bool computes = only_computes(node);
        for (uint32_t i = 0; i < node->input_count + node->captured_count; i++) {
            uint32_t t = g->uses[node->uses_at + i];
            if (t != ONNX_NONE && (!computes || i >= node->input_count))
                weights[t] = false;
        }
    }
}

/* What counts of a fingerprint, piece by piece. */
struct pieces {
    struct fingerprint *list;
    uint32_t count;
};

static void add(struct pieces *p, struct onnx_bytes bytes) {
    p->list[p->count++] = fingerprint_bytes(bytes.data, bytes.length);
}

/* Numbers of TensorProto.DataType. */
enum { FLOAT32 = 1, UNSIGNED8 = 2, SIGNED8 = 3, FLOAT16 = 10, FLOAT64 = 11, BFLOAT16 = 16 };

/* Adds an initialiser: name, type and shape, and unless it is a weight its elements. -ENOTSUP: these lie in a file of
 * their own. */
static int initialiser_add(struct pieces *p, const struct onnx_tensor *tensor, bool weight) {
    struct protobuf_in in = {tensor->weights.data, tensor->weights.data + tensor->weights.length};
    struct protobuf_field field;
    uint64_t type = 0, values[2 + ONNX_RANK_MAX], count = 0;
    bool external = false, packed = false;
    while (protobuf_next(&in, &field) > 0) { /* that it is whole was seen when the graph was read */
        external |= field.number == TENSOR_LOCATION && field.value == LOCATION_EXTERNAL;
        if (field.number == TENSOR_DATA_TYPE)
            type = field.value;
        packed |= field.number == TENSOR_DIMS && field.wire == PROTOBUF_BYTES;
        if (field.number == TENSOR_DIMS && field.wire == PROTOBUF_VARINT && count < ONNX_RANK_MAX)
            values[count++] = field.value;
    }
    weight &= !packed && (type == FLOAT32 || type == FLOAT16 || type == BFLOAT16 || type == FLOAT64 ||
                          type == SIGNED8 || type == UNSIGNED8);
    add(p, tensor->name);
    if (!weight) {
        add(p, tensor->weights);
        return external ? -ENOTSUP : 0;
    }
    values[count++] = type;
    p->list[p->count++] = fingerprint_bytes(values, count * sizeof(*values));
    return 0;
}

int graph_fingerprint(const char *path, struct fingerprint *fingerprint, struct sy_error *err) {
    struct onnx_graph g;
    int rc = onnx_graph_read(path, &g, err);
    if (rc)
        return rc;
    size_t most = 1 + g.import_count + g.function_count + g.node_count + 3 * (size_t)g.tensor_count + g.output_count;
    struct pieces pieces = {.list = calloc(most, sizeof(*pieces.list))};
    bool *weights = calloc(g.tensor_count + 1, sizeof(*weights));
    if (!pieces.list || !weights)
        rc = error_set(err, -ENOMEM, "%s: out of memory", path);
    else
        weights_mark(&g, weights);
    for (uint32_t i = 0; i < g.import_count && !rc; i++)
        add(&pieces, g.imports[i]);
    for (uint32_t i = 0; i < g.function_count && !rc; i++)
        add(&pieces, g.functions[i]);
    for (uint32_t i = 0; i < g.node_count && !rc; i++)
        add(&pieces, g.nodes[i].raw);
    for (uint32_t i = 0; i < g.tensor_count && !rc; i++) {
        if (g.tensors[i].info.data)
            add(&pieces, g.tensors[i].info);
        if (g.tensors[i].weights.data && initialiser_add(&pieces, &g.tensors[i], weights[i]))
            rc = error_set(err, -ENOTSUP, "%s: a shape or an index lies in a file of its own", path);
    }
    for (uint32_t i = 0; i < g.output_count && !rc; i++)
        add(&pieces, g.tensors[g.outputs[i]].name);
    if (!rc) {
        pieces.list[pieces.count++] = (struct fingerprint){{g.ir_version, g.node_count}};
        *fingerprint = fingerprint_bytes(pieces.list, pieces.count * sizeof(*pieces.list));
    }
    free(weights);
    free(pieces.list);
    onnx_graph_free(&g);
    return rc;
}
