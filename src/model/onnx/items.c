/* items.c - walks a graph in the order of its nodes, in which each tensor is given before a node takes it. */
#include "model/onnx/items.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "core/util/protobuf.h"
#include "core/util/rng.h"
#include "model/onnx/items_flow.h"
#include "model/onnx/onnx_proto.h"

enum items_verdict walk_joined(struct walk *w, const char *what) {
    w->what = what;
    return ITEMS_JOINED;
}

enum items_verdict walk_unknown(struct walk *w, const char *what) {
    w->what = what;
    return ITEMS_UNKNOWN;
}

/* ---- numbers ---- */

struct extent extent_new(struct walk *w, uint32_t items) {
    w->codes += RNG_STEP;
    /* sums of such numbers do not coincide by chance */
    return (struct extent){.times = 1, .unknown = rng_mix(w->codes), .items = items};
}

struct extent extent_product(struct walk *w, struct extent a, struct extent b) {
    struct extent product = {.unknown = a.unknown + b.unknown, .items = a.items + b.items};
    if (extent_is(a, 0) || extent_is(b, 0))
        return extent_of(0);
    if (product.items >= EXTENT_OTHERWISE || __builtin_mul_overflow(a.times, b.times, &product.times))
        return extent_new(w, a.items || b.items ? EXTENT_OTHERWISE : 0);
    return product;
}

struct extent extent_quotient(struct walk *w, struct extent a, struct extent b) {
    bool items_known = a.items < EXTENT_OTHERWISE && b.items <= a.items;
    bool exact = b.times > 0 && a.times % b.times == 0 && items_known;
    if (exact && (extent_is_number(b) || b.unknown == a.unknown || b.unknown == 0 || b.items == 0)) {
        struct extent quotient = {
            .times = a.times / b.times, .unknown = a.unknown - b.unknown, .items = a.items - b.items};
        /* unknown sizes that `a` does not have would stay below the line: no size */
        if (b.unknown == 0 || b.unknown == a.unknown)
            return quotient;
    }
    return extent_new(w, items_known ? a.items - b.items : EXTENT_OTHERWISE);
}

void flow_set_numbers(struct walk *w, struct flow *flow, int dim_count, const struct extent *numbers, uint32_t count) {
    flow->kind = FLOW_SAME;
    flow->dim_count = dim_count;
    flow->dims[0] = extent_of(count);
    flow->counts = false;
    flow->values = malloc((count + 1) * sizeof(*flow->values));
    w->out_of_memory |= !flow->values;
    flow->value_count = flow->values ? count : 0;
    for (uint32_t i = 0; i < flow->value_count; i++) {
        flow->values[i] = numbers[i];
        flow->counts |= numbers[i].items != 0;
    }
}

const struct extent *flow_numbers(struct walk *w, const struct flow *flow, uint32_t *count) {
    struct extent made[ONNX_LIST_MAX];
    if (flow->values) {
        *count = flow->value_count;
        return flow->values;
    }
    bool counted = flow->kind == FLOW_SAME && !flow->counts && flow->dim_count <= 1 && flow->dim_count >= 0 &&
                   (flow->dim_count == 0 || (extent_is_number(flow->dims[0]) && flow->dims[0].times >= 0 &&
                                             flow->dims[0].times <= ONNX_LIST_MAX));
    if (!counted)
        return NULL;
    *count = flow->dim_count == 0 ? 1 : (uint32_t)flow->dims[0].times;
    for (uint32_t i = 0; i < *count; i++)
        made[i] = extent_new(w, 0);
    flow_set_numbers(w, (struct flow *)flow, flow->dim_count, made,
                     *count); /* the next call must give the same numbers */
    return flow->values;
}

int flow_plain(struct walk *w, const struct flow *flow, int64_t numbers[ONNX_LIST_MAX]) {
    uint32_t count = 0;
    const struct extent *values = flow_numbers(w, flow, &count);
    if (!values || count > ONNX_LIST_MAX)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        if (!extent_is_number(values[i]))
            return -1;
        numbers[i] = values[i].times;
    }
    return (int)count;
}

/* ---- weights ---- */

enum { TYPE_FLOAT = 1, TYPE_INT32 = 6, TYPE_INT64 = 7, TYPE_BOOL = 9 }; /* TensorProto.DataType */

