/* reflection.c - looks into the descriptors of proto/, which the build embeds as protoc wrote them (a
 * FileDescriptorSet).
 */
#include "front/grpc/reflection.h"

#include "core/util/container.h"
#include "core/util/protobuf.h"
#include "front/grpc/grpc_status.h"

static const uint8_t descriptor_set[] = {
#include "descriptor_set.inc"
};

/* Fields of descriptor.proto; a name is number 1 of whatever has one. */
enum {
    SET_FILE = 1,
    NAME = 1,
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6
};
enum { MESSAGE_FIELD = 2, MESSAGE_NESTED = 3, MESSAGE_ENUM = 4, MESSAGE_ONEOF = 8, MEMBER = 2 };
/* Fields of reflection.proto. */
enum { REQUEST_HOST = 1, BY_FILENAME = 3, BY_SYMBOL = 4, BY_EXTENSION = 5, EXTENSIONS_OF = 6, LIST_SERVICES = 7 };
enum { RESPONSE_HOST = 1, RESPONSE_REQUEST = 2, RESPONSE_FILES = 4, RESPONSE_EXTENSIONS = 5, RESPONSE_SERVICES = 6 };
enum { RESPONSE_ERROR = 7, ERROR_CODE = 1, ERROR_MESSAGE = 2 };

#define FILES_MAX 32

/* A piece of text that lies in a message. */
struct word {
    const char *at;
    size_t length;
};

static struct word word_of(const struct protobuf_field *field) {
    return (struct word){(const char *)field->data, field->value};
}

