/* conf.h - YAML files as trees whose every node knows its file and line, and tables that read mappings into structs.
 *
 * A mistake is one sentence that says where, what was found and what was expected:
 *     cluster.yaml:3: models.slo_ms: 'soon' is not a number (expected a number over 0, in milliseconds)
 * A file is one document of at most 1 MiB, or 64 MiB where long lists are expected; aliases are refused, keys are words
 * and unique. Not for the hot path; any thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

#define CONF_DEPTH_MAX 16        /* levels of mappings and lists within each other */
#define CONF_KEYS_MAX  10000     /* keys of a mapping */
#define CONF_BYTES_MAX (1 << 20) /* bytes of a file */
#define CONF_LARGE_MAX (1 << 26) /* bytes of a file that conf_read_large_file() reads */

enum conf_kind { CONF_SCALAR, CONF_LIST, CONF_MAP };

struct conf_node {
    enum conf_kind kind;
    bool quoted;              /* whether a scalar is in quotes: then it is text, whatever it looks like */
    uint32_t line;            /* line of the node in the file, from 1; 0: the node is not from a file */
    const char *origin;       /* name of the file or text in error messages; outlives the tree */
    char *key;                /* key of a mapping's entry; NULL: the node is no such entry */
    char *text;               /* characters of a scalar, terminated; NULL: the node is no scalar */
    uint32_t count;           /* number of a list's items or a mapping's entries */
    struct conf_node *first;  /* first item or entry, in the file's order */
    struct conf_node *last;   /* last item or entry */
    struct conf_node *next;   /* next node in the list or mapping that holds this one */
    struct conf_node *parent; /* list or mapping that holds this node; NULL: the root */
};

/* Reads a file into a tree, which the caller frees. 0; -errno, or -EINVAL for what is not YAML, with a sentence that
 * starts with the path. An empty file is an empty mapping. `path` must outlive the tree; it may be a pipe. */
int conf_read_file(const char *path, struct conf_node **root, struct sy_error *err);
/* As conf_read_file(), for a file of up to CONF_LARGE_MAX bytes. The tree takes much more memory than the file: use
 * this function only for files of people who may use up this process's memory. */
int conf_read_large_file(const char *path, struct conf_node **root, struct sy_error *err);
/* As conf_read_file(), for text in memory. `origin` is the name of the text in error messages, and must outlive the
 * tree. */
int conf_read_text(const char *origin, const char *text, size_t bytes, struct conf_node **root, struct sy_error *err);
/* Reads a whole file of at most CONF_BYTES_MAX bytes into *text, which is not terminated and which the caller frees by
 * free(). What is no regular file is refused, so that nobody waits for a pipe's writer. 0, or -errno with a sentence.
 */
int conf_slurp(const char *path, char **text, size_t *bytes, struct sy_error *err);
/* Frees a whole tree, from its root. NULL is fine. */
void conf_free(struct conf_node *root);

/* The entry of a mapping; NULL if there is none, or `map` is not a mapping. */
struct conf_node *conf_find(const struct conf_node *map, const char *key);

/* For --set KEY=VALUE: puts VALUE (YAML itself) at KEY, a dotted path in the tree such as `policy.consolidate` or
 * `models.0.slo_ms`. Makes the mappings on the way, and replaces the value that is there. 0, or -errno with a sentence.
 * Mistakes in VALUE that are found later are named "--set: PATH". */
int conf_set(struct conf_node *root, const char *assignment, struct sy_error *err);

