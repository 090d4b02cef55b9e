/* onnx_digest.c - hashes nodes and weights in the graph's order. */
#include "model/prefix/onnx_digest.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/protobuf.h"
#include "model/onnx/onnx_proto.h"

#define ATTRIBUTES_MAX 256 /* attributes of a node */
#define SYMBOLS_MAX    64  /* names of dimensions of the inputs */

/* Kinds of things that are hashed. The kind is part of the hash, so that things of two kinds never have the same
 * digest. */
enum kind { KIND_NODE = 1, KIND_TENSOR, KIND_WEIGHTS, KIND_INPUT };

struct hashing {
    struct onnx_graph *graph;
    struct onnx_digests *digests;
    struct onnx_bytes symbols[SYMBOLS_MAX]; /* names in the order of their first use */
    uint32_t symbol_count;
    gnutls_hash_hd_t hash;
    struct sy_error *err;
};

/* ---- SHA-256 of a sequence of numbers and byte strings, each of which says how long it is ---- */

static int begin(struct hashing *h, enum kind kind) {
    if (gnutls_hash_init(&h->hash, GNUTLS_DIG_SHA256) < 0)
        return error_set(h->err, -EIO, "%s: there is no SHA-256", h->graph->path);
    uint64_t first = kind;
    gnutls_hash(h->hash, &first, sizeof(first));
    return 0;
}

static void put_number(struct hashing *h, uint64_t value) {
    gnutls_hash(h->hash, &value, sizeof(value));
}

static void put_bytes(struct hashing *h, const void *data, size_t length) {
    put_number(h, length);
    if (length)
        gnutls_hash(h->hash, data, length);
}

static void put_digest(struct hashing *h, const struct onnx_digest *digest) {
    gnutls_hash(h->hash, digest, sizeof(*digest));
}

static struct onnx_digest end(struct hashing *h) {
    struct onnx_digest digest;
    gnutls_hash_deinit(h->hash, &digest);
    return digest;
}

/* ---- weights ---- */

/* A failure closes the hash. */
static int put_weights(struct hashing *h, struct onnx_bytes tensor, uint64_t *bytes) {
    struct onnx_weights weights;
    int rc = onnx_weights_read(h->graph, tensor, &weights, h->err);
    if (rc) {
        gnutls_hash_deinit(h->hash, NULL);
        return rc;
    }
    put_number(h, weights.type);
    put_bytes(h, weights.dims, weights.dim_count * sizeof(weights.dims[0]));
    put_bytes(h, weights.data, weights.bytes);
    *bytes = weights.bytes;
    onnx_weights_free(&weights);
    return 0;
}

static int initialiser_hash(struct hashing *h, uint32_t t) {
    struct onnx_digests *d = h->digests;
    int rc = begin(h, KIND_WEIGHTS);
    if (!rc)
        rc = put_weights(h, h->graph->tensors[t].weights, &d->weights_bytes[t]);
    if (!rc)
        d->tensors[t] = end(h);
    if (!rc && h->graph->tensors[t].overridable) {
        d->tensors[t] = (struct onnx_digest){{0}};
        d->from_input[t] = true;
    }
    return rc;
}

/* ---- inputs ---- */

static uint64_t symbol(struct hashing *h, struct onnx_bytes name) {
    for (uint32_t s = 0; s < h->symbol_count; s++)
        if (h->symbols[s].length == name.length && memcmp(h->symbols[s].data, name.data, name.length) == 0)
            return s;
    if (h->symbol_count < SYMBOLS_MAX)
        h->symbols[h->symbol_count++] = name;
    return h->symbol_count - 1;
}

static bool put_dimension(struct hashing *h, const struct protobuf_field *dimension) {
    struct protobuf_in in = protobuf_inside(dimension);
    struct protobuf_field field;
    uint64_t kind = 0, value = 0; /* a dimension without either field has any size */
    int more;
    while ((more = protobuf_next(&in, &field)) > 0) {
        if (field.number == DIM_VALUE && field.wire == PROTOBUF_VARINT)
            kind = DIM_VALUE, value = field.value;
        else if (field.number == DIM_PARAM && field.wire == PROTOBUF_BYTES && field.value)
            kind = DIM_PARAM, value = symbol(h, (struct onnx_bytes){field.data, field.value});
    }
    put_number(h, kind);
    put_number(h, value);
    return more == 0;
}