static bool word_equal(struct word a, struct word b) {
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

/* Cuts `first` and the dot after it off the front. False if that is not how it begins. */
static bool word_cut(struct word *word, struct word first) {
    if (word->length <= first.length || memcmp(word->at, first.at, first.length) != 0 || word->at[first.length] != '.')
        return false;
    word->at += first.length + 1;
    word->length -= first.length + 1;
    return true;
}

static struct protobuf_in all_files(void) {
    return (struct protobuf_in){descriptor_set, descriptor_set + sizeof(descriptor_set)};
}

/* The next field of this number that is a message or text. */
static bool next_of(struct protobuf_in *in, uint32_t number, struct protobuf_field *field) {
    while (protobuf_next(in, field) > 0)
        if (field->number == number && field->wire == PROTOBUF_BYTES)
            return true;
    return false;
}

static struct word text_of(struct protobuf_in in, uint32_t number) {
    struct protobuf_field field;
    return next_of(&in, number, &field) ? word_of(&field) : (struct word){"", 0};
}

/* ---- symbols ---- */

enum kind { KIND_FILE, KIND_MESSAGE, KIND_LIST, KIND_MEMBER };

/* Fields of a kind of descriptor that hold named descriptors. */
static const struct {
    enum kind within;
    uint32_t number;
    enum kind kind;
} children[] = {
    {KIND_FILE, FILE_MESSAGE, KIND_MESSAGE},      {KIND_FILE, FILE_ENUM, KIND_LIST},
    {KIND_FILE, FILE_SERVICE, KIND_LIST},         {KIND_MESSAGE, MESSAGE_FIELD, KIND_MEMBER},
    {KIND_MESSAGE, MESSAGE_NESTED, KIND_MESSAGE}, {KIND_MESSAGE, MESSAGE_ENUM, KIND_LIST},
    {KIND_MESSAGE, MESSAGE_ONEOF, KIND_MEMBER},   {KIND_LIST, MEMBER, KIND_MEMBER},
};

/* Whether a descriptor holds the symbol, whose name is relative to the descriptor's. Descends once for every dot in it.
 */
static bool holds(struct protobuf_in in, enum kind kind, struct word symbol) {
    struct protobuf_field field;
    while (protobuf_next(&in, &field) > 0)
        for (unsigned i = 0; i < ARRAY_COUNT(children); i++) {
            if (children[i].within != kind || children[i].number != field.number || field.wire != PROTOBUF_BYTES)
                continue;
            struct word name = text_of(protobuf_inside(&field), NAME), rest = symbol;
            if (word_equal(name, symbol) ||
                (word_cut(&rest, name) && holds(protobuf_inside(&field), children[i].kind, rest)))
                return true;
        }
    return false;
}

/* The file of this name, or the one that holds this symbol. */
static bool file_find(struct word wanted, bool by_name, struct protobuf_field *file) {
    struct protobuf_in files = all_files();
    while (next_of(&files, SET_FILE, file)) {
        struct protobuf_in in = protobuf_inside(file);
        struct word rest = wanted;
        if (by_name ? word_equal(text_of(in, NAME), wanted)
                    : word_cut(&rest, text_of(in, FILE_PACKAGE)) && holds(in, KIND_FILE, rest))
            return true;
    }
    return false;
}

/* ---- answers ---- */

static void put_error(struct text *out, enum grpc_code code, const char *sentence) {
    size_t length = strlen(sentence);
    protobuf_put_head(out, RESPONSE_ERROR, 2 + 2 + length);
    protobuf_put_tag(out, ERROR_CODE, PROTOBUF_VARINT);
    protobuf_put_varint(out, code);
    protobuf_put_bytes(out, ERROR_MESSAGE, sentence, length); /* under 128 bytes: one byte of length */
}

/* The file, and all that it imports, each once. */
static void put_files(struct text *out, const struct protobuf_field *first) {
    struct protobuf_field files[FILES_MAX] = {*first}, dependency;
    struct text list;
    unsigned count = 1;
    text_init(&list, NULL, 0);
    for (unsigned i = 0; i < count; i++) {
        struct protobuf_in in = protobuf_inside(&files[i]);
        protobuf_put_bytes(&list, 1, files[i].data, files[i].value);
        while (count < FILES_MAX && next_of(&in, FILE_DEPENDENCY, &dependency)) {
            unsigned known = 0;
            if (!file_find(word_of(&dependency), true, &files[count]))
                continue;
            while (files[known].data != files[count].data)
                known++;
            count += known == count;
        }
    }
    protobuf_put_bytes(out, RESPONSE_FILES, list.data, list.length);
    out->failed |= list.failed;
    text_free(&list);
}

static void put_services(struct text *out) {
    struct protobuf_in files = all_files();
    struct protobuf_field file, service;
    struct text list;
    text_init(&list, NULL, 0);
    while (next_of(&files, SET_FILE, &file)) {
        struct protobuf_in in = protobuf_inside(&file);
        struct word package = text_of(in, FILE_PACKAGE);
        while (next_of(&in, FILE_SERVICE, &service)) {
            struct word name = text_of(protobuf_inside(&service), NAME);
            size_t length = package.length + 1 + name.length;
            protobuf_put_head(&list, 1, 1 + protobuf_varint_bytes(length) + length);
            protobuf_put_head(&list, NAME, length);
            text_append(&list, package.at, package.length);
            text_put_char(&list, '.');
            text_append(&list, name.at, name.length);
        }
    }
    protobuf_put_bytes(out, RESPONSE_SERVICES, list.data, list.length);
    out->failed |= list.failed;
    text_free(&list);
}

unsigned reflection_answer(const char *message, size_t bytes, struct text *out, struct sy_error *err) {
    struct protobuf_in in = {(const uint8_t *)message, (const uint8_t *)message + bytes};
    struct protobuf_field field, file;
    struct word host = {"", 0}, asked = {"", 0};
    uint32_t kind = 0;
    int rc;
    while ((rc = protobuf_next(&in, &field)) > 0) {
        if (field.wire == PROTOBUF_BYTES && field.number == REQUEST_HOST)
            host = word_of(&field);
        if (field.wire == PROTOBUF_BYTES && field.number >= BY_FILENAME && field.number <= LIST_SERVICES) {
            kind = field.number;
            asked = word_of(&field);
        }
    }
    if (rc < 0)
        return (unsigned)protobuf_malformed(err);
    protobuf_put_bytes(out, RESPONSE_HOST, host.at, host.length);
    protobuf_put_bytes(out, RESPONSE_REQUEST, message, bytes);
    switch (kind) {
    case BY_FILENAME:
    case BY_SYMBOL:
        if (file_find(asked, kind == BY_FILENAME, &file))
            put_files(out, &file);
        else
            put_error(out, GRPC_NOT_FOUND, kind == BY_FILENAME ? "there is no such file" : "there is no such symbol");
        break;
    case BY_EXTENSION:
        put_error(out, GRPC_NOT_FOUND, "there are no extensions");
        break;
    case EXTENSIONS_OF:
        if (file_find(asked, false, &file)) {
            protobuf_put_head(out, RESPONSE_EXTENSIONS, 1 + protobuf_varint_bytes(asked.length) + asked.length);
            protobuf_put_bytes(out, NAME, asked.at, asked.length);
        } else {
            put_error(out, GRPC_NOT_FOUND, "there is no such type");
        }
        break;
    case LIST_SERVICES:
        put_services(out);
        break;
    default:
        put_error(out, GRPC_UNIMPLEMENTED, "this kind of request is not known");
    }
    return 200;
}
