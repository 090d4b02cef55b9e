/* onnx_attribute.c - reads AttributeProto where it lies in the model's file. */
#include "model/onnx/onnx_attribute.h"

#include <errno.h>

#include "core/util/protobuf.h"
#include "model/onnx/onnx_proto.h"

/* Finds the attribute with a name, as a message to be read. */
static bool attribute_find(const struct onnx_node *node, const char *name, struct protobuf_in *attribute) {
    struct protobuf_in in = {node->raw.data, node->raw.data + node->raw.length};
    struct protobuf_field field, inner;
    while (protobuf_next(&in, &field) > 0) {
        if (field.wire != PROTOBUF_BYTES || field.number != NODE_ATTRIBUTE)
            continue;
        struct protobuf_in inside = *attribute = protobuf_inside(&field);
        while (protobuf_next(&inside, &inner) > 0)
            if (inner.wire == PROTOBUF_BYTES && inner.number == ATTRIBUTE_NAME &&
                onnx_bytes_are((struct onnx_bytes){inner.data, inner.value}, name))
                return true;
    }
    return false;
}

int64_t onnx_attribute_int(const struct onnx_node *node, const char *name, int64_t otherwise) {
    struct protobuf_in in;
    struct protobuf_field field;
    int64_t value = 0; /* default value, which protobuf leaves out */
    if (!attribute_find(node, name, &in))
        return otherwise;
    while (protobuf_next(&in, &field) > 0)
        if (field.wire == PROTOBUF_VARINT && field.number == ATTRIBUTE_INT)
            value = (int64_t)field.value;
    return value;
}

int onnx_attribute_ints(const struct onnx_node *node, const char *name, int64_t values[ONNX_LIST_MAX]) {
    struct protobuf_in in, packed;
    struct protobuf_field field;
    uint64_t value;
    int count = 0;
    if (!attribute_find(node, name, &in))
        return -ENOENT;
    while (protobuf_next(&in, &field) > 0) {
        if (field.number != ATTRIBUTE_INTS)
            continue;
        if (field.wire == PROTOBUF_BYTES)
            packed = protobuf_inside(&field);
        else
            packed = (struct protobuf_in){NULL, NULL};
        do {
            value = field.value;
            if (field.wire == PROTOBUF_BYTES && (packed.at == packed.end || !protobuf_varint(&packed, &value)))
                break;
            if (count == ONNX_LIST_MAX)
                return -E2BIG;
            values[count++] = (int64_t)value;
        } while (packed.at < packed.end);
        if (packed.at != packed.end)
            return -EINVAL;
    }
    return count;
}

bool onnx_attribute_has(const struct onnx_node *node, const char *name) {
    struct protobuf_in in;
    return attribute_find(node, name, &in);
}

static struct onnx_bytes bytes_find(const struct onnx_node *node, const char *name, uint32_t number) {
    struct protobuf_in in;
    struct protobuf_field field;
    struct onnx_bytes found = {NULL, 0};
    if (attribute_find(node, name, &in))
        while (protobuf_next(&in, &field) > 0)
            if (field.wire == PROTOBUF_BYTES && field.number == number)
                found = (struct onnx_bytes){field.data, field.value};
    return found;
}

struct onnx_bytes onnx_attribute_string(const struct onnx_node *node, const char *name) {
    return bytes_find(node, name, ATTRIBUTE_STRING);
}

struct onnx_bytes onnx_attribute_tensor(const struct onnx_node *node, const char *name) {
    return bytes_find(node, name, ATTRIBUTE_TENSOR);
}
