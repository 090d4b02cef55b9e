/* tensor.c - the names and sizes of data types; the size of shapes. */
#include "core/data/tensor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t bytes, onnx;
} datatypes[DATATYPE_COUNT] = {
    [DATATYPE_INVALID] = {"INVALID", 0, 0}, [DATATYPE_BOOL] = {"BOOL", 1, 9},
    [DATATYPE_UINT8] = {"UINT8", 1, 2},     [DATATYPE_UINT16] = {"UINT16", 2, 4},
    [DATATYPE_UINT32] = {"UINT32", 4, 12},  [DATATYPE_UINT64] = {"UINT64", 8, 13},
    [DATATYPE_INT8] = {"INT8", 1, 3},       [DATATYPE_INT16] = {"INT16", 2, 5},
    [DATATYPE_INT32] = {"INT32", 4, 6},     [DATATYPE_INT64] = {"INT64", 8, 7},
    [DATATYPE_FP16] = {"FP16", 2, 10},      [DATATYPE_FP32] = {"FP32", 4, 1},
    [DATATYPE_FP64] = {"FP64", 8, 11},      [DATATYPE_BF16] = {"BF16", 2, 16},
    [DATATYPE_BYTES] = {"BYTES", 0, 8},
};

const char *datatype_name(enum datatype type) {
    return datatypes[(unsigned)type < DATATYPE_COUNT ? type : DATATYPE_INVALID].name;
}

enum datatype datatype_parse(const char *name, size_t length) {
    for (int type = DATATYPE_INVALID + 1; type < DATATYPE_COUNT; type++)
        if (strlen(datatypes[type].name) == length && memcmp(datatypes[type].name, name, length) == 0)
            return type;
    return DATATYPE_INVALID;
}

size_t datatype_bytes(enum datatype type) {
    return (unsigned)type < DATATYPE_COUNT ? datatypes[type].bytes : 0;
}

int datatype_onnx(enum datatype type) {
    return datatypes[type].onnx;
}

size_t datatype_bytes_min(enum datatype type) {
    return type == DATATYPE_BYTES ? STRING_LEAD_BYTES : datatype_bytes(type);
}

bool datatype_fits(enum datatype type, uint64_t elements, uint64_t bytes) {
    size_t least = datatype_bytes_min(type);
    return least && bytes / least >= elements && (type == DATATYPE_BYTES || bytes == elements * least);
}

int tensor_rows(const struct tensor_view *whole, uint32_t first, uint32_t count, struct tensor_view *rows) {
    if (whole->dim_count == 0 || whole->dims[0] < (int64_t)first + count)
        return -EINVAL;
    if (first == 0 && count == whole->dims[0]) { /* all rows, whatever their lengths */
        *rows = *whole;
        rows->row_at = NULL;
        return 0;
    }
    size_t row_bytes = whole->dims[0] > 0 ? whole->bytes / (size_t)whole->dims[0] : 0;
    size_t begin = whole->row_at ? whole->row_at[first] : first * row_bytes;
    size_t end = whole->row_at ? whole->row_at[first + count] : begin + count * row_bytes;
    *rows = *whole;
    rows->data = whole->data ? (char *)whole->data + begin : NULL; /* a view without data has rows without data */
    rows->bytes = end - begin;
    rows->dims[0] = count;
    rows->row_at = NULL;
    return 0;
}

int tensor_reshape(struct tensor_view *view, const int64_t *from, uint32_t from_rank, const int64_t *to,
                   uint32_t to_rank) {
    int64_t dims[TENSOR_DIMS_MAX];
    uint32_t open = 0; /* place in `from` behind the last -1 that was used */
    if (view->dim_count != from_rank)
        return -EINVAL;
    for (uint32_t i = 0; i < to_rank; i++) {
        dims[i] = to[i];
        if (to[i] != -1)
            continue;
        while (open < from_rank && from[open] != -1)
            open++;
        if (open == from_rank)
            return -EINVAL;
        dims[i] = view->dims[open++];
    }
    if (dims_product(dims, 0, to_rank) != dims_product(view->dims, 0, view->dim_count))
        return -EINVAL;
    view->dim_count = to_rank;
    memcpy(view->dims, dims, to_rank * sizeof(dims[0]));
    return 0;
}

int64_t dims_extent(const int64_t *dims, uint32_t from, uint32_t dim_count) {
    int64_t product = 1;
    for (uint32_t i = from; i < dim_count; i++)
        if (dims[i] < 0)
            return -1;
    for (uint32_t i = from; i < dim_count; i++)
        if (dims[i] > 0 && (__builtin_mul_overflow(product, dims[i], &product) || product > (1LL << 62)))
            return -1;
    return product;
}

int64_t dims_product(const int64_t *dims, uint32_t from, uint32_t dim_count) {
    bool unknown = false, empty = false;
    for (uint32_t i = from; i < dim_count; i++) {
        unknown |= dims[i] < 0;
        empty |= dims[i] == 0;
    }
    return unknown ? -1 : empty ? 0 : dims_extent(dims, from, dim_count);
}

void dims_format(const int64_t *dims, uint32_t from, uint32_t dim_count, char *text, size_t bytes) {
    size_t at = (size_t)snprintf(text, bytes, "[");
    for (uint32_t i = from; i < dim_count && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%lld", i > from ? "," : "", (long long)dims[i]);
    if (at < bytes)
        snprintf(text + at, bytes - at, "]");
}
