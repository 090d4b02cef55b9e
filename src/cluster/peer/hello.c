/* hello.c - writes and reads introductions as JSON. */
#include "cluster/peer/hello.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/peer/peer.h"
#include "cluster_build.h"
#include "core/util/container.h"
#include "front/net/auth.h"

static const char *const role_names[ROLE_COUNT] = {"scheduler", "frontend", "backend", "visitor"};

void hello_local_name(uint64_t incarnation, char name[HELLO_LOCAL_MAX]) {
    snprintf(name, HELLO_LOCAL_MAX, "symphony-%016" PRIx64, incarnation);
}

const char *cluster_role_name(enum cluster_role role) {
    return role_names[role];
}

struct number_field {
    const char *name;
    size_t at;
    int64_t least, most;
};

void hello_formats(struct hello *hello) {
    const char *test = getenv("SYMPHONY_TEST_FORMATS");
    hello->format = WIRE_FORMAT_OLDEST;
    hello->format_newest = WIRE_FORMAT_NEWEST;
    if (test)
        sscanf(test, "%u,%u", &hello->format, &hello->format_newest);
    strcpy(hello->build, CLUSTER_BUILD);
}

int hello_agree(const struct hello *ours, const struct hello *theirs, uint32_t *format, struct sy_error *err) {
    uint32_t newest = ours->format_newest < theirs->format_newest ? ours->format_newest : theirs->format_newest;
    if (newest < ours->format || newest < theirs->format)
        return error_set(
            err, -EPROTO,
            "symphony %s speaks formats %u to %u of messages, and symphony %s formats %u to %u: they need a "
            "release between them",
            theirs->version, theirs->format, theirs->format_newest, ours->version, ours->format, ours->format_newest);
    bool visit = ours->role == ROLE_VISITOR || theirs->role == ROLE_VISITOR;
    if (newest > WIRE_FORMAT_RELEASED && !visit && *ours->build && *theirs->build &&
        strcmp(ours->build, theirs->build) != 0)
        return error_set(err, -EPROTO,
                         "symphony %s of build %s cannot work with symphony %s of build %s: between releases all "
                         "processes of a cluster need the same build",
                         theirs->version, theirs->build, ours->version, ours->build);
    *format = newest;
    return 0;
}

