/* onnx_weights.c - reads the elements of a TensorProto, whichever of its fields or files they are in. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/files.h"
#include "core/util/protobuf.h"
#include "core/util/text.h"
#include "model/onnx/onnx_graph.h"
#include "model/onnx/onnx_proto.h"

static int wrong(const struct onnx_graph *graph, struct sy_error *err, const char *what) {
    return error_set(err, -EINVAL, "%s: weights: %s", graph->path, what);
}

/* ---- in a file of their own ---- */

struct place {
    struct onnx_bytes location;
    uint64_t offset, length;
    bool length_given;
};

static bool number_read(struct onnx_bytes text, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < text.length; i++) {
        uint64_t digit = (uint64_t)(text.data[i] - '0');
        if (text.data[i] < '0' || digit > 9 || *value > (UINT64_MAX - digit) / 10)
            return false;
        *value = *value * 10 + digit;
    }
    return text.length > 0;
}

/* Reads an entry of TensorProto.external_data; unknown keys (checksum) are passed over. */
static bool place_read(const struct protobuf_field *entry, struct place *place) {
    struct protobuf_in in = protobuf_inside(entry);
    struct protobuf_field field;
    struct onnx_bytes key = {NULL, 0}, value = {NULL, 0};
    int more;
    while ((more = protobuf_next(&in, &field)) > 0) {
        if (field.wire != PROTOBUF_BYTES)
            continue;
        if (field.number == ENTRY_KEY)
            key = (struct onnx_bytes){field.data, field.value};
        else if (field.number == ENTRY_VALUE)
            value = (struct onnx_bytes){field.data, field.value};
    }
    if (more < 0)
        return false;
    if (onnx_bytes_are(key, "location"))
        place->location = value;
    else if (onnx_bytes_are(key, "offset"))
        return number_read(value, &place->offset);
    else if (onnx_bytes_are(key, "length"))
        return place->length_given = number_read(value, &place->length);
    return true;
}

static int file_read(struct onnx_graph *graph, struct onnx_bytes name, struct onnx_file *file, struct sy_error *err) {
    char path[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(graph->path, '/');
    if (!file_name_inside((const char *)name.data, name.length))
        return wrong(graph, err, "they name a file outside the model's folder");
    int length = snprintf(path, sizeof(path), "%.*s%.*s", slash ? (int)(slash + 1 - graph->path) : 0, graph->path,
                          (int)name.length, (const char *)name.data);
    int fd = length < (int)sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0)
        return error_set(err, -ENOENT, "%s: weights: %.*s cannot be read", graph->path, (int)name.length,
                         (const char *)name.data);
    *file = (struct onnx_file){.name = name};
    int rc = 0;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        rc = wrong(graph, err, "they name what is no file");
    } else if (st.st_size > 0) {
        void *data = malloc((size_t)st.st_size);
        ssize_t got = data ? files_read(fd, data, (size_t)st.st_size) : -ENOMEM;
        if (got <= 0) {
            free(data);
            rc = got < 0 ? error_set(err, (int)got, "%s: weights: %s", graph->path, strerror((int)-got)) : 0;
        } else {
            file->data = data, file->bytes = (size_t)got;
        }
    }
    close(fd);
    return rc;
}

/* The file of this name, which is read at the first call. */
static int file_find(struct onnx_graph *graph, struct onnx_bytes name, const struct onnx_file **found,
                     struct sy_error *err) {
    for (uint32_t f = 0; f < graph->file_count; f++) {
        *found = &graph->files[f];
        if ((*found)->name.length == name.length && memcmp((*found)->name.data, name.data, name.length) == 0)
            return 0;
    }
    struct onnx_file *files = realloc(graph->files, (graph->file_count + 1) * sizeof(*files));
    if (!files)
        return error_set(err, -ENOMEM, "%s: out of memory", graph->path);
    graph->files = files;
    int rc = file_read(graph, name, &files[graph->file_count], err);
    if (!rc)
        *found = &files[graph->file_count++];
    return rc;
}

static int external_read(struct onnx_graph *graph, const struct place *place, struct onnx_weights *weights,
                         struct sy_error *err) {
    const struct onnx_file *file = NULL;
    int rc = file_find(graph, place->location, &file, err);
    if (rc)
        return rc;
    uint64_t rest = place->offset <= file->bytes ? file->bytes - place->offset : 0;
    if (place->offset > file->bytes || (place->length_given && place->length > rest))
        return wrong(graph, err, "their file is shorter than the model says");
    weights->data = file->bytes ? file->data + place->offset : NULL;
    weights->bytes = place->length_given ? place->length : rest;
    return 0;
}

/* ---- in the model's file ---- */

/* Appends the elements of a typed field, packed or one by one, each cut to `bytes`. */
static bool elements_add(struct text *to, const struct protobuf_field *field, enum protobuf_wire wire, uint32_t bytes) {
    if (field->wire == wire) {
        text_append(to, (const char *)&field->value, bytes);
        return true;
    }
    if (field->wire != PROTOBUF_BYTES)
        return false;
    struct protobuf_in in = protobuf_inside(field);
    if (wire != PROTOBUF_VARINT) {
        text_append(to, (const char *)field->data, field->value);
        return field->value % bytes == 0;
    }
    for (uint64_t value; in.at < in.end;) {
        if (!protobuf_varint(&in, &value))
            return false;
        text_append(to, (const char *)&value, bytes);
    }
    return true;
}