/* Numbers that are fractions count as not known. */
void flow_weights(struct walk *w, struct onnx_bytes tensor, struct flow *flow) {
    struct onnx_weights weights;
    struct sy_error err;
    *flow = (struct flow){.kind = FLOW_SAME, .dim_count = DIMS_UNKNOWN};
    if (onnx_weights_read(w->graph, tensor, &weights, &err))
        return;
    uint64_t elements = 1;
    for (uint32_t d = 0; d < weights.dim_count; d++)
        elements = weights.dims[d] >= 0 && weights.dims[d] <= ONNX_LIST_MAX ? elements * (uint64_t)weights.dims[d]
                                                                            : ONNX_LIST_MAX + 1;
    if (weights.dim_count <= FLOW_DIMS_MAX) {
        flow->dim_count = (int)weights.dim_count;
        for (uint32_t d = 0; d < weights.dim_count; d++)
            flow->dims[d] = extent_of(weights.dims[d]);
    }
    uint32_t bytes = weights.type == TYPE_INT64                                 ? 8
                     : weights.type == TYPE_INT32 || weights.type == TYPE_FLOAT ? 4
                     : weights.type == TYPE_BOOL                                ? 1
                                                                                : 0;
    if (bytes && weights.dim_count <= 1 && elements <= ONNX_LIST_MAX && weights.bytes >= elements * bytes) {
        struct extent numbers[ONNX_LIST_MAX];
        for (uint32_t i = 0; i < elements; i++) {
            int64_t whole = 0;
            int32_t single;
            float fraction;
            memcpy(&whole, weights.data + i * bytes, bytes);
            memcpy(&single, &whole, sizeof(single));
            memcpy(&fraction, &whole, sizeof(fraction));
            if (weights.type == TYPE_INT32)
                whole = single;
            bool is_whole = weights.type != TYPE_FLOAT ||
                            (fraction > -1e9f && fraction < 1e9f && fraction == (float)(int64_t)fraction);
            if (weights.type == TYPE_FLOAT && is_whole)
                whole = (int64_t)fraction;
            numbers[i] = is_whole ? extent_of(whole) : extent_new(w, 0);
        }
        flow_set_numbers(w, flow, (int)weights.dim_count, numbers, (uint32_t)elements);
    }
    onnx_weights_free(&weights);
}

/* ---- inputs ---- */

/* Reads a TensorShapeProto.Dimension. Sizes with the same name are the same everywhere. */
static struct extent dimension_read(struct walk *w, const struct protobuf_field *dimension, struct onnx_bytes *name) {
    struct protobuf_in in = protobuf_inside(dimension);
    struct protobuf_field field;
    struct extent size = extent_new(w, 0);
    while (protobuf_next(&in, &field) > 0) {
        if (field.number == DIM_VALUE && field.wire == PROTOBUF_VARINT && (int64_t)field.value > 0)
            size = extent_of((int64_t)field.value);
        if (field.number == DIM_PARAM && field.wire == PROTOBUF_BYTES && field.value > 0) {
            *name = (struct onnx_bytes){field.data, field.value};
            uint64_t code = 1469598103934665603; /* FNV-1a */
            for (size_t i = 0; i < name->length; i++)
                code = (code ^ name->data[i]) * 1099511628211;
            size = (struct extent){.times = 1, .unknown = code | 1};
        }
    }
    return size;
}

/* Reads the sizes in a ValueInfoProto, and the name of the first size. False: there are no sizes. */
static bool shape_read(struct walk *w, struct onnx_bytes info, struct flow *flow, struct onnx_bytes *first) {
    static const uint32_t path[] = {VALUE_TYPE, TYPE_TENSOR, TENSOR_TYPE_SHAPE};
    struct protobuf_in in = {info.data, info.data + info.length};
    struct protobuf_field field;
    *first = (struct onnx_bytes){NULL, 0};
    for (size_t depth = 0; depth < sizeof(path) / sizeof(path[0]); depth++) {
        bool found = false;
        while (!found && protobuf_next(&in, &field) > 0)
            found = field.wire == PROTOBUF_BYTES && field.number == path[depth];
        if (!found)
            return false;
        in = protobuf_inside(&field);
    }
    flow->dim_count = 0;
    while (protobuf_next(&in, &field) > 0) {
        struct onnx_bytes name = {NULL, 0};
        if (field.wire != PROTOBUF_BYTES || field.number != SHAPE_DIM)
            continue;
        if (flow->dim_count == FLOW_DIMS_MAX)
            return false;
        flow->dims[flow->dim_count++] = dimension_read(w, &field, &name);
        if (flow->dim_count == 1)
            *first = name;
    }
    return true;
}

/* Whether a converter (tf2onnx, Paddle2ONNX) has made the name up. Such a name says nothing: each tensor has another
 * one. */
static bool is_made_up(struct onnx_bytes name) {
    static const char *const prefixes[] = {"unk__", "p2o.DynamicDimension."};
    bool made_up = name.length == 0;
    for (size_t i = 0; i < ARRAY_COUNT(prefixes); i++)
        made_up |= name.length > strlen(prefixes[i]) && memcmp(name.data, prefixes[i], strlen(prefixes[i])) == 0;
    return made_up;
}

