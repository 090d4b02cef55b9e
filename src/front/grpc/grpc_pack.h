/* grpc_pack.h - messages of protobuf-c, from bytes and to an answer's text. For the answers of services. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "core/util/protobuf.h"
#include "core/util/text.h"

/* The request as the method knows it, on the heap; NULL with 400 if it is none. */
static inline void *grpc_unpack(const ProtobufCMessageDescriptor *descriptor, const char *message, size_t bytes,
                                struct sy_error *err) {
    void *request = protobuf_c_message_unpack(descriptor, NULL, bytes, (const uint8_t *)message);
    if (!request)
        protobuf_malformed(err);
    return request;
}

/* Appends a message. 200; without memory the text has failed. */
static inline unsigned grpc_pack(const void *response, struct text *out) {
    const ProtobufCMessage *message = response;
    size_t bytes = protobuf_c_message_get_packed_size(message);
    if (bytes > 0 && text_reserve(out, bytes))
        out->length += protobuf_c_message_pack(message, (uint8_t *)out->data + out->length);
    return 200;
}
