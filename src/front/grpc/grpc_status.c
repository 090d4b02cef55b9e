/* grpc_status.c - converts status codes, timeouts and messages. */
#include "front/grpc/grpc_status.h"

#include <errno.h>

#include "core/util/container.h"
#include "core/util/time.h"

enum grpc_code grpc_code_of(unsigned status) {
    static const struct {
        unsigned status;
        enum grpc_code code;
    } rows[] = {
        {200, GRPC_OK},
        {400, GRPC_INVALID_ARGUMENT},
        {401, GRPC_UNAUTHENTICATED},
        {403, GRPC_PERMISSION_DENIED},
        {404, GRPC_NOT_FOUND},
        {408, GRPC_DEADLINE_EXCEEDED},
        {409, GRPC_ALREADY_EXISTS},
        {413, GRPC_RESOURCE_EXHAUSTED},
        {415, GRPC_UNIMPLEMENTED},
        {431, GRPC_RESOURCE_EXHAUSTED},
        {501, GRPC_UNIMPLEMENTED},
        {503, GRPC_UNAVAILABLE},
        {504, GRPC_DEADLINE_EXCEEDED},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(rows); i++)
        if (rows[i].status == status)
            return rows[i].code;
    return GRPC_INTERNAL;
}

const char *grpc_code_name(unsigned code) {
    static const char *const names[GRPC_CODE_COUNT] = {
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED"};
    return names[code < GRPC_CODE_COUNT ? code : GRPC_UNKNOWN];
}

int64_t grpc_timeout_parse(const char *value, size_t length) {
    static const struct {
        char unit;
        int64_t ns;
    } units[] = {{'n', 1},        {'u', NS_PER_US},     {'m', NS_PER_MS},
                 {'S', NS_PER_S}, {'M', 60 * NS_PER_S}, {'H', 3600 * NS_PER_S}};
    int64_t amount = 0;
    if (length < 2 || length > 9)
        return -EINVAL;
    for (size_t i = 0; i + 1 < length; i++) {
        if (value[i] < '0' || value[i] > '9')
            return -EINVAL;
        amount = amount * 10 + (value[i] - '0');
    }
    for (unsigned i = 0; i < ARRAY_COUNT(units); i++)
        if (units[i].unit == value[length - 1]) {
            int64_t ns;
            return __builtin_mul_overflow(amount, units[i].ns, &ns) || ns > 876000LL * 3600 * NS_PER_S
                       ? GRPC_TIMEOUT_NONE
                       : ns;
        }
    return -EINVAL;
}

size_t grpc_message_encode(const char *sentence, char *out, size_t bytes) {
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;
    for (const unsigned char *c = (const unsigned char *)sentence; *c && n + 3 <= bytes; c++) {
        if (*c >= ' ' && *c <= '~' && *c != '%') {
            out[n++] = (char)*c;
        } else {
            out[n++] = '%';
            out[n++] = digits[*c >> 4];
            out[n++] = digits[*c & 15];
        }
    }
    return n;
}
