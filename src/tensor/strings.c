/* strings.c - walks over strings that somebody else wrote. */
#include "tensor/strings.h"

#include <errno.h>
#include <inttypes.h>

int strings_check(const void *data, size_t bytes, int64_t elements, struct sy_error *err) {
    const char *at = data, *end = at + bytes;
    struct string element;
    int64_t count = 0;
    int rc;
    while (count < elements && (rc = strings_next(&at, end, &element)) > 0)
        count++;
    if (count < elements)
        return error_set(err, -EINVAL,
                         rc < 0 ? "string %" PRId64 " is not whole: only %zu bytes are left for it and its length"
                                : "expected %" PRId64 " more strings behind %zu bytes",
                         rc < 0 ? count : elements - count, rc < 0 ? (size_t)(end - at) : bytes);
    if (at < end)
        return error_set(err, -EINVAL, "%zu bytes follow the %" PRId64 " strings", (size_t)(end - at), elements);
    return 0;
}
