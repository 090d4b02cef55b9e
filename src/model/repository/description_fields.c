/* description_fields.c - writes and reads the fields of tables. */
#include "model/repository/description_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/tensor.h"

/* ---- writing ---- */

static json_t *value_pack(const struct field *field, const void *base) {
    const char *at = (const char *)base + field->offset;
    char digits[33] = "";
    uint64_t part;
    uint32_t word = 0;
    switch (field->kind) {
    case FIELD_U32:
        return json_integer(*(const uint32_t *)at);
    case FIELD_I64:
        return json_integer(*(const int64_t *)at);
    case FIELD_REAL:
        return json_real(*(const double *)at);
    case FIELD_FLAG:
        return json_boolean(*(const bool *)at);
    case FIELD_TEXT:
        return json_string(at);
    case FIELD_HEX:
        for (size_t i = 0; i < field->bytes / sizeof(part); i++) {
            memcpy(&part, at + i * sizeof(part), sizeof(part));
            snprintf(digits + 16 * i, 17, "%016" PRIx64, part);
        }
        return json_string(digits);
    case FIELD_WORD:
        memcpy(&word, at, field->bytes); /* the member has one byte or four, little-endian */
        return json_string(field->words[word]);
    case FIELD_DATATYPE:
        return json_string(datatype_name(*(const enum datatype *)at));
    }
    return NULL;
}

void field_put(struct field_writer *w, json_t *object, const char *name, json_t *value) {
    w->failed |= json_object_set_new(object, name, value) != 0; /* jansson returns -1 also for a value that is NULL */
}

void field_append(struct field_writer *w, json_t *list, json_t *value) {
    w->failed |= json_array_append_new(list, value) != 0;
}

void fields_put(struct field_writer *w, json_t *object, const struct field *fields, size_t count, const void *base) {
    for (size_t i = 0; i < count; i++)
        if (w->whole || fields[i].scope == OF_REQUESTS)
            field_put(w, object, fields[i].name, value_pack(&fields[i], base));
}

json_t *field_integers_pack(struct field_writer *w, const int64_t *values, uint32_t count) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        field_append(w, list, json_integer(values[i]));
    return list;
}

/* ---- reading ---- */

int field_wrong(struct field_reader *r, const char *name, const char *fmt, ...) {
    char sentence[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return error_set(r->err, -EINVAL, "model description: %s%s: %s", r->place, name, sentence);
}

int field_entry(struct field_reader *r, const json_t *object, const char *name, json_type type, const char *expected,
                json_t **value) {
    *value = json_object_get(object, name);
    if (!*value)
        return field_wrong(r, name, "missing");
    return json_typeof(*value) == type ? 0 : field_wrong(r, name, "expected %s", expected);
}

int field_integer(struct field_reader *r, const char *name, const json_t *value, int64_t least, int64_t most,
                  int64_t *integer) {
    *integer = json_integer_value(value);
    if (json_is_integer(value) && *integer >= least && *integer <= most)
        return 0;
    return field_wrong(r, name, "expected a whole number from %lld to %lld", (long long)least, (long long)most);
}

int field_string(struct field_reader *r, const json_t *object, const char *name, size_t bytes, const char **string) {
    json_t *value;
    int rc = field_entry(r, object, name, JSON_STRING, "a string", &value);
    if (rc)
        return rc;
    *string = json_string_value(value);
    size_t length = json_string_length(value);
    if (length >= bytes || strlen(*string) != length)
        return field_wrong(r, name, "expected at most %zu bytes, none of them zero", bytes - 1);
    return 0;
}

static int string_read(struct field_reader *r, const json_t *object, const struct field *field, char *at) {
    const char *string;
    size_t bytes = field->kind == FIELD_TEXT ? field->bytes : 64;
    int rc = field_string(r, object, field->name, bytes, &string);
    if (rc)
        return rc;
    if (field->kind == FIELD_TEXT) {
        strcpy(at, string);
        return 0;
    }
    if (field->kind == FIELD_HEX) {
        size_t digits = 2 * field->bytes;
        if (strlen(string) != digits || strspn(string, "0123456789abcdef") != digits)
            return field_wrong(r, field->name, "expected %zu hexadecimal digits", digits);
        for (size_t i = 0; i < field->bytes / sizeof(uint64_t); i++) {
            char word[17] = "";
            memcpy(word, string + 16 * i, 16);
            memcpy(at + i * sizeof(uint64_t), &(uint64_t){strtoull(word, NULL, 16)}, sizeof(uint64_t));
        }
        return 0;
    }
    for (uint32_t word = 0; field->kind == FIELD_WORD && word <= field->most; word++)
        if (strcmp(field->words[word], string) == 0) {
            memcpy(at, &word, field->bytes);
            return 0;
        }
    if (field->kind == FIELD_DATATYPE) {
        *(enum datatype *)at = datatype_parse(string, strlen(string));
        if (*(enum datatype *)at != DATATYPE_INVALID)
            return 0;
    }
    return field_wrong(r, field->name, "'%.40s' is not known", string);
}

int field_read(struct field_reader *r, const json_t *object, const struct field *field, void *base) {
    char *at = (char *)base + field->offset;
    int64_t integer;
    const json_t *value = json_object_get(object, field->name);
    if (!value)
        return field_wrong(r, field->name, "missing");
    switch (field->kind) {
    case FIELD_U32:
    case FIELD_I64: {
        int rc = field_integer(r, field->name, value, field->least, field->most, &integer);
        if (!rc)
            memcpy(at, &integer, field->bytes);
        return rc;
    }
    case FIELD_REAL:
        *(double *)at = json_number_value(value);
        if (json_is_number(value) && *(double *)at >= (double)field->least && *(double *)at <= (double)field->most)
            return 0;
        return field_wrong(r, field->name, "expected a number from %lld to %lld", (long long)field->least,
                           (long long)field->most);
    case FIELD_FLAG:
        *(bool *)at = json_is_true(value);
        return json_is_boolean(value) ? 0 : field_wrong(r, field->name, "expected true or false");
    default:
        return string_read(r, object, field, at);
    }
}

int fields_read(struct field_reader *r, const json_t *object, const struct field *fields, size_t count, void *base) {
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++)
        rc = field_read(r, object, &fields[i], base);
    return rc;
}

int field_list(struct field_reader *r, const json_t *object, const char *name, size_t least, size_t most, json_t **list,
               uint32_t *count) {
    int rc = field_entry(r, object, name, JSON_ARRAY, "a list", list);
    if (rc)
        return rc;
    *count = (uint32_t)json_array_size(*list);
    return json_array_size(*list) >= least && json_array_size(*list) <= most
               ? 0
               : field_wrong(r, name, "expected %zu to %zu entries", least, most);
}

int field_object_at(struct field_reader *r, const json_t *list, const char *name, uint32_t index, json_t **object) {
    r->place[0] = '\0';
    char entry[FIELD_PLACE_BYTES - 1];
    snprintf(entry, sizeof(entry), "%s[%u]", name, index);
    *object = json_array_get(list, index);
    if (!json_is_object(*object))
        return field_wrong(r, entry, "expected an object");
    snprintf(r->place, sizeof(r->place), "%s.", entry);
    return 0;
}

int field_integers_read(struct field_reader *r, const json_t *list, const char *name, uint32_t count, int64_t least,
                        int64_t most, int64_t *values) {
    int rc = 0;
    for (uint32_t i = 0; i < count && !rc; i++) {
        char entry[64];
        snprintf(entry, sizeof(entry), "%s[%u]", name, i);
        rc = field_integer(r, entry, json_array_get(list, i), least, most, &values[i]);
    }
    return rc;
}