/* Calls `each` for every message `number` in a message. False: a call returned false, or the message is cut off. */
static bool each_message(struct hashing *h, const struct protobuf_field *message, uint32_t number,
                         bool (*each)(struct hashing *h, const struct protobuf_field *field)) {
    struct protobuf_in in = protobuf_inside(message);
    struct protobuf_field field;
    int more;
    while ((more = protobuf_next(&in, &field)) > 0)
        if (field.number == number && field.wire == PROTOBUF_BYTES && !each(h, &field))
            return false;
    return more == 0;
}

static bool put_shape(struct hashing *h, const struct protobuf_field *shape) {
    put_number(h, TENSOR_TYPE_SHAPE); /* the shape of a scalar is empty, but there */
    return each_message(h, shape, SHAPE_DIM, put_dimension);
}

static bool put_tensor_type(struct hashing *h, const struct protobuf_field *type) {
    struct protobuf_in in = protobuf_inside(type);
    struct protobuf_field field;
    uint64_t element = 0;
    int more;
    while ((more = protobuf_next(&in, &field)) > 0)
        if (field.number == TENSOR_TYPE_ELEM && field.wire == PROTOBUF_VARINT)
            element = field.value;
    put_number(h, element);
    return more == 0 && each_message(h, type, TENSOR_TYPE_SHAPE, put_shape);
}

static bool put_type(struct hashing *h, const struct protobuf_field *type) {
    put_number(h, TYPE_TENSOR);
    return each_message(h, type, TYPE_TENSOR, put_tensor_type);
}

static int input_hash(struct hashing *h, uint32_t t) {
    const struct onnx_tensor *tensor = &h->graph->tensors[t];
    struct protobuf_field info = {.wire = PROTOBUF_BYTES, .data = tensor->info.data, .value = tensor->info.length};
    int rc = begin(h, KIND_INPUT);
    if (rc)
        return rc;
    put_number(h, tensor->input);
    bool good = each_message(h, &info, VALUE_TYPE, put_type);
    h->digests->tensors[t] = end(h);
    h->digests->from_input[t] = true;
    return good ? 0 : error_set(h->err, -EINVAL, "%s: not an ONNX model: an input is cut off", h->graph->path);
}

/* ---- nodes ---- */

static bool bytes_same(struct onnx_bytes a, struct onnx_bytes b) {
    return a.length == b.length && (!a.length || memcmp(a.data, b.data, a.length) == 0);
}

static bool calls_function(const struct onnx_graph *graph, const struct onnx_node *node) {
    for (uint32_t f = 0; f < graph->function_count; f++) {
        struct protobuf_in in = {graph->functions[f].data, graph->functions[f].data + graph->functions[f].length};
        struct protobuf_field field;
        struct onnx_bytes name = {NULL, 0}, domain = {NULL, 0};
        while (protobuf_next(&in, &field) > 0)
            if (field.wire == PROTOBUF_BYTES && field.number == FUNCTION_NAME)
                name = (struct onnx_bytes){field.data, field.value};
            else if (field.wire == PROTOBUF_BYTES && field.number == FUNCTION_DOMAIN)
                domain = (struct onnx_bytes){field.data, field.value};
        if (bytes_same(name, node->op) && bytes_same(domain, node->domain))
            return true;
    }
    return false;
}

static bool draws(const struct onnx_node *node) {
    static const char *const operators[] = {"RandomNormal",      "RandomNormalLike", "RandomUniform",
                                            "RandomUniformLike", "Multinomial",      "Bernoulli"};
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (onnx_bytes_are(node->op, operators[i]))
            return true;
    /* Dropout draws only in training; its input that says so is a constant of most exporters' models. */
    return onnx_bytes_are(node->op, "Dropout") && node->input_count > 2;
}

/* The reason why the node equals no other; NULL: another node may equal it. */
static const char *unequal(const struct hashing *h, const struct onnx_node *node) {
    if (node->subgraphs)
        return "it has subgraphs";
    if (calls_function(h->graph, node))
        return "it calls a function of the model";
    if (node->domain.length && !onnx_bytes_are(node->domain, "ai.onnx") &&
        !onnx_bytes_are(node->domain, "ai.onnx.ml") && !onnx_bytes_are(node->domain, "com.microsoft"))
        return "its operator is not one of ONNX's own";
    return draws(node) ? "it draws random numbers" : NULL;
}

