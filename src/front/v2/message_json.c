/* message_json.c - walks a protobuf message by its descriptor. */
#include "front/v2/message_json.h"

#include <inttypes.h>

#include "front/v2/json_put.h"

/* The size in C of one value of a type. */
static size_t value_bytes(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return 4;
    }
}

static void value_put(struct text *text, const ProtobufCFieldDescriptor *field, const void *value) {
    const ProtobufCEnumValue *word;
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        text_printf(text, "%" PRId32, *(const int32_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        json_put_unsigned(text, *(const uint32_t *)value);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        text_printf(text, "%" PRId64, *(const int64_t *)value);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        json_put_unsigned(text, *(const uint64_t *)value);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        text_printf(text, "%.9g", (double)*(const float *)value);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        text_printf(text, "%.17g", *(const double *)value);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        text_put(text, *(const protobuf_c_boolean *)value ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        word = protobuf_c_enum_descriptor_get_value(field->descriptor, *(const int *)value);
        json_put_string(text, word ? word->name : "");
        break;
    case PROTOBUF_C_TYPE_STRING:
        json_put_string(text, *(char *const *)value);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        message_json_put(text, *(ProtobufCMessage *const *)value, false);
        break;
    case PROTOBUF_C_TYPE_BYTES: /* no answer holds any */
        text_put(text, "\"\"");
        break;
    }
}

/* A map is repeated entries of a key and a value. */
static bool is_map(const ProtobufCFieldDescriptor *field) {
    static const char suffix[] = "Entry";
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE || entry->n_fields != 2)
        return false;
    size_t length = strlen(entry->short_name);
    return length > sizeof(suffix) - 1 && strcmp(entry->short_name + length - (sizeof(suffix) - 1), suffix) == 0 &&
           strcmp(entry->fields[0].name, "key") == 0 && strcmp(entry->fields[1].name, "value") == 0;
}

static void entry_put(struct text *text, const ProtobufCMessage *entry) {
    const ProtobufCFieldDescriptor *fields = entry->descriptor->fields;
    const char *quote = fields[0].type == PROTOBUF_C_TYPE_STRING ? "" : "\""; /* in JSON, keys are strings */
    text_put(text, quote);
    value_put(text, &fields[0], (const char *)entry + fields[0].offset);
    text_put(text, quote);
    text_put_char(text, ':');
    value_put(text, &fields[1], (const char *)entry + fields[1].offset);
}

static void repeated_put(struct text *text, const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
    size_t count = *(const size_t *)((const char *)message + field->quantifier_offset);
    const char *values = *(char *const *)((const char *)message + field->offset);
    bool map = is_map(field);
    text_put_char(text, map ? '{' : '[');
    for (size_t i = 0; i < count; i++) {
        const char *value = values + i * value_bytes(field->type);
        if (i > 0)
            text_put_char(text, ',');
        if (map)
            entry_put(text, *(ProtobufCMessage *const *)value);
        else
            value_put(text, field, value);
    }
    text_put_char(text, map ? '}' : ']');
}

/* Whether a field that is not repeated is there. */
static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
    const char *at = (const char *)message;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(at + field->quantifier_offset) == field->id;
    return field->type != PROTOBUF_C_TYPE_MESSAGE || *(ProtobufCMessage *const *)(at + field->offset);
}

static bool is_empty(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
    return field->type == PROTOBUF_C_TYPE_STRING && **(char *const *)((const char *)message + field->offset) == '\0';
}

void message_json_put(struct text *text, const ProtobufCMessage *message, bool brief) {
    bool any = false;
    text_put_char(text, '{');
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        if (!repeated && (!is_set(message, field) || (brief && is_empty(message, field))))
            continue;
        if (any)
            text_put_char(text, ',');
        any = true;
        text_put_char(text, '"');
        text_put(text, field->name);
        text_put(text, "\":");
        if (repeated)
            repeated_put(text, message, field);
        else
            value_put(text, field, (const char *)message + field->offset);
    }
    text_put_char(text, '}');
}