/* -EINVAL with "ORIGIN:LINE: PATH: sentence"; PATH is the node's dotted place in the tree, left out for the root. */
int conf_error(const struct conf_node *node, struct sy_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Read scalars: 0, or -EINVAL with a sentence. `min` and `max` are allowed values; `what` says what is expected, e.g.
 * "a number of requests per second". */
int conf_get_double(const struct conf_node *node, double min, double max, const char *what, double *value,
                    struct sy_error *err);
int conf_get_int(const struct conf_node *node, int64_t min, int64_t max, const char *what, int64_t *value,
                 struct sy_error *err);
/* Reads a number in a unit of `unit_ns` nanoseconds (NS_PER_MS...), with bounds in that unit. *value_ns: the time,
 * rounded. */
int conf_get_time(const struct conf_node *node, double unit_ns, double min, double max, const char *what,
                  int64_t *value_ns, struct sy_error *err);
int conf_get_bool(const struct conf_node *node, bool *value, struct sy_error *err);
/* Reads text of 1 to bytes - 1 bytes. */
int conf_get_text(const struct conf_node *node, char *value, size_t bytes, const char *what, struct sy_error *err);

enum conf_type {
    CONF_TYPE_END,
    CONF_TYPE_DOUBLE,
    CONF_TYPE_INT,
    CONF_TYPE_TIME,
    CONF_TYPE_BOOL,
    CONF_TYPE_TEXT,
    CONF_TYPE_NODE,
    CONF_TYPE_PARSED
};

/* One key of a mapping that becomes a struct. A key that is absent leaves its member as it was. */
struct conf_key {
    enum conf_type type;
    const char *name;
    size_t offset;    /* offset of the member in the struct, which is, by type: double, int64_t, int64_t (nanoseconds),
                         bool, char[bytes], const struct conf_node * */
    size_t bytes;     /* bytes of a text member, terminator included */
    double min, max;  /* allowed bounds of a number */
    double unit_ns;   /* nanoseconds in the unit of a time */
    const char *what; /* sentence part that says what is expected */
    bool required;
    int (*parse)(const struct conf_node *node, void *into, struct sy_error *err); /* PARSED; into: the struct */
};

/* Reads a mapping into the struct `into`. Unknown keys are mistakes; their sentence lists the known keys. 0; or, with a
 * sentence, -EINVAL or the error of a key's `parse`. */
int conf_read_map(const struct conf_node *map, const struct conf_key *keys, void *into, struct sy_error *err);

/* The offset of a member. The compiler refuses a member of another type than `wanted`. */
#define CONF_AT_(type, member, wanted)                                                                                 \
    (offsetof(type, member) + 0 * sizeof(char[_Generic(((type *)0)->member, wanted : 1, default : -1)]))
#define CONF_KEYS_END                                                                                                  \
    { .type = CONF_TYPE_END }
#define CONF_KEY_DOUBLE(type_, member, name_, min_, max_, what_)                                                       \
    {                                                                                                                  \
        .type = CONF_TYPE_DOUBLE, .name = (name_), .offset = CONF_AT_(type_, member, double), .min = (min_),           \
        .max = (max_), .what = (what_)                                                                                 \
    }
#define CONF_KEY_INT(type_, member, name_, min_, max_, what_)                                                          \
    {                                                                                                                  \
        .type = CONF_TYPE_INT, .name = (name_), .offset = CONF_AT_(type_, member, int64_t), .min = (min_),             \
        .max = (max_), .what = (what_)                                                                                 \
    }
#define CONF_KEY_TIME(type_, member, name_, unit_ns_, min_, max_, what_)                                               \
    {                                                                                                                  \
        .type = CONF_TYPE_TIME, .name = (name_), .offset = CONF_AT_(type_, member, int64_t), .unit_ns = (unit_ns_),    \
        .min = (min_), .max = (max_), .what = (what_)                                                                  \
    }
#define CONF_KEY_BOOL(type_, member, name_)                                                                            \
    { .type = CONF_TYPE_BOOL, .name = (name_), .offset = CONF_AT_(type_, member, bool) }
#define CONF_KEY_TEXT(type_, member, name_, what_)                                                                     \
    {                                                                                                                  \
        .type = CONF_TYPE_TEXT, .name = (name_), .offset = offsetof(type_, member),                                    \
        .bytes = sizeof(((type_ *)0)->member), .what = (what_)                                                         \
    }
/* Keeps the node itself, for the caller to read after the other keys. The node lives as long as the tree. */
#define CONF_KEY_NODE(type_, member, name_)                                                                            \
    { .type = CONF_TYPE_NODE, .name = (name_), .offset = CONF_AT_(type_, member, const struct conf_node *) }
#define CONF_KEY_PARSED(name_, parse_)                                                                                 \
    { .type = CONF_TYPE_PARSED, .name = (name_), .parse = (parse_) }
