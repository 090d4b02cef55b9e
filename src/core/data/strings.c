/* strings.c - walks over tensors of strings that clients or models wrote. */
#include "core/data/strings.h"

#include <errno.h>
#include <inttypes.h>

#include "core/system/yield.h"

#define SLICE_ELEMENTS 16384 /* elements between yield points: some 30 us */

int strings_rows(const struct tensor_view *whole, uint32_t count, size_t *begin, struct tensor_view *rows) {
    if (whole->dim_count == 0 || whole->dims[0] < (int64_t)count || *begin > whole->bytes)
        return -EINVAL;
    const char *data = whole->data, *at = data + *begin, *end = data + whole->bytes;
    int64_t elements = count * dims_product(whole->dims, 1, whole->dim_count);
    struct string element;
    for (int64_t i = 0; i < elements; i++)
        if (strings_next(&at, end, &element) <= 0)
            return -EINVAL;
    *rows = *whole;
    rows->data = (char *)(uintptr_t)data + *begin;
    rows->bytes = (size_t)(at - data) - *begin;
    rows->dims[0] = count;
    rows->row_at = NULL;
    *begin += rows->bytes;
    return 0;
}

int strings_check(const void *data, size_t bytes, int64_t elements, struct sy_error *err) {
    const char *at = data, *end = at + bytes;
    struct string element;
    int64_t count = 0;
    int rc;
    while (count < elements && (rc = strings_next(&at, end, &element)) > 0)
        if (++count % SLICE_ELEMENTS == 0)
            yield_point();
    if (count < elements)
        return error_set(err, -EINVAL,
                         rc < 0 ? "string %" PRId64 " is not whole: only %zu bytes are left for it and its length"
                                : "expected %" PRId64 " more strings behind %zu bytes",
                         rc < 0 ? count : elements - count, rc < 0 ? (size_t)(end - at) : bytes);
    if (at < end)
        return error_set(err, -EINVAL, "%zu bytes follow the %" PRId64 " strings", (size_t)(end - at), elements);
    return 0;
}
