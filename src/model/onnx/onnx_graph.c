/* onnx_graph.c - reads a model's file in two passes: counts its tensors and nodes, then reads them. */
#include "model/onnx/onnx_graph.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/files.h"
#include "core/util/array.h"
#include "core/util/protobuf.h"
#include "model/engine/fingerprint.h"
#include "model/onnx/onnx_proto.h"

#define DEPTH_MAX      16      /* levels of subgraphs in subgraphs */
#define NODES_MAX      1000000 /* nodes of a graph; the largest public ones have some 100,000 */
#define TENSORS_IN_MAX 4000000
#define SHOWN(bytes)   (int)((bytes).length > 100 ? 100 : (bytes).length), (const char *)(bytes).data

/* The state of a reading: the graph, and the room of its arrays. */
struct reading {
    struct onnx_graph *graph;
    struct sy_error *err;
};

static int broken(const struct reading *r, const char *what) {
    return error_set(r->err, -EINVAL, "%s: not an ONNX model: %s", r->graph->path, what);
}

static struct onnx_bytes field_bytes(const struct protobuf_field *field) {
    return (struct onnx_bytes){field->data, field->value};
}

/* ---- tensors by name ---- */

static uint32_t *name_slot(const struct onnx_graph *graph, const void *name, size_t length) {
    struct fingerprint hash = fingerprint_bytes(name, length);
    uint32_t at = (uint32_t)hash.words[0] & (graph->name_slots - 1);
    for (;; at = (at + 1) & (graph->name_slots - 1)) {
        uint32_t t = graph->names[at];
        if (t == ONNX_NONE || (graph->tensors[t].name.length == length &&
                               (!length || memcmp(graph->tensors[t].name.data, name, length) == 0)))
            return &graph->names[at];
    }
}

uint32_t onnx_tensor_find(const struct onnx_graph *graph, const void *name, size_t length) {
    return *name_slot(graph, name, length);
}

/* Finds the tensor of this name, or makes it; *made says which. There is room for all tensors that were counted. */
static struct onnx_tensor *tensor_named(struct onnx_graph *graph, struct onnx_bytes name, bool *made) {
    uint32_t *slot = name_slot(graph, name.data, name.length);
    *made = *slot == ONNX_NONE;
    if (*made) {
        *slot = graph->tensor_count++;
        graph->tensors[*slot] = (struct onnx_tensor){.name = name, .node = ONNX_NONE, .input = ONNX_NONE};
    }
    return &graph->tensors[*slot];
}

/* ---- nodes ---- */

static bool uses_push(struct reading *r, uint32_t tensor) {
    struct onnx_graph *graph = r->graph;
    uint32_t *uses =
        graph->use_count < 64u * TENSORS_IN_MAX ? array_room(graph->uses, graph->use_count, sizeof(*uses)) : NULL;
    if (!uses)
        return false;
    graph->uses = uses;
    graph->uses[graph->use_count++] = tensor;
    return true;
}

/* Notes that a subgraph takes a tensor of this name, if the graph around it has such a tensor. Names inside a subgraph
 * differ from those around it, as ONNX demands; if they do not, a tensor merely counts as used where it is not. */
static int capture(struct reading *r, struct onnx_bytes name, struct onnx_node *node) {
    uint32_t t = name.length ? onnx_tensor_find(r->graph, name.data, name.length) : ONNX_NONE;
    if (t == ONNX_NONE)
        return 0;
    node->captured_count++;
    return uses_push(r, t) ? 0 : error_set(r->err, -ENOMEM, "%s: out of memory", r->graph->path);
}

static int subgraph_read(struct reading *r, const struct protobuf_field *graph, struct onnx_node *node, uint32_t depth);