#define NUMBER(field, least, most)                                                                                     \
    { #field, offsetof(struct hello, field), least, most }
static const struct number_field numbers[] = {
    NUMBER(format, 1, UINT32_MAX),     NUMBER(format_newest, 1, UINT32_MAX),    NUMBER(number, 0, HELLO_NUMBERS - 1),
    NUMBER(lanes, 0, HELLO_LANES_MAX), NUMBER(slots, 0, 1 << HANDLE_SLOT_BITS), NUMBER(accelerators, 0, 1 << 20),
    NUMBER(transports, 0, UINT32_MAX),
};

struct text_field {
    const char *name;
    size_t at, room;
};

#define TEXT(field)                                                                                                    \
    { #field, offsetof(struct hello, field), sizeof(((struct hello *)0)->field) }
static const struct text_field texts[] = {TEXT(version), TEXT(name), TEXT(address), TEXT(token), TEXT(fabric)};

struct word_field { /* 64 bits, which JSON numbers cannot represent everywhere */
    const char *name;
    size_t at;
};
static const struct word_field words[] = {
    {"incarnation", offsetof(struct hello, incarnation)},
    {"term", offsetof(struct hello, term)},
};

static void *field(const struct hello *hello, size_t at) {
    return (char *)(uintptr_t)hello + at;
}

char *hello_write(const struct hello *hello) {
    json_t *json = json_object();
    int rc = json_object_set_new(json, "role", json_string(role_names[hello->role]));
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++)
        rc |= json_object_set_new(json, numbers[i].name, json_integer(*(uint32_t *)field(hello, numbers[i].at)));
    if (hello->metrics)
        rc |= json_object_set_new(json, "metrics", json_integer(hello->metrics));
    if (hello->secret[0] | hello->secret[1])
        rc |= json_object_set_new(json, "secret",
                                  json_sprintf("%016" PRIx64 "%016" PRIx64, hello->secret[0], hello->secret[1]));
    if (*hello->build)
        rc |= json_object_set_new(json, "build", json_string(hello->build));
    if (hello->promises)
        rc |= json_object_set_new(json, "promises", json_true());
    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        rc |= json_object_set_new(json, words[i].name,
                                  json_sprintf("%016" PRIx64, *(uint64_t *)field(hello, words[i].at)));
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        rc |= json_object_set_new(json, texts[i].name, json_string(field(hello, texts[i].at)));
    char *text = rc ? NULL : json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

void hello_send(struct peer *peer, enum frame_kind kind, const struct hello *hello) {
    struct hello now = *hello;
    if (kind == FRAME_HELLO && hello->tokens)
        auth_first(hello->tokens, now.token, sizeof(now.token));
    char *text = hello_write(&now);
    if (text)
        peer_send(peer, kind, 1, text, strlen(text));
    free(text);
}

static int wrong(const char *name, struct sy_error *err) {
    return error_set(err, -EPROTO, "an introduction whose '%s' is missing or will not do", name);
}

/* 64 bits as 16 hexadecimal digits. False: they are not. */
static bool word_read(const char *digits, uint64_t *word) {
    char text[17], *end;
    snprintf(text, sizeof(text), "%.16s", digits);
    *word = strtoull(text, &end, 16);
    return end == text + 16;
}

static int fields_read(const json_t *json, struct hello *hello, struct sy_error *err) {
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        const json_t *value = json_object_get(json, numbers[i].name);
        json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < numbers[i].least || number > numbers[i].most)
            return wrong(numbers[i].name, err);
        *(uint32_t *)field(hello, numbers[i].at) = (uint32_t)number;
    }
    if (hello->lanes * hello->slots > HELLO_REQUESTS_MAX)
        return wrong("slots", err);
    if (hello->format_newest < hello->format)
        return wrong("format_newest", err);
    json_int_t metrics = json_integer_value(json_object_get(json, "metrics"));
    if (metrics < 0 || metrics > UINT16_MAX)
        return wrong("metrics", err);
    hello->metrics = (uint32_t)metrics;
    const json_t *build = json_object_get(json, "build");
    if (build && json_string_length(build) - 1 >= sizeof(hello->build) - 1) /* 0: it is no string, or an empty one */
        return wrong("build", err);
    if (build)
        strcpy(hello->build, json_string_value(build));
    const json_t *promises = json_object_get(json, "promises");
    if (promises && !json_is_boolean(promises))
        return wrong("promises", err);
    hello->promises = json_is_true(promises);
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        const char *value = json_string_value(json_object_get(json, words[i].name));
        if (!value || strlen(value) != 16 || !word_read(value, field(hello, words[i].at)))
            return wrong(words[i].name, err);
    }
    const json_t *secret = json_object_get(json, "secret");
    const char *digits = json_string_value(secret);
    if (secret && (!digits || strlen(digits) != 32 || !word_read(digits, &hello->secret[0]) ||
                   !word_read(digits + 16, &hello->secret[1])))
        return wrong("secret", err);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        const char *value = json_string_value(json_object_get(json, texts[i].name));
        if (!value || strlen(value) >= texts[i].room)
            return wrong(texts[i].name, err);
        strcpy(field(hello, texts[i].at), value);
    }
    const char *role = json_string_value(json_object_get(json, "role"));
    for (int i = 0; i < ROLE_COUNT; i++)
        if (role && strcmp(role, role_names[i]) == 0) {
            hello->role = (enum cluster_role)i;
            return 0;
        }
    return wrong("role", err);
}

int hello_read(const char *text, size_t bytes, struct hello *hello, struct sy_error *err) {
    json_error_t why;
    *hello = (struct hello){.number = 0};
    json_t *json = json_loadb(text, bytes, 0, &why);
    if (!json_is_object(json)) {
        json_decref(json);
        return error_set(err, -EPROTO, "an introduction that is no JSON object");
    }
    int rc = fields_read(json, hello, err);
    json_decref(json);
    return rc;
}