static uint64_t operator_version(const struct onnx_graph *graph, struct onnx_bytes domain) {
    if (onnx_bytes_are(domain, "ai.onnx"))
        domain.length = 0;
    for (uint32_t i = 0; i < graph->import_count; i++) {
        struct protobuf_in in = {graph->imports[i].data, graph->imports[i].data + graph->imports[i].length};
        struct protobuf_field field;
        struct onnx_bytes of = {NULL, 0};
        uint64_t version = 0;
        while (protobuf_next(&in, &field) > 0)
            if (field.number == OPSET_DOMAIN && field.wire == PROTOBUF_BYTES)
                of = (struct onnx_bytes){field.data, field.value};
            else if (field.number == OPSET_VERSION && field.wire == PROTOBUF_VARINT)
                version = field.value;
        if (onnx_bytes_are(of, "ai.onnx"))
            of.length = 0;
        if (bytes_same(of, domain))
            return version;
    }
    return 0;
}

struct attribute {
    struct onnx_bytes name;
    struct protobuf_field field;
};

static int attribute_order(const void *a, const void *b) {
    struct onnx_bytes x = ((const struct attribute *)a)->name, y = ((const struct attribute *)b)->name;
    int by_bytes = memcmp(x.data, y.data, x.length < y.length ? x.length : y.length);
    return by_bytes ? by_bytes : (x.length > y.length) - (x.length < y.length);
}

/* Adds a field of an attribute to the hash; packed numbers count as those that are not packed. */
static int put_attribute_field(struct hashing *h, const struct protobuf_field *field) {
    uint64_t value, bytes;
    if (field->number == ATTRIBUTE_NAME || field->number == ATTRIBUTE_DOC)
        return 0;
    if (field->wire == PROTOBUF_BYTES && field->number == ATTRIBUTE_INTS) {
        for (struct protobuf_in in = protobuf_inside(field); in.at < in.end && protobuf_varint(&in, &value);) {
            put_number(h, ATTRIBUTE_INTS);
            put_number(h, value);
        }
        return 0;
    }
    if (field->wire == PROTOBUF_BYTES && field->number == ATTRIBUTE_FLOATS) {
        for (struct protobuf_in in = protobuf_inside(field); protobuf_fixed(&in, 4, &value);) {
            put_number(h, ATTRIBUTE_FLOATS);
            put_number(h, value);
        }
        return 0;
    }
    put_number(h, field->number);
    if (field->wire != PROTOBUF_BYTES)
        put_number(h, field->value);
    else if (field->number == ATTRIBUTE_TENSOR || field->number == ATTRIBUTE_TENSORS)
        return put_weights(h, (struct onnx_bytes){field->data, field->value}, &bytes);
    else
        put_bytes(h, field->data, field->value);
    return 0;
}

static int attributes_find(struct hashing *h, const struct onnx_node *node, struct attribute *found, uint32_t *count) {
    struct protobuf_in in = {node->raw.data, node->raw.data + node->raw.length}, inner;
    struct protobuf_field field, name;
    *count = 0;
    while (protobuf_next(&in, &field) > 0) {
        if (field.number != NODE_ATTRIBUTE || field.wire != PROTOBUF_BYTES)
            continue;
        if (*count == ATTRIBUTES_MAX)
            return error_set(h->err, -EINVAL, "%s: a node has more than %d attributes", h->graph->path, ATTRIBUTES_MAX);
        found[*count] = (struct attribute){{(const uint8_t *)"", 0}, field};
        for (inner = protobuf_inside(&field); protobuf_next(&inner, &name) > 0;)
            if (name.number == ATTRIBUTE_NAME && name.wire == PROTOBUF_BYTES)
                found[*count].name = (struct onnx_bytes){name.data, name.value};
        ++*count;
    }
    qsort(found, *count, sizeof(*found), attribute_order);
    return 0;
}

/* A failure closes the hash. */
static int put_attributes(struct hashing *h, const struct attribute *attributes, uint32_t count) {
    int rc = 0;
    put_number(h, count);
    for (uint32_t a = 0; !rc && a < count; a++) {
        struct protobuf_in in = protobuf_inside(&attributes[a].field);
        struct protobuf_field field;
        put_bytes(h, attributes[a].name.data, attributes[a].name.length);
        while (!rc && protobuf_next(&in, &field) > 0)
            rc = put_attribute_field(h, &field);
        if (!rc)
            put_number(h, 0); /* no field has this number */
    }
    return rc;
}

