/* onnxruntime_strings.c - copies strings into ONNX Runtime and out of it. */
#include "back/engine/onnxruntime_strings.h"

#include <errno.h>

#include "back/engine/onnxruntime_session.h"
#include "core/data/strings.h"

int onnxruntime_strings_make(const OrtApi *api, const struct tensor_view *view, OrtValue **value,
                             struct sy_error *err) {
    const char *at = view->data, *end = at + view->bytes;
    struct string element;
    OrtAllocator *allocator = NULL;
    OrtStatus *status = api->GetAllocatorWithDefaultOptions(&allocator);
    if (!status)
        status = api->CreateTensorAsOrtValue(allocator, view->dims, view->dim_count,
                                             ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, value);
    for (size_t i = 0; !status && strings_next(&at, end, &element) > 0; i++) {
        char *to; /* the library's functions that fill in strings stop at a zero byte */
        status = api->GetResizedStringTensorElementBuffer(*value, i, element.length, &to);
        if (!status && element.length > 0)
            memcpy(to, element.data, element.length);
    }
    return onnxruntime_check(api, status, err, "strings");
}

/* Copies the elements one behind the other, and notes where every `row_elements` of them begin. */
static OrtStatus *strings_copy(const OrtApi *api, const OrtValue *value, size_t elements, size_t row_elements,
                               char *data, size_t *row_at) {
    OrtStatus *status = NULL;
    char *at = data;
    for (size_t i = 0; i < elements && !status; i++) {
        size_t length;
        if (row_elements && i % row_elements == 0)
            row_at[i / row_elements] = (size_t)(at - data);
        status = api->GetStringTensorElementLength(value, i, &length);
        if (status)
            break;
        at = strings_lead(at, length);
        status = api->GetStringTensorElement(value, length, i, at);
        at += length;
    }
    return status;
}

int onnxruntime_strings_take(const OrtApi *api, OrtValue **value, struct tensor_view *view, struct sy_error *err) {
    size_t elements = (size_t)dims_product(view->dims, 0, view->dim_count);
    size_t rows = view->dim_count > 0 ? (size_t)view->dims[0] : 0, head_bytes = (rows + 1) * sizeof(size_t), length = 0;
    OrtAllocator *allocator = NULL;
    OrtValue *packed = NULL;
    size_t *row_at = NULL;
    OrtStatus *status = api->GetStringTensorDataLength(*value, &length);
    if (!status && length > UINT32_MAX)
        return error_set(err, -EIO, "an output holds %zu bytes of strings, which is too long", length);
    view->bytes = length + elements * STRING_LEAD_BYTES;
    int64_t bytes = (int64_t)(head_bytes + view->bytes);
    if (!status)
        status = api->GetAllocatorWithDefaultOptions(&allocator);
    if (!status)
        status = api->CreateTensorAsOrtValue(allocator, &bytes, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, &packed);
    if (!status)
        status = api->GetTensorMutableData(packed, (void **)&row_at);
    if (!status) {
        view->data = (char *)row_at + head_bytes;
        row_at[rows] = view->bytes;
        status = strings_copy(api, *value, elements, rows ? elements / rows : 0, view->data, row_at);
    }
    if (status) {
        api->ReleaseValue(packed);
        return onnxruntime_check(api, status, err, "strings");
    }
    if (elements == 0)
        memset(row_at, 0, head_bytes);
    view->row_at = rows ? row_at : NULL;
    api->ReleaseValue(*value);
    *value = packed;
    return 0;
}
