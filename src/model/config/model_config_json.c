/* model_config_json.c - writes JSON as protobuf's text format, guided by the fields of ModelConfig. */
#include "model/config/model_config_json.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "core/util/json_values.h"
#include "model_config.pb-c.h"

#define NAME_BYTES 64
#define DEPTH_MAX  16

struct writer {
    struct text *out;
    struct sy_error *err;
    int depth;
    const ProtobufCMessageDescriptor *message; /* message and field that are being written */
    const ProtobufCFieldDescriptor *field;
};

/* Finds a field by its name in the .proto, or in lower camel case. */
static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *message, const char *key) {
    char snake[NAME_BYTES];
    size_t length = 0;
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message, key);
    for (; !field && *key && length + 2 < sizeof(snake); key++) {
        if (isupper((unsigned char)*key))
            snake[length++] = '_';
        snake[length++] = (char)tolower((unsigned char)*key);
    }
    snake[length] = '\0';
    return field ? field : protobuf_c_message_descriptor_get_field_by_name(message, snake);
}

static const char *message_name(const ProtobufCMessageDescriptor *message) {
    return message->name + strlen(message->package_name) + 1;
}

static int wrong(const struct writer *w, const char *expected) {
    return error_set(w->err, -EINVAL, "config: %s.%s: expected %s", message_name(w->message), w->field->name, expected);
}

static void string_put(struct text *out, const char *string, size_t length) {
    text_put_char(out, '"');
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)string[i];
        if (c < ' ' || c == '"' || c == '\\' || c == 0x7f)
            text_printf(out, "\\%03o", c);
        else
            text_put_char(out, string[i]);
    }
    text_put_char(out, '"');
}

static bool is_word(const char *text) {
    for (const char *at = text; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '_')
            return false;
    return isalpha((unsigned char)*text);
}

static bool is_whole(const char *text) {
    size_t sign = text[0] == '-', digits = strspn(text + sign, "0123456789");
    return digits > 0 && digits <= 20 && text[sign + digits] == '\0';
}

static int message_put(struct writer *w, const ProtobufCMessageDescriptor *message, const json_t *object);

/* Writes one value of a field, behind the field's name. */
static int value_put(struct writer *w, const ProtobufCFieldDescriptor *field, const json_t *value) {
    const char *text = json_string_value(value);
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return json_is_object(value) ? message_put(w, field->descriptor, value) : wrong(w, "an object");
    case PROTOBUF_C_TYPE_STRING:
        if (!text)
            return wrong(w, "a string");
        string_put(w->out, text, json_string_length(value));
        return 0;
    case PROTOBUF_C_TYPE_ENUM:
        if (!text || !is_word(text))
            return wrong(w, "a word");
        text_put(w->out, text);
        return 0;
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(value))
            return wrong(w, "true or false");
        text_put(w->out, json_is_true(value) ? "true" : "false");
        return 0;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
        if (!json_is_number(value))
            return wrong(w, "a number");
        text_printf(w->out, "%.17g", json_number_value(value));
        return 0;
    default:
        if (!json_is_integer(value) && !(text && is_whole(text)))
            return wrong(w, "a whole number");
        if (text)
            text_put(w->out, text);
        else
            text_printf(w->out, "%lld", (long long)json_integer_value(value));
        return 0;
    }
}

static int field_put(struct writer *w, const ProtobufCFieldDescriptor *field, const json_t *value) {
    text_printf(w->out, "%s: ", field->name);
    int rc = value_put(w, field, value);
    text_put_char(w->out, '\n');
    return rc;
}

static int fields_put(struct writer *w, const ProtobufCFieldDescriptor *field, const json_t *value) {
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    const ProtobufCMessageDescriptor *entry =
        repeated && field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;
    const ProtobufCFieldDescriptor *of_key =
                                       entry ? protobuf_c_message_descriptor_get_field_by_name(entry, "key") : NULL,
                                   *of_value =
                                       of_key ? protobuf_c_message_descriptor_get_field_by_name(entry, "value") : NULL;
    if (of_value && json_is_object(value)) { /* a map: a repeated message of key and value */
        const char *key;
        json_t *one;
        json_object_foreach((json_t *)value, key, one) {
            text_printf(w->out, "%s: { key: ", field->name);
            if (of_key->type == PROTOBUF_C_TYPE_STRING)
                string_put(w->out, key, strlen(key));
            else if (is_whole(key))
                text_put(w->out, key);
            else
                return wrong(w, "whole numbers as keys");
            text_put_char(w->out, ' ');
            int rc = field_put(w, of_value, one);
            if (rc)
                return rc;
            text_put(w->out, "}\n");
        }
        return 0;
    }
    if (!repeated)
        return field_put(w, field, value);
    if (!json_is_array(value))
        return wrong(w, "a list");
    for (size_t i = 0; i < json_array_size(value); i++) {
        int rc = field_put(w, field, json_array_get(value, i));
        if (rc)
            return rc;
    }
    return 0;
}

/* Writes a message, in braces unless it is the outermost one. */
static int message_put(struct writer *w, const ProtobufCMessageDescriptor *message, const json_t *object) {
    const struct writer outer = *w;
    const char *key;
    json_t *value;
    if (w->depth++ == DEPTH_MAX)
        return error_set(w->err, -EINVAL, "config: more than %d objects in each other", DEPTH_MAX);
    if (w->depth > 1)
        text_put(w->out, "{\n");
    json_object_foreach((json_t *)object, key, value) {
        const ProtobufCFieldDescriptor *field = field_of(message, key);
        if (!field)
            return error_set(w->err, -EINVAL, "config: %s has no field '%.64s'", message_name(message), key);
        w->message = message;
        w->field = field;
        int rc = json_is_null(value) ? 0 : fields_put(w, field, value);
        if (rc)
            return rc;
    }
    *w = outer;
    if (w->depth > 0)
        text_put(w->out, "}\n");
    return 0;
}

int model_config_of_json(const char *json, size_t bytes, struct text *out, struct sy_error *err) {
    struct writer writer = {.out = out, .err = err};
    json_error_t error;
    int rc = -EINVAL;
    if (json_values_most(json, bytes) > JSON_VALUES_MAX)
        return error_set(err, rc, "config: the JSON has more than %d values", JSON_VALUES_MAX);
    json_t *config = json_loadb(json, bytes, 0, &error);
    if (!config)
        error_set(err, rc, "config: the JSON is wrong: %s at byte %d", error.text, error.position);
    else if (!json_is_object(config))
        error_set(err, rc, "config: expected an object");
    else
        rc = message_put(&writer, &inference__model_config__descriptor, config);
    json_decref(config);
    return rc;
}
