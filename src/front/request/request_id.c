/* request_id.c - ids as clients give them, and made ones. */
#include "front/request/request_id.h"

#include <string.h>

#include "core/util/rng.h"

#define MADE_BYTES 16

/* Digits of a traceparent, VERSION-TRACE-PARENT-FLAGS. */
#define VERSION_AT 0
#define TRACE_AT   3
#define PARENT_AT  36
#define FLAGS_AT   53
#define LENGTH     55

void request_id_set(struct request_id *id, const char *text, size_t length) {
    length = length < REQUEST_ID_MAX ? length : REQUEST_ID_MAX;
    if (id->length > 0 || length == 0)
        return;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '\\') /* JSON's strings are as the client wrote them */
            return;
    memcpy(id->text, text, length);
    id->length = (uint8_t)length;
}

/* Reads bytes, two lower-case hexadecimal digits each. False: they are no such digits. *zero: whether all are 0. */
static bool hex_read(const char *text, uint8_t *bytes, size_t count, bool *zero) {
    *zero = true;
    for (size_t i = 0; i < 2 * count; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        bytes[i / 2] = (uint8_t)(bytes[i / 2] << 4 | digit);
        *zero &= digit == 0;
    }
    return true;
}

void request_id_from_trace(struct request_id *id, const char *traceparent, size_t length) {
    struct trace_context trace = {.flags = 0};
    uint8_t version = 0;
    bool zero, no_trace, no_parent;
    /* later versions may have more behind a '-' */
    if (length < LENGTH || traceparent[TRACE_AT - 1] != '-' || traceparent[PARENT_AT - 1] != '-' ||
        traceparent[FLAGS_AT - 1] != '-' || !hex_read(traceparent + VERSION_AT, &version, 1, &zero) ||
        version == 0xff || (length > LENGTH && (version == 0 || traceparent[LENGTH] != '-')) ||
        !hex_read(traceparent + TRACE_AT, trace.trace, sizeof(trace.trace), &no_trace) || no_trace ||
        !hex_read(traceparent + PARENT_AT, trace.parent, sizeof(trace.parent), &no_parent) || no_parent ||
        !hex_read(traceparent + FLAGS_AT, &trace.flags, 1, &zero))
        return;
    trace.flags = TRACE_GIVEN | (trace.flags & TRACE_SAMPLED);
    id->trace = trace;
    request_id_set(id, traceparent + TRACE_AT, 2 * sizeof(trace.trace));
}

void request_id_make(struct request_id *id, uint64_t number) {
    if (id->length > 0)
        return;
    number = rng_mix(number);
    for (int i = 0; i < MADE_BYTES; i++, number <<= 4)
        id->text[i] = "0123456789abcdef"[number >> 60];
    id->length = MADE_BYTES;
}
