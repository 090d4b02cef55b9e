/* protobuf.h - reading and writing protobuf's wire format, field by field, without a message in memory.
 *
 * For messages that must not be unpacked: infer requests and answers, and ONNX models. Others use protobuf-c. Strings
 * and bytes are not copied: they stay in the input. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/util/error.h"
#include "core/util/text.h"

enum protobuf_wire { PROTOBUF_VARINT = 0, PROTOBUF_64BIT = 1, PROTOBUF_BYTES = 2, PROTOBUF_32BIT = 5 };
#define PROTOBUF_VARINT_MAX 10 /* bytes of the longest varint */

struct protobuf_in {
    const uint8_t *at, *end;
};

struct protobuf_field {
    uint32_t number;
    enum protobuf_wire wire;
    uint64_t value;      /* value of a VARINT, 64BIT or 32BIT field; length of a BYTES field */
    const uint8_t *data; /* data of a BYTES field, in the input */
};

static inline bool protobuf_varint(struct protobuf_in *in, uint64_t *value) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        uint8_t byte = *in->at++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = v;
            return true;
        }
    }
    return false;
}

static inline bool protobuf_fixed(struct protobuf_in *in, size_t bytes, uint64_t *value) {
    if ((size_t)(in->end - in->at) < bytes)
        return false;
    *value = 0;
    memcpy(value, in->at, bytes); /* little-endian, as every machine this runs on */
    in->at += bytes;
    return true;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors and fixed-size fields are read as they lie");

/* Reads the number and wire type of the next field and, if the type is BYTES, the length into field->value.
 * protobuf_value() reads the rest of the field. False: the input is no protobuf. */
static inline bool protobuf_tag(struct protobuf_in *in, struct protobuf_field *field) {
    uint64_t tag;
    if (!protobuf_varint(in, &tag) || tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1)
        return false;
    field->data = NULL;
    field->number = (uint32_t)(tag >> 3);
    field->wire = tag & 7;
    return field->wire != PROTOBUF_BYTES || protobuf_varint(in, &field->value);
}

/* Reads what follows the tag of a field. Groups are refused: none of the messages that this program reads has a
 * group. */
static inline bool protobuf_value(struct protobuf_in *in, struct protobuf_field *field) {
    switch (field->wire) {
    case PROTOBUF_VARINT:
        return protobuf_varint(in, &field->value);
    case PROTOBUF_64BIT:
        return protobuf_fixed(in, 8, &field->value);
    case PROTOBUF_32BIT:
        return protobuf_fixed(in, 4, &field->value);
    case PROTOBUF_BYTES:
        if ((uint64_t)(in->end - in->at) < field->value)
            return false;
        field->data = in->at;
        in->at += field->value;
        return true;
    }
    return false;
}

/* Takes the next field. 1; 0 at the end of the input; -1: the input is no protobuf. */
static inline int protobuf_next(struct protobuf_in *in, struct protobuf_field *field) {
    if (in->at == in->end)
        return 0;
    return protobuf_tag(in, field) && protobuf_value(in, field) ? 1 : -1;
}

/* The fields inside a field that is a message. */
static inline struct protobuf_in protobuf_inside(const struct protobuf_field *field) {
    return (struct protobuf_in){field->data, field->data + field->value};
}

/* The error for a client's message that is no protobuf: 400, since errors of requests are HTTP statuses, with a
 * sentence. */
static inline int protobuf_malformed(struct sy_error *err) {
    return error_set(err, 400, "the message is not valid protobuf");
}

enum { PROTOBUF_ENTRY_KEY = 1, PROTOBUF_ENTRY_VALUE = 2 };

/* An entry of a map<string, M>. Only one field of the message M counts: the last one, as in a oneof. */
struct protobuf_entry {
    const char *key; /* characters of the key, not terminated */
    size_t key_length;
    struct protobuf_field value; /* field of M that counts; number 0: M has no field */
};

/* Reads the entry that `field` holds. False: the entry is no protobuf. */
static inline bool protobuf_entry_read(const struct protobuf_field *field, struct protobuf_entry *entry) {
    struct protobuf_in in = protobuf_inside(field);
    struct protobuf_field part;
    int rc, more = 0;
    *entry = (struct protobuf_entry){.key = ""};
    while (more == 0 && (rc = protobuf_next(&in, &part)) > 0) {
        if (part.wire != PROTOBUF_BYTES)
            continue;
        if (part.number == PROTOBUF_ENTRY_KEY) {
            entry->key = (const char *)part.data;
            entry->key_length = part.value;
        } else if (part.number == PROTOBUF_ENTRY_VALUE) {
            struct protobuf_in value = protobuf_inside(&part);
            while ((more = protobuf_next(&value, &entry->value)) > 0)
                ;
        }
    }
    return more == 0 && rc == 0;
}

/* ---- writing ---- */

static inline size_t protobuf_varint_bytes(uint64_t value) {
    return (size_t)(70 - __builtin_clzll(value | 1)) / 7;
}

static inline void protobuf_put_varint(struct text *text, uint64_t value) {
    char bytes[PROTOBUF_VARINT_MAX];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (char)(value | 0x80);
    bytes[n++] = (char)value;
    text_append(text, bytes, n);
}

static inline void protobuf_put_tag(struct text *text, uint32_t number, enum protobuf_wire wire) {
    protobuf_put_varint(text, (uint64_t)number << 3 | wire);
}

/* Writes the tag and length of a BYTES field, whose `length` bytes the caller writes next. */
static inline void protobuf_put_head(struct text *text, uint32_t number, size_t length) {
    protobuf_put_tag(text, number, PROTOBUF_BYTES);
    protobuf_put_varint(text, length);
}

static inline void protobuf_put_bytes(struct text *text, uint32_t number, const void *data, size_t length) {
    protobuf_put_head(text, number, length);
    text_append(text, data, length);
}