/* Reads the subgraphs among a node's attributes. */
static int attribute_read(struct reading *r, const struct protobuf_field *attribute, struct onnx_node *node,
                          uint32_t depth) {
    struct protobuf_in in = protobuf_inside(attribute);
    struct protobuf_field field;
    int more, rc = 0;
    while (!rc && (more = protobuf_next(&in, &field)) > 0)
        if (field.wire == PROTOBUF_BYTES && (field.number == ATTRIBUTE_GRAPH || field.number == ATTRIBUTE_GRAPHS))
            rc = subgraph_read(r, &field, node, depth);
    return rc ? rc : more < 0 ? broken(r, "an attribute is cut off") : 0;
}

static int inner_node_read(struct reading *r, const struct protobuf_field *inner, struct onnx_node *node,
                           uint32_t depth) {
    struct protobuf_in in = protobuf_inside(inner);
    struct protobuf_field field;
    int more, rc = 0;
    while (!rc && (more = protobuf_next(&in, &field)) > 0)
        if (field.wire == PROTOBUF_BYTES && field.number == NODE_INPUT)
            rc = capture(r, field_bytes(&field), node);
        else if (field.wire == PROTOBUF_BYTES && field.number == NODE_ATTRIBUTE)
            rc = attribute_read(r, &field, node, depth);
    return rc ? rc : more < 0 ? broken(r, "a node of a subgraph is cut off") : 0;
}

/* Notes what a subgraph takes from around it: inputs of its nodes, and outputs that it hands through. */
static int subgraph_read(struct reading *r, const struct protobuf_field *graph, struct onnx_node *node,
                         uint32_t depth) {
    struct protobuf_in in = protobuf_inside(graph), value;
    struct protobuf_field field, inner;
    int more, rc = 0;
    if (depth == DEPTH_MAX)
        return broken(r, "subgraphs are nested too deeply");
    node->subgraphs = true;
    while (!rc && (more = protobuf_next(&in, &field)) > 0) {
        if (field.wire == PROTOBUF_BYTES && field.number == GRAPH_NODE)
            rc = inner_node_read(r, &field, node, depth + 1);
        if (field.wire == PROTOBUF_BYTES && field.number == GRAPH_OUTPUT)
            for (value = protobuf_inside(&field); !rc && protobuf_next(&value, &inner) > 0;)
                if (inner.wire == PROTOBUF_BYTES && inner.number == VALUE_NAME)
                    rc = capture(r, field_bytes(&inner), node);
    }
    return rc ? rc : more < 0 ? broken(r, "a subgraph is cut off") : 0;
}

static int node_input(struct reading *r, struct onnx_bytes name, struct onnx_node *node) {
    uint32_t t = name.length ? onnx_tensor_find(r->graph, name.data, name.length) : ONNX_NONE;
    if (name.length && t == ONNX_NONE)
        return error_set(r->err, -EINVAL, "%s: node %u takes '%.*s', which nothing before it gives", r->graph->path,
                         r->graph->node_count, SHOWN(name));
    node->input_count++;
    return uses_push(r, t) ? 0 : error_set(r->err, -ENOMEM, "%s: out of memory", r->graph->path);
}

static int node_output(struct reading *r, struct onnx_bytes name, struct onnx_node *node) {
    struct onnx_graph *graph = r->graph;
    bool made = true;
    uint32_t t = ONNX_NONE;
    if (name.length) {
        struct onnx_tensor *tensor = tensor_named(graph, name, &made);
        tensor->node = graph->node_count;
        t = (uint32_t)(tensor - graph->tensors);
    }
    if (!made)
        return error_set(r->err, -EINVAL, "%s: node %u gives '%.*s', which is there already", graph->path,
                         graph->node_count, SHOWN(name));
    graph->gives[graph->give_count++] = t;
    node->output_count++;
    return 0;
}

/* Reads a node, whose fields may come in any order, in three passes: inputs; attributes, as tensors that subgraphs take
 * follow the inputs; outputs, as no output of the node may be one of its inputs. */
