/* request_id.c - ids as clients give them, and made ones. */
#include "front/request/request_id.h"

#include <string.h>

#define TRACE_AT    3  /* place of the trace's id in a traceparent, after the version: 00-TRACE-PARENT-FLAGS */
#define TRACE_BYTES 32 /* its digits */
#define MADE_BYTES  16

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

void request_id_from_trace(struct request_id *id, const char *traceparent, size_t length) {
    if (length > TRACE_AT + TRACE_BYTES && traceparent[TRACE_AT - 1] == '-' &&
        traceparent[TRACE_AT + TRACE_BYTES] == '-')
        request_id_set(id, traceparent + TRACE_AT, TRACE_BYTES);
}

void request_id_make(struct request_id *id, uint64_t number) {
    if (id->length > 0)
        return;
    /* the last steps of splitmix64, each of which has an inverse: ids of numbers in a row have nothing in common */
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9ULL;
    number = (number ^ number >> 27) * 0x94d049bb133111ebULL;
    number ^= number >> 31;
    for (int i = 0; i < MADE_BYTES; i++, number <<= 4)
        id->text[i] = "0123456789abcdef"[number >> 60];
    id->length = MADE_BYTES;
}