/* Whether two first dimensions may be the same. Two names of the model's author are two sizes. */
static bool names_agree(struct onnx_bytes a, struct onnx_bytes b) {
    return is_made_up(a) || is_made_up(b) || (a.length == b.length && memcmp(a.data, b.data, a.length) == 0);
}

static enum items_verdict inputs_begin(struct walk *w, struct onnx_bytes *items, struct sy_error *why) {
    const struct onnx_graph *g = w->graph;
    struct onnx_bytes name;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const struct onnx_tensor *tensor = &g->tensors[g->inputs[i]];
        struct flow *flow = &w->flows[g->inputs[i]];
        if (!shape_read(w, tensor->info, flow, &name) || flow->dim_count == 0 || extent_is_number(flow->dims[0])) {
            error_set(why, -EINVAL, "input '%.*s' has no first dimension of any size", (int)tensor->name.length,
                      (const char *)tensor->name.data);
            return ITEMS_UNKNOWN;
        }
        if (!names_agree(*items, name)) {
            error_set(why, -EINVAL, "its inputs have first dimensions of different names, %.*s and %.*s",
                      (int)items->length, (const char *)items->data, (int)name.length, (const char *)name.data);
            return ITEMS_UNKNOWN;
        }
        if (!is_made_up(name))
            *items = name;
        struct extent first = flow->dims[0];
        flow->kind = FLOW_ITEMS;
        for (int d = 0; d < flow->dim_count; d++) /* a dimension of the same name is as large as the batch */
            if (d == 0 || (!is_made_up(name) && extent_equal(flow->dims[d], first)))
                flow->dims[d] = d ? extent_new(w, EXTENT_OTHERWISE) : (struct extent){.times = 1, .items = 1};
    }
    return ITEMS_APART;
}

/* ---- nodes ---- */

static const char not_known[] = "is no operator whose effect on items is known";

static enum items_verdict node_walk(struct walk *w, struct flow *out) {
    const struct onnx_node *node = w->node;
    const struct onnx_graph *g = w->graph;
    const struct flow_operator *op = node->subgraphs ? NULL : flow_operator_find(node);
    const struct flow *in[ONNX_LIST_MAX];
    bool items = false, counts = false;
    uint32_t in_count = node->input_count + node->captured_count;
    for (uint32_t i = 0; i < in_count; i++) {
        uint32_t t = g->uses[node->uses_at + i];
        const struct flow *flow = t == ONNX_NONE ? NULL : &w->flows[t];
        if (i < ONNX_LIST_MAX)
            in[i] = flow;
        if (!flow)
            continue;
        bool sizes = op && i < 32 && op->sizes & 1u << i;
        items |= flow->kind == FLOW_ITEMS;
        counts |= flow->counts && !sizes;
        if (sizes && flow->kind == FLOW_ITEMS)
            return walk_joined(w, "takes sizes or positions from the items");
    }
    if (!op) {
        for (uint32_t o = 0; o < node->output_count; o++)
            out[o].counts = counts;
        return items ? walk_unknown(w, not_known) : ITEMS_APART;
    }
    if (in_count > ONNX_LIST_MAX)
        return walk_unknown(w, "has too many inputs");
    enum items_verdict verdict = op->rule(w, in, in_count, out, node->output_count);
    if (verdict == ITEMS_APART && counts && items)
        return walk_joined(w, "computes with how many items there are");
    for (uint32_t o = 0; o < node->output_count && counts; o++)
        out[o].counts = out[o].values ? out[o].counts : true;
    return verdict;
}

/* Looks at one node. If the node takes a joined tensor, its outputs are joined, for the same cause. */
static void node_look(struct walk *w, uint32_t n) {
    const struct onnx_graph *g = w->graph;
    const struct onnx_node *node = w->node = &g->nodes[n];
    struct flow few[8], *out = node->output_count <= 8 ? few : calloc(node->output_count, sizeof(*out));
    uint32_t cause = ONNX_NONE;
    enum items_verdict verdict = ITEMS_APART;

    w->out_of_memory |= !out;
    if (!out || !node->output_count)
        return;
    for (uint32_t o = 0; o < node->output_count; o++)
        out[o] = (struct flow){.kind = FLOW_SAME, .dim_count = DIMS_UNKNOWN};
    for (uint32_t i = 0; i < node->input_count + node->captured_count && cause == ONNX_NONE; i++) {
        uint32_t t = g->uses[node->uses_at + i];
        if (t != ONNX_NONE && w->flows[t].kind == FLOW_JOINED)
            cause = w->flows[t].cause;
    }
    if (cause == ONNX_NONE && (verdict = node_walk(w, out)) != ITEMS_APART) {
        cause = n;
        w->causes[n] = (struct cause){verdict, w->what};
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        uint32_t t = g->gives[node->gives_at + o];
        if (cause != ONNX_NONE && out[o].kind != FLOW_JOINED)
            out[o] =
                (struct flow){.kind = FLOW_JOINED, .dim_count = DIMS_UNKNOWN, .cause = cause, .values = out[o].values};
        else if (out[o].kind == FLOW_JOINED) { /* one of several outputs is joined */
            out[o].cause = n;
            w->causes[n] = (struct cause){ITEMS_JOINED, w->what};
        }
        if (t == ONNX_NONE)
            free(out[o].values);
        else
            w->flows[t] = out[o];
    }
    if (out != few)
        free(out);
}

