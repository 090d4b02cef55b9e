/* model_config_json.c - writes JSON as protobuf's text format, guided by the fields of ModelConfig. */
#include "model/config/model_config_json.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "core/util/json_values.h"
#include "model/config/model_config_fields.h"

#define NAME_BYTES 64
#define DEPTH_MAX  16

struct writer {
    struct text *out;
    struct sy_error *err;
    int depth;
};

static const struct model_config_field *field_named(const char *message, const char *name) {
    for (const struct model_config_field *f = model_config_fields; f->message; f++)
        if (strcmp(f->message, message) == 0 && strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

/* Finds a field by its name in the .proto, or in lower camel case. */
static const struct model_config_field *field_of(const char *message, const char *key) {
    char snake[NAME_BYTES];
    size_t length = 0;
    const struct model_config_field *field = field_named(message, key);
    for (; !field && *key && length + 2 < sizeof(snake); key++) {
        if (isupper((unsigned char)*key))
            snake[length++] = '_';
        snake[length++] = (char)tolower((unsigned char)*key);
    }
    snake[length] = '\0';
    return field ? field : field_named(message, snake);
}

static int wrong(const struct writer *w, const struct model_config_field *field, const char *expected) {
    return error_set(w->err, -EINVAL, "config: %s.%s: expected %s", field->message, field->name, expected);
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

static int message_put(struct writer *w, const char *message, const json_t *object);

/* Writes one value of a field, behind the field's name. */
static int value_put(struct writer *w, const struct model_config_field *field, const json_t *value) {
    const char *text = json_string_value(value);
    switch (field->kind) {
    case MODEL_CONFIG_MESSAGE:
        return json_is_object(value) ? message_put(w, field->type, value) : wrong(w, field, "an object");
    case MODEL_CONFIG_STRING:
        if (!text)
            return wrong(w, field, "a string");
        string_put(w->out, text, json_string_length(value));
        return 0;
    case MODEL_CONFIG_ENUM:
        if (!text || !is_word(text))
            return wrong(w, field, "a word");
        text_put(w->out, text);
        return 0;
    case MODEL_CONFIG_BOOL:
        if (!json_is_boolean(value))
            return wrong(w, field, "true or false");
        text_put(w->out, json_is_true(value) ? "true" : "false");
        return 0;
    case MODEL_CONFIG_FLOAT:
        if (!json_is_number(value))
            return wrong(w, field, "a number");
        text_printf(w->out, "%.17g", json_number_value(value));
        return 0;
    default:
        if (!json_is_integer(value) && !(text && is_whole(text)))
            return wrong(w, field, "a whole number");
        if (text)
            text_put(w->out, text);
        else
            text_printf(w->out, "%lld", (long long)json_integer_value(value));
        return 0;
    }
}

static int field_put(struct writer *w, const struct model_config_field *field, const json_t *value) {
    text_printf(w->out, "%s: ", field->name);
    int rc = value_put(w, field, value);
    text_put_char(w->out, '\n');
    return rc;
}

static int fields_put(struct writer *w, const struct model_config_field *field, const json_t *value) {
    bool map = field->kind == MODEL_CONFIG_MESSAGE && field->repeated && field_named(field->type, "key") &&
               field_named(field->type, "value");
    if (map && json_is_object(value)) {
        /* a repeated message of key and value */
        const struct model_config_field *of_value = field_named(field->type, "value");
        const char *key;
        json_t *one;
        json_object_foreach((json_t *)value, key, one) {
            text_printf(w->out, "%s: { key: ", field->name);
            string_put(w->out, key, strlen(key));
            text_put_char(w->out, ' ');
            int rc = field_put(w, of_value, one);
            if (rc)
                return rc;
            text_put(w->out, "}\n");
        }
        return 0;
    }
    if (!field->repeated)
        return field_put(w, field, value);
    if (!json_is_array(value))
        return wrong(w, field, "a list");
    for (size_t i = 0; i < json_array_size(value); i++) {
        int rc = field_put(w, field, json_array_get(value, i));
        if (rc)
            return rc;
    }
    return 0;
}

/* Writes a message, in braces unless it is the outermost one. */
static int message_put(struct writer *w, const char *message, const json_t *object) {
    const char *key;
    json_t *value;
    if (w->depth++ == DEPTH_MAX)
        return error_set(w->err, -EINVAL, "config: more than %d objects in each other", DEPTH_MAX);
    if (w->depth > 1)
        text_put(w->out, "{\n");
    json_object_foreach((json_t *)object, key, value) {
        const struct model_config_field *field = field_of(message, key);
        if (!field)
            return error_set(w->err, -EINVAL, "config: %s has no field '%.64s'", message, key);
        int rc = json_is_null(value) ? 0 : fields_put(w, field, value);
        if (rc)
            return rc;
    }
    if (--w->depth > 0)
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
        rc = message_put(&writer, "ModelConfig", config);
    json_decref(config);
    return rc;
}