static int node_read(struct reading *r, const struct protobuf_field *whole) {
    struct onnx_graph *graph = r->graph;
    struct onnx_node node = {
        .raw = field_bytes(whole), .uses_at = graph->use_count, .gives_at = graph->give_count, .op = {NULL, 0}};
    struct protobuf_field field;
    int rc = 0, more = 0;
    for (uint32_t pass = 0; !rc && pass < 3; pass++) {
        struct protobuf_in in = protobuf_inside(whole);
        while (!rc && (more = protobuf_next(&in, &field)) > 0) {
            if (field.wire != PROTOBUF_BYTES)
                continue;
            if (pass == 0 && field.number == NODE_INPUT)
                rc = node_input(r, field_bytes(&field), &node);
            else if (pass == 1 && field.number == NODE_ATTRIBUTE)
                rc = attribute_read(r, &field, &node, 0);
            else if (pass == 2 && field.number == NODE_OUTPUT)
                rc = node_output(r, field_bytes(&field), &node);
            else if (field.number == NODE_OP)
                node.op = field_bytes(&field);
            else if (field.number == NODE_DOMAIN)
                node.domain = field_bytes(&field);
            else if (field.number == NODE_OVERLOAD)
                node.overload = field_bytes(&field);
        }
        if (!rc && more < 0)
            rc = broken(r, "a node is cut off");
    }
    if (!rc && !node.op.length)
        rc = broken(r, "a node has no operator");
    if (!rc)
        graph->nodes[graph->node_count++] = node;
    return rc;
}

/* ---- inputs, outputs, weights ---- */

static int name_read(struct reading *r, const struct protobuf_field *message, uint32_t number,
                     struct onnx_bytes *name) {
    struct protobuf_in in = protobuf_inside(message);
    struct protobuf_field field;
    int more;
    *name = (struct onnx_bytes){NULL, 0};
    while ((more = protobuf_next(&in, &field)) > 0)
        if (field.wire == PROTOBUF_BYTES && field.number == number)
            *name = field_bytes(&field);
    if (more < 0)
        return broken(r, "a tensor's description is cut off");
    return name->length ? 0 : broken(r, "a tensor has no name");
}

static int initialiser_read(struct reading *r, const struct protobuf_field *field) {
    struct onnx_bytes name;
    bool made;
    int rc = name_read(r, field, TENSOR_NAME, &name);
    if (rc)
        return rc;
    struct onnx_tensor *tensor = tensor_named(r->graph, name, &made);
    if (!made)
        return error_set(r->err, -EINVAL, "%s: there are two initialisers '%.*s'", r->graph->path, SHOWN(name));
    tensor->weights = field_bytes(field);
    return 0;
}

/* Reads an input of the graph; the initialisers have been read. */
static int input_read(struct reading *r, const struct protobuf_field *field) {
    struct onnx_graph *graph = r->graph;
    struct onnx_bytes name;
    bool made;
    int rc = name_read(r, field, VALUE_NAME, &name);
    if (rc)
        return rc;
    struct onnx_tensor *tensor = tensor_named(graph, name, &made);
    if (!made && (!tensor->weights.data || tensor->info.data))
        return error_set(r->err, -EINVAL, "%s: there are two inputs '%.*s'", graph->path, SHOWN(name));
    tensor->info = field_bytes(field);
    tensor->overridable = !made && graph->ir_version >= 4; /* before, all initialisers had to be inputs, too */
    if (made) {
        tensor->input = graph->input_count;
        graph->inputs[graph->input_count++] = (uint32_t)(tensor - graph->tensors);
    }
    return 0;
}