/* ---- outputs ---- */

static enum items_verdict output_judge(const struct walk *w, uint32_t t, struct onnx_bytes items,
                                       struct sy_error *why) {
    const struct onnx_graph *g = w->graph;
    const struct onnx_tensor *tensor = &g->tensors[t];
    const struct flow *flow = &w->flows[t];
    struct flow shape;
    struct onnx_bytes name;
    if (flow->kind == FLOW_JOINED) {
        const struct onnx_node *node = &g->nodes[flow->cause];
        uint32_t gives = node->output_count ? g->gives[node->gives_at] : ONNX_NONE;
        struct onnx_bytes given = gives == ONNX_NONE ? (struct onnx_bytes){NULL, 0} : g->tensors[gives].name;
        error_set(why, -EINVAL, "%.*s, which gives '%.*s', %s", (int)node->op.length, (const char *)node->op.data,
                  (int)(given.length > 60 ? 60 : given.length), (const char *)given.data, w->causes[flow->cause].what);
        return w->causes[flow->cause].verdict;
    }
    if (flow->kind == FLOW_SAME || flow->axis != 0) {
        error_set(why, -EINVAL, "the first dimension of output '%.*s' does not count the items",
                  (int)tensor->name.length, (const char *)tensor->name.data);
        return ITEMS_JOINED;
    }
    if (extent_equal(flow->dims[0], (struct extent){.times = 1, .items = 1})) /* one row an item, by whatever name */
        return ITEMS_APART;
    if (tensor->info.data && shape_read((struct walk *)w, tensor->info, &shape, &name) && shape.dim_count > 0 &&
        !names_agree(items, name)) {
        error_set(why, -EINVAL, "output '%.*s' has a first dimension of another name, %.*s, than the inputs'",
                  (int)tensor->name.length, (const char *)tensor->name.data, (int)name.length, (const char *)name.data);
        return ITEMS_UNKNOWN;
    }
    return ITEMS_APART;
}

static int64_t opset_of(const struct onnx_graph *g, const char *domain) {
    for (uint32_t i = 0; i < g->import_count; i++) {
        struct protobuf_in in = {g->imports[i].data, g->imports[i].data + g->imports[i].length};
        struct protobuf_field field;
        struct onnx_bytes name = {NULL, 0};
        int64_t version = 0;
        while (protobuf_next(&in, &field) > 0) {
            if (field.number == OPSET_DOMAIN && field.wire == PROTOBUF_BYTES)
                name = (struct onnx_bytes){field.data, field.value};
            else if (field.number == OPSET_VERSION && field.wire == PROTOBUF_VARINT)
                version = (int64_t)field.value;
        }
        if (onnx_bytes_are(name, domain) || (!*domain && onnx_bytes_are(name, "ai.onnx")))
            return version;
    }
    return 1;
}

enum items_verdict items_walk(struct onnx_graph *graph, struct sy_error *why) {
    struct walk w = {.graph = graph, .opset = opset_of(graph, "")};
    struct onnx_bytes items = {NULL, 0};
    enum items_verdict verdict = ITEMS_UNKNOWN;
    w.flows = calloc(graph->tensor_count + 1, sizeof(*w.flows));
    w.causes = calloc(graph->node_count + 1, sizeof(*w.causes));
    w.out_of_memory = !w.flows || !w.causes;
    if (!w.out_of_memory) {
        for (uint32_t t = 0; t < graph->tensor_count; t++)
            if (graph->tensors[t].weights.data)
                flow_weights(&w, graph->tensors[t].weights, &w.flows[t]);
        verdict = inputs_begin(&w, &items, why);
        for (uint32_t n = 0; n < graph->node_count && verdict == ITEMS_APART && !w.out_of_memory; n++)
            node_look(&w, n);
        for (uint32_t o = 0; o < graph->output_count && verdict == ITEMS_APART; o++)
            verdict = output_judge(&w, graph->outputs[o], items, why);
    }
    if (w.out_of_memory) {
        error_set(why, -ENOMEM, "no memory to look for what joins items");
        verdict = ITEMS_UNKNOWN;
    }
    for (char *c = why->text; verdict != ITEMS_APART && *c; c++) /* names may hold any bytes */
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
            *c = '?';
    for (uint32_t t = 0; w.flows && t < graph->tensor_count; t++)
        free(w.flows[t].values);
    free(w.flows);
    free(w.causes);
    return verdict;
}