static int node_digest(struct hashing *h, uint32_t n, struct onnx_digest *digest) {
    static const struct onnx_digest left_out = {{0}};
    struct onnx_graph *graph = h->graph;
    const struct onnx_node *node = &graph->nodes[n];
    struct attribute attributes[ATTRIBUTES_MAX];
    uint32_t count;
    int rc = attributes_find(h, node, attributes, &count);
    if (!rc)
        rc = begin(h, KIND_NODE);
    if (rc)
        return rc;
    put_bytes(h, node->op.data, node->op.length);
    put_bytes(h, node->domain.data, onnx_bytes_are(node->domain, "ai.onnx") ? 0 : node->domain.length);
    put_bytes(h, node->overload.data, node->overload.length);
    put_number(h, operator_version(graph, node->domain));
    put_number(h, node->input_count);
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t t = graph->uses[node->uses_at + i];
        put_digest(h, t == ONNX_NONE ? &left_out : &h->digests->tensors[t]);
    }
    put_number(h, node->output_count);
    for (uint32_t o = 0; o < node->output_count; o++)
        put_number(h, graph->gives[node->gives_at + o] != ONNX_NONE);
    rc = put_attributes(h, attributes, count);
    if (!rc)
        *digest = end(h);
    return rc;
}

static int node_hash(struct hashing *h, uint32_t n) {
    struct onnx_digests *d = h->digests;
    const struct onnx_node *node = &h->graph->nodes[n];
    bool from_input = false, known = true; /* whether all tensors that the node takes have a digest */
    for (uint32_t i = 0; i < node->input_count + node->captured_count; i++) {
        uint32_t t = h->graph->uses[node->uses_at + i];
        if (t == ONNX_NONE)
            continue;
        known &= !onnx_digest_none(&d->tensors[t]);
        from_input |= d->from_input[t];
    }
    const char *why = unequal(h, node);
    int rc = 0;
    if (why && !d->unequal)
        d->unequal = why;
    if (known && !why)
        rc = node_digest(h, n, &d->nodes[n]);
    for (uint32_t o = 0; !rc && o < node->output_count; o++) {
        uint32_t t = h->graph->gives[node->gives_at + o];
        if (t == ONNX_NONE)
            continue;
        d->from_input[t] = from_input || why; /* a tensor that equals no other must not be computed twice */
        if (!known || why)
            continue;
        rc = begin(h, KIND_TENSOR);
        if (rc)
            break;
        put_digest(h, &d->nodes[n]);
        put_number(h, o);
        d->tensors[t] = end(h);
    }
    return rc;
}

int onnx_digests_make(struct onnx_graph *graph, struct onnx_digests *digests, struct sy_error *err) {
    struct hashing h = {.graph = graph, .digests = digests, .err = err};
    *digests = (struct onnx_digests){
        .nodes = calloc(graph->node_count + 1, sizeof(struct onnx_digest)),
        .tensors = calloc(graph->tensor_count + 1, sizeof(struct onnx_digest)),
        .from_input = calloc(graph->tensor_count + 1, sizeof(bool)),
        .live = calloc(graph->node_count + 1, sizeof(bool)),
        .weights_bytes = calloc(graph->tensor_count + 1, sizeof(uint64_t)),
    };
    int rc = digests->nodes && digests->tensors && digests->from_input && digests->live && digests->weights_bytes
                 ? 0
                 : error_set(err, -ENOMEM, "%s: out of memory", graph->path);
    for (uint32_t t = 0; !rc && t < graph->tensor_count; t++)
        if (graph->tensors[t].weights.data)
            rc = initialiser_hash(&h, t);
    for (uint32_t i = 0; !rc && i < graph->input_count; i++)
        rc = input_hash(&h, graph->inputs[i]);
    for (uint32_t n = 0; !rc && n < graph->node_count; n++)
        rc = node_hash(&h, n);
    if (rc) {
        onnx_digests_free(digests);
        return rc;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) /* nodes are live from the outputs backwards */
        if (graph->tensors[graph->outputs[i]].node != ONNX_NONE)
            digests->live[graph->tensors[graph->outputs[i]].node] = true;
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const struct onnx_node *node = &graph->nodes[n];
        for (uint32_t i = 0; digests->live[n] && i < node->input_count + node->captured_count; i++) {
            uint32_t t = graph->uses[node->uses_at + i];
            if (t != ONNX_NONE && graph->tensors[t].node != ONNX_NONE)
                digests->live[graph->tensors[t].node] = true;
        }
    }
    return 0;
}

void onnx_digests_free(struct onnx_digests *digests) {
    free(digests->nodes);
    free(digests->tensors);
    free(digests->from_input);
    free(digests->live);
    free(digests->weights_bytes);
    *digests = (struct onnx_digests){0};
}