/* Reads an output of the graph; the nodes have been read. */
static int output_read(struct reading *r, const struct protobuf_field *field) {
    struct onnx_graph *graph = r->graph;
    struct onnx_bytes name;
    int rc = name_read(r, field, VALUE_NAME, &name);
    if (rc)
        return rc;
    uint32_t t = onnx_tensor_find(graph, name.data, name.length);
    if (t == ONNX_NONE)
        return error_set(r->err, -EINVAL, "%s: nothing gives the output '%.*s'", graph->path, SHOWN(name));
    if (graph->tensors[t].output)
        return error_set(r->err, -EINVAL, "%s: there are two outputs '%.*s'", graph->path, SHOWN(name));
    graph->tensors[t].output = true;
    if (!graph->tensors[t].info.data)
        graph->tensors[t].info = field_bytes(field);
    graph->outputs[graph->output_count++] = t;
    return 0;
}

/* ---- the whole ---- */

struct counts {
    uint32_t nodes, outputs_of_nodes, inputs, outputs, initialisers;
};

static int graph_count(struct reading *r, struct onnx_bytes graph, struct counts *counts) {
    struct protobuf_in in = {graph.data, graph.data + graph.length};
    struct protobuf_field field, inner;
    int more, more_of_node = 0;
    while ((more = protobuf_next(&in, &field)) > 0) {
        if (field.number == GRAPH_SPARSE_INITIALIZER)
            return error_set(r->err, -ENOTSUP, "%s: it has sparse weights", r->graph->path);
        if (field.wire != PROTOBUF_BYTES)
            continue;
        counts->nodes += field.number == GRAPH_NODE;
        counts->inputs += field.number == GRAPH_INPUT;
        counts->outputs += field.number == GRAPH_OUTPUT;
        counts->initialisers += field.number == GRAPH_INITIALIZER;
        if (field.number == GRAPH_NODE)
            for (struct protobuf_in node = protobuf_inside(&field); (more_of_node = protobuf_next(&node, &inner)) > 0;)
                counts->outputs_of_nodes += inner.number == NODE_OUTPUT;
        if (counts->nodes > NODES_MAX || counts->inputs + counts->outputs + counts->initialisers > TENSORS_IN_MAX ||
            counts->outputs_of_nodes > TENSORS_IN_MAX)
            return broken(r, "it is too large");
        if (more_of_node < 0)
            return broken(r, "a node is cut off");
    }
    return more < 0 ? broken(r, "the graph is cut off") : 0;
}

/* One pass over the graph for each kind of field, in the order in which they need each other. */
static int graph_read(struct reading *r, struct onnx_bytes graph) {
    static const struct {
        uint32_t number;
        int (*read)(struct reading *r, const struct protobuf_field *field);
    } passes[] = {{GRAPH_INITIALIZER, initialiser_read},
                  {GRAPH_INPUT, input_read},
                  {GRAPH_NODE, node_read},
                  {GRAPH_OUTPUT, output_read}};
    struct onnx_graph *g = r->graph;
    struct counts counts = {0};
    int rc = graph_count(r, graph, &counts);
    if (rc)
        return rc;
    uint32_t tensors = counts.outputs_of_nodes + counts.inputs + counts.initialisers;
    for (g->name_slots = 16; g->name_slots < 2 * tensors;)
        g->name_slots *= 2;
    g->nodes = calloc(counts.nodes + 1, sizeof(*g->nodes));
    g->gives = calloc(counts.outputs_of_nodes + 1, sizeof(*g->gives));
    g->inputs = calloc(counts.inputs + 1, sizeof(*g->inputs));
    g->outputs = calloc(counts.outputs + 1, sizeof(*g->outputs));
    g->tensors = calloc(tensors + 1, sizeof(*g->tensors));
    g->names = malloc(g->name_slots * sizeof(*g->names));
    if (!g->nodes || !g->gives || !g->inputs || !g->outputs || !g->tensors || !g->names)
        return error_set(r->err, -ENOMEM, "%s: out of memory", g->path);
    memset(g->names, 0xff, g->name_slots * sizeof(*g->names)); /* ONNX_NONE */
    for (size_t p = 0; !rc && p < sizeof(passes) / sizeof(passes[0]); p++) {
        struct protobuf_in in = {graph.data, graph.data + graph.length};
        struct protobuf_field field;
        while (!rc && protobuf_next(&in, &field) > 0)
            if (field.wire == PROTOBUF_BYTES && field.number == passes[p].number)
                rc = passes[p].read(r, &field);
    }
    if (!rc && !g->output_count)
        rc = broken(r, "its graph has no output");
    return rc;
}

