/* description_fields.h - tables of the fields of a struct, by which the struct is written as JSON and read back, with
 * all bounds checked. For model_description.c and ensemble_description.c only. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/container.h"
#include "core/util/error.h"

enum field_kind {
    FIELD_U32,
    FIELD_I64, /* 64-bit integers; also unsigned ones, up to INT64_MAX */
    FIELD_REAL,
    FIELD_FLAG,
    FIELD_TEXT,
    FIELD_HEX, /* 64-bit words, 16 digits each */
    FIELD_WORD,
    FIELD_DATATYPE,
};

/* OF_REQUESTS: models that differ in the field cannot answer each other's requests. OF_MACHINE: they can. */
enum field_scope { OF_REQUESTS, OF_MACHINE };

struct field {
    const char *name;
    enum field_kind kind;
    enum field_scope scope;
    size_t offset, bytes;     /* place and size of the member in the struct */
    int64_t least, most;      /* bounds of a number */
    const char *const *words; /* words of a WORD, [most + 1] */
};

#define FIELD(struct_, member, name_, kind_, scope_, ...)                                                              \
    {                                                                                                                  \
        .name = (name_), .kind = (kind_), .scope = (scope_), .offset = offsetof(struct_, member),                      \
        .bytes = sizeof(((struct_ *)NULL)->member), __VA_ARGS__                                                        \
    }
#define FROM_TO(least_, most_) .least = (least_), .most = (most_)

/* ---- writing ---- */

/* A description that is being written. */
struct field_writer {
    bool whole;  /* whether all fields are written; false: only those OF_REQUESTS */
    bool failed; /* whether a value could not be made */
};

/* Both take over `value`. NULL, a value that could not be made, marks the writer as failed. */
void field_put(struct field_writer *w, json_t *object, const char *name, json_t *value);
void field_append(struct field_writer *w, json_t *list, json_t *value);
void fields_put(struct field_writer *w, json_t *object, const struct field *fields, size_t count, const void *base);
#define FIELDS_PUT(w, object, table, base) fields_put(w, object, table, ARRAY_COUNT(table), base)
json_t *field_integers_pack(struct field_writer *w, const int64_t *values, uint32_t count);

/* ---- reading: 0, or -EINVAL with a sentence that names the field ---- */

#define FIELD_PLACE_BYTES 96

struct field_reader {
    struct sy_error *err;
    char place[FIELD_PLACE_BYTES]; /* place of what is being read, with a dot at its end: "inputs[0]." */
};

int field_wrong(struct field_reader *r, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Finds an entry, which must be there and of the JSON type. */
int field_entry(struct field_reader *r, const json_t *object, const char *name, json_type type, const char *expected,
                json_t **value);
int field_integer(struct field_reader *r, const char *name, const json_t *value, int64_t least, int64_t most,
                  int64_t *integer);
/* Reads a string of fewer than `bytes` bytes, without zero bytes. */
int field_string(struct field_reader *r, const json_t *object, const char *name, size_t bytes, const char **string);
int field_read(struct field_reader *r, const json_t *object, const struct field *field, void *base);
int fields_read(struct field_reader *r, const json_t *object, const struct field *fields, size_t count, void *base);
#define FIELDS_READ(r, object, table, base) fields_read(r, object, table, ARRAY_COUNT(table), base)
int field_list(struct field_reader *r, const json_t *object, const char *name, size_t least, size_t most, json_t **list,
               uint32_t *count);
/* Goes to an entry of a list of objects. From then on error sentences name the fields of this entry. */
int field_object_at(struct field_reader *r, const json_t *list, const char *name, uint32_t index, json_t **object);
int field_integers_read(struct field_reader *r, const json_t *list, const char *name, uint32_t count, int64_t least,
                        int64_t most, int64_t *values);