static bool typed_add(struct text *to, const struct protobuf_field *field, uint64_t type) {
    /* TensorProto.DataType: bytes of an element, 0 for strings and types that are not known here. Elements of 4 or 2
     * bits are packed, and come as bytes. */
    static const uint8_t sizes[] = {
        [1] = 4,  [2] = 1,  [3] = 1,   [4] = 2,  [5] = 2,  [6] = 4,  [7] = 8,  [9] = 1,  [10] = 2, [11] = 8, [12] = 4,
        [13] = 8, [14] = 8, [15] = 16, [16] = 2, [17] = 1, [18] = 1, [19] = 1, [20] = 1, [21] = 1, [22] = 1, [23] = 1,
    };
    uint32_t bytes = type < sizeof(sizes) ? sizes[type] : 0;
    switch (field->number) {
    case TENSOR_FLOATS:
        return elements_add(to, field, PROTOBUF_32BIT, 4);
    case TENSOR_DOUBLES:
        return elements_add(to, field, PROTOBUF_64BIT, 8);
    case TENSOR_INT64S:
        return elements_add(to, field, PROTOBUF_VARINT, 8);
    case TENSOR_INT32S:
    case TENSOR_UINT64S:
        return bytes >= 1 && bytes <= 8 && elements_add(to, field, PROTOBUF_VARINT, bytes);
    case TENSOR_STRINGS:
        if (field->wire != PROTOBUF_BYTES)
            return false;
        text_append(to, (const char *)&field->value, sizeof(field->value));
        text_append(to, (const char *)field->data, field->value);
        return true;
    default:
        return true;
    }
}

/* Reads a dimension, or a packed list of dimensions. */
static bool dims_add(const struct protobuf_field *field, struct onnx_weights *weights) {
    if (field->wire == PROTOBUF_VARINT) {
        if (weights->dim_count == ONNX_RANK_MAX)
            return false;
        weights->dims[weights->dim_count++] = (int64_t)field->value;
        return true;
    }
    if (field->wire != PROTOBUF_BYTES)
        return false;
    for (struct protobuf_in in = protobuf_inside(field); in.at < in.end;) {
        uint64_t value;
        if (weights->dim_count == ONNX_RANK_MAX || !protobuf_varint(&in, &value))
            return false;
        weights->dims[weights->dim_count++] = (int64_t)value;
    }
    return true;
}

/* Reads the elements of the typed fields into new memory. */
static int typed_read(struct onnx_graph *graph, struct onnx_bytes tensor, struct onnx_weights *weights,
                      struct sy_error *err) {
    struct protobuf_in in = {tensor.data, tensor.data + tensor.length};
    struct protobuf_field field;
    struct text elements;
    bool good = true;
    text_init(&elements, NULL, 0);
    while (good && protobuf_next(&in, &field) > 0)
        good = typed_add(&elements, &field, weights->type);
    if (!good || elements.failed) {
        int rc = good ? error_set(err, -ENOMEM, "%s: out of memory", graph->path)
                      : wrong(graph, err, "their elements are cut off, or not of their type");
        text_free(&elements);
        return rc;
    }
    weights->data = (const uint8_t *)elements.data;
    weights->bytes = elements.length;
    weights->owned = elements.data;
    return 0;
}

int onnx_weights_read(struct onnx_graph *graph, struct onnx_bytes tensor, struct onnx_weights *weights,
                      struct sy_error *err) {
    struct protobuf_in in = {tensor.data, tensor.data + tensor.length};
    struct protobuf_field field;
    struct place place = {.location = {NULL, 0}};
    bool good = true, raw = false;
    int more;
    *weights = (struct onnx_weights){.type = 0};
    while (good && (more = protobuf_next(&in, &field)) > 0) {
        if (field.number == TENSOR_DIMS)
            good = dims_add(&field, weights);
        else if (field.number == TENSOR_DATA_TYPE && field.wire == PROTOBUF_VARINT)
            weights->type = field.value;
        else if (field.number == TENSOR_LOCATION && field.wire == PROTOBUF_VARINT)
            weights->external = field.value == LOCATION_EXTERNAL;
        else if (field.number == TENSOR_EXTERNAL && field.wire == PROTOBUF_BYTES)
            good = place_read(&field, &place);
        else if (field.number == TENSOR_RAW && field.wire == PROTOBUF_BYTES) {
            weights->data = field.data;
            weights->bytes = field.value;
            raw = true;
        }
    }
    if (!good || more < 0)
        return wrong(graph, err, "a tensor is cut off, or its description is wrong");
    if (weights->external)
        return external_read(graph, &place, weights, err);
    return raw ? 0 : typed_read(graph, tensor, weights, err);
}

void onnx_weights_free(struct onnx_weights *weights) {
    free(weights->owned);
    weights->owned = NULL;
}