/* Adds to one of the two short lists, imports or functions. */
static int list_push(struct reading *r, struct onnx_bytes **list, uint32_t *count, struct onnx_bytes bytes) {
    struct onnx_bytes *longer = realloc(*list, (*count + 1) * sizeof(**list));
    if (!longer)
        return error_set(r->err, -ENOMEM, "%s: out of memory", r->graph->path);
    *list = longer;
    longer[(*count)++] = bytes;
    return 0;
}

static int model_read(struct reading *r) {
    struct onnx_graph *g = r->graph;
    struct protobuf_in in = {g->data, g->data + g->bytes};
    struct protobuf_field field;
    struct onnx_bytes graph = {NULL, 0};
    int more, rc = 0;
    while (!rc && (more = protobuf_next(&in, &field)) > 0) {
        if (field.number == MODEL_IR_VERSION && field.wire == PROTOBUF_VARINT)
            g->ir_version = field.value;
        else if (field.number == MODEL_OPSET_IMPORT && field.wire == PROTOBUF_BYTES)
            rc = list_push(r, &g->imports, &g->import_count, field_bytes(&field));
        else if (field.number == MODEL_FUNCTIONS && field.wire == PROTOBUF_BYTES)
            rc = list_push(r, &g->functions, &g->function_count, field_bytes(&field));
        else if (field.number == MODEL_GRAPH && field.wire == PROTOBUF_BYTES)
            graph = field_bytes(&field);
    }
    if (rc)
        return rc;
    if (more < 0)
        return broken(r, "it is cut off, or something else");
    return graph.data ? graph_read(r, graph) : broken(r, "it has no graph");
}

int onnx_graph_parse(const char *path, const void *data, size_t bytes, struct onnx_graph *graph, struct sy_error *err) {
    *graph = (struct onnx_graph){.path = strdup(path), .data = data, .bytes = bytes};
    struct reading reading = {.graph = graph, .err = err};
    int rc = graph->path ? model_read(&reading) : error_set(err, -ENOMEM, "%s: out of memory", path);
    if (rc)
        onnx_graph_free(graph);
    return rc;
}

int onnx_graph_read(const char *path, struct onnx_graph *graph, struct sy_error *err) {
    struct stat st;
    int rc, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    void *data = NULL;
    ssize_t got;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size == 0)
        rc = error_set(err, -EINVAL, "%s: not an ONNX model: it is empty, or no file", path);
    else if (!(data = malloc((size_t)st.st_size)))
        rc = error_set(err, -ENOMEM, "%s: out of memory", path);
    else if ((got = files_read(fd, data, (size_t)st.st_size)) < 0)
        rc = error_set(err, (int)got, "%s: %s", path, strerror((int)-got));
    else
        rc = onnx_graph_parse(path, data, (size_t)got, graph, err);
    if (rc)
        free(data);
    else
        graph->own = data;
    close(fd);
    return rc;
}

void onnx_graph_free(struct onnx_graph *graph) {
    for (uint32_t f = 0; f < graph->file_count; f++)
        free((void *)graph->files[f].data);
    free(graph->own);
    free(graph->files);
    free(graph->imports);
    free(graph->functions);
    free(graph->nodes);
    free(graph->tensors);
    free(graph->uses);
    free(graph->gives);
    free(graph->inputs);
    free(graph->outputs);
    free(graph->names);
    free(graph->path);
    *graph = (struct onnx_graph){0};
}
