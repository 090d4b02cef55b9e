/* grpc_pack.h - unpacks requests of services by protobuf-c, and packs responses into an answer's text. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "core/util/protobuf.h"
#include "core/util/text.h"

/* Unpacks a request, on the heap. NULL, with a sentence: it is malformed. */
static inline void *grpc_unpack(const ProtobufCMessageDescriptor *descriptor, const char *message, size_t bytes,
                                struct sy_error *err) {
    void *request = protobuf_c_message_unpack(descriptor, NULL, bytes, (const uint8_t *)message);
    if (!request)
        protobuf_malformed(err);
    return request;
}

/* Appends a message. Returns 200; without memory the text has failed. */
static inline unsigned grpc_pack(const void *response, struct text *out) {
    const ProtobufCMessage *message = response;
    size_t bytes = protobuf_c_message_get_packed_size(message);
    if (bytes > 0 && text_reserve(out, bytes))
        out->length += protobuf_c_message_pack(message, (uint8_t *)out->data + out->length);
    return 200;
}
