/* conf.c - YAML files as trees, on libyaml's events. */
#include "core/util/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include "core/util/decimal.h"

#define PATH_TEXT_MAX 256
#define SET_ORIGIN    "--set"

/* ---- the tree ---- */

void conf_free(struct conf_node *root) {
    if (!root)
        return;
    for (struct conf_node *child = root->first, *next; child; child = next) {
        next = child->next;
        conf_free(child);
    }
    free(root->key);
    free(root->text);
    free(root);
}

struct conf_node *conf_find(const struct conf_node *map, const char *key) {
    if (map->kind != CONF_MAP)
        return NULL;
    for (struct conf_node *child = map->first; child; child = child->next)
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

static void append(struct conf_node *parent, struct conf_node *child) {
    *(parent->last ? &parent->last->next : &parent->first) = child;
    parent->last = child;
    child->parent = parent;
    parent->count++;
}

/* Writes a node's place as "models.2.slo_ms". If the place is too long, only its last parts are written. */
static void path_format(const struct conf_node *node, char *text, size_t bytes) {
    char part[PATH_TEXT_MAX];
    size_t at = bytes - 1;
    text[at] = '\0';
    for (; node->parent; node = node->parent) {
        unsigned index = 0;
        for (const struct conf_node *child = node->parent->first; child != node; child = child->next)
            index++;
        int length = node->key ? snprintf(part, sizeof(part), "%.60s%s", node->key, text[at] ? "." : "")
                               : snprintf(part, sizeof(part), "%u%s", index, text[at] ? "." : "");
        if ((size_t)length > at)
            break;
        at -= (size_t)length;
        memcpy(text + at, part, (size_t)length);
    }
    memmove(text, text + at, bytes - at);
}

int conf_error(const struct conf_node *node, struct sy_error *err, const char *fmt, ...) {
    char path[PATH_TEXT_MAX], sentence[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    path_format(node, path, sizeof(path));
    char line[16] = "";
    if (node->line)
        snprintf(line, sizeof(line), ":%u", node->line);
    return error_set(err, -EINVAL, "%s%s: %s%s%.300s", node->origin, line, path, path[0] ? ": " : "", sentence);
}

/* ---- reading ---- */

struct reader {
    yaml_parser_t parser;
    const char *origin;
    struct sy_error *err;
};

static int reader_fail(struct reader *r) {
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return error_set(r->err, -ENOMEM, "%s: out of memory", r->origin);
    return error_set(r->err, -EINVAL, "%s:%zu: not valid YAML: %s%s%s", r->origin, p->problem_mark.line + 1,
                     p->problem ? p->problem : "unreadable", p->context ? " " : "", p->context ? p->context : "");
}

static struct conf_node *node_new(struct reader *r, enum conf_kind kind, const yaml_event_t *event) {
    struct conf_node *node = calloc(1, sizeof(*node));
    if (!node) {
        error_set(r->err, -ENOMEM, "%s: out of memory", r->origin);
        return NULL;
    }
    node->kind = kind;
    node->origin = r->origin;
    node->line = (uint32_t)event->start_mark.line + 1;
    return node;
}

static int scalar_fill(struct reader *r, struct conf_node *node, const yaml_event_t *event) {
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (memchr(text, '\0', length))
        return error_set(r->err, -EINVAL, "%s:%u: a zero byte in a text", r->origin, node->line);
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->text = strndup(text, length);
    return node->text ? 0 : error_set(r->err, -ENOMEM, "%s: out of memory", r->origin);
}

static int node_read(struct reader *r, const yaml_event_t *event, int depth, struct conf_node **out);

static int list_read(struct reader *r, struct conf_node *list, int depth) {
    for (;;) {
        yaml_event_t event;
        struct conf_node *child;
        if (!yaml_parser_parse(&r->parser, &event))
            return reader_fail(r);
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        int rc = end ? 0 : node_read(r, &event, depth + 1, &child);
        yaml_event_delete(&event);
        if (rc || end)
            return rc;
        append(list, child);
    }
}

static int entry_read(struct reader *r, struct conf_node *map, const yaml_event_t *key, int depth) {
    uint32_t line = (uint32_t)key->start_mark.line + 1;
    if (key->type != YAML_SCALAR_EVENT)
        return error_set(r->err, -EINVAL, "%s:%u: a key must be a word", r->origin, line);
    const char *name = (const char *)key->data.scalar.value;
    if (memchr(name, '\0', key->data.scalar.length))
        return error_set(r->err, -EINVAL, "%s:%u: a zero byte in a key", r->origin, line);
    if (map->count == CONF_KEYS_MAX)
        return error_set(r->err, -EINVAL, "%s:%u: more than %d keys in a mapping", r->origin, line, CONF_KEYS_MAX);
    if (conf_find(map, name))
        return error_set(r->err, -EINVAL, "%s:%u: '%.60s' is given twice", r->origin, line, name);
    yaml_event_t event;
    if (!yaml_parser_parse(&r->parser, &event))
        return reader_fail(r);
    struct conf_node *child;
    int rc = node_read(r, &event, depth + 1, &child);
    yaml_event_delete(&event);
    if (rc)
        return rc;
    child->line = line; /* line of `key:`, where a person looks; the mapping itself may begin on the next line */
    child->key = strdup(name);
    if (!child->key) {
        conf_free(child);
        return error_set(r->err, -ENOMEM, "%s: out of memory", r->origin);
    }
    append(map, child);
    return 0;
}

static int map_read(struct reader *r, struct conf_node *map, int depth) {
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event))
            return reader_fail(r);
        bool end = event.type == YAML_MAPPING_END_EVENT;
        int rc = end ? 0 : entry_read(r, map, &event, depth);
        yaml_event_delete(&event);
        if (rc || end)
            return rc;
    }
}

/* The node that starts with `event`; *out only on success. */
static int node_read(struct reader *r, const yaml_event_t *event, int depth, struct conf_node **out) {
    size_t line = event->start_mark.line + 1;
    if (depth > CONF_DEPTH_MAX)
        return error_set(r->err, -EINVAL, "%s:%zu: nested deeper than %d", r->origin, line, CONF_DEPTH_MAX);
    if (event->type == YAML_ALIAS_EVENT)
        return error_set(r->err, -EINVAL, "%s:%zu: aliases (*%.60s) are not supported", r->origin, line,
                         (const char *)event->data.alias.anchor);
    enum conf_kind kind = event->type == YAML_SEQUENCE_START_EVENT  ? CONF_LIST
                          : event->type == YAML_MAPPING_START_EVENT ? CONF_MAP
                                                                    : CONF_SCALAR;
    struct conf_node *node = node_new(r, kind, event);
    if (!node)
        return -ENOMEM;
    int rc = kind == CONF_LIST  ? list_read(r, node, depth)
             : kind == CONF_MAP ? map_read(r, node, depth)
                                : scalar_fill(r, node, event);
    if (rc)
        conf_free(node);
    else
        *out = node;
    return rc;
}

/* Skips events up to the first node of the first document; an empty stream has none. */
static int document_read(struct reader *r, struct conf_node **root) {
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event))
            return reader_fail(r);
        int rc = 0;
        bool done = true;
        if (event.type == YAML_STREAM_START_EVENT || event.type == YAML_DOCUMENT_START_EVENT)
            done = false;
        else if (event.type != YAML_STREAM_END_EVENT)
            rc = node_read(r, &event, 0, root);
        else if (!(*root = node_new(r, CONF_MAP, &event)))
            rc = -ENOMEM;
        yaml_event_delete(&event);
        if (done)
            return rc;
    }
}

/* Nothing but the end may follow the document. */
static int end_read(struct reader *r) {
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event))
            return reader_fail(r);
        bool end = event.type == YAML_STREAM_END_EVENT || event.type == YAML_NO_EVENT;
        bool more = event.type == YAML_DOCUMENT_START_EVENT;
        size_t line = event.start_mark.line + 1;
        yaml_event_delete(&event);
        if (more)
            return error_set(r->err, -EINVAL, "%s:%zu: a second document in one file", r->origin, line);
        if (end)
            return 0;
    }
}

int conf_read_text(const char *origin, const char *text, size_t bytes, struct conf_node **root, struct sy_error *err) {
    struct reader r = {.origin = origin, .err = err};
    if (!yaml_parser_initialize(&r.parser))
        return error_set(err, -ENOMEM, "%s: out of memory", origin);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    struct conf_node *node = NULL;
    int rc = document_read(&r, &node);
    if (!rc) {
        rc = end_read(&r);
        if (rc)
            conf_free(node);
    }
    if (!rc)
        *root = node;
    yaml_parser_delete(&r.parser);
    return rc;
}

/* `only_files`: a FIFO, whose opening waits for a writer, and a device, which may have no end, are refused. */
static int slurp(const char *path, bool only_files, size_t bytes_max, char **text, size_t *bytes,
                 struct sy_error *err) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | (only_files ? O_NONBLOCK : 0));
    if (fd < 0)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    if (only_files && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
        close(fd);
        return error_set(err, -EINVAL, "%s: not a file", path);
    }
    char *buffer = malloc(bytes_max + 1);
    size_t size = 0;
    int rc = buffer ? 0 : error_set(err, -ENOMEM, "%s: out of memory", path);
    while (!rc && size <= bytes_max) {
        ssize_t got = read(fd, buffer + size, bytes_max + 1 - size);
        if (got < 0 && errno != EINTR)
            rc = error_set(err, -errno, "%s: %s", path, strerror(errno));
        else if (got == 0)
            break;
        else if (got > 0)
            size += (size_t)got;
    }
    if (!rc && size > bytes_max)
        rc = error_set(err, -EFBIG, "%s: larger than %zu bytes", path, bytes_max);
    close(fd);
    if (rc) {
        free(buffer);
        return rc;
    }
    *text = buffer;
    *bytes = size;
    return 0;
}

int conf_slurp(const char *path, char **text, size_t *bytes, struct sy_error *err) {
    return slurp(path, true, CONF_BYTES_MAX, text, bytes, err);
}

static int read_file(const char *path, size_t bytes_max, struct conf_node **root, struct sy_error *err) {
    char *text;
    size_t bytes;
    int rc = slurp(path, false, bytes_max, &text, &bytes, err);
    if (rc)
        return rc;
    rc = conf_read_text(path, text, bytes, root, err);
    free(text);
    return rc;
}

int conf_read_file(const char *path, struct conf_node **root, struct sy_error *err) {
    return read_file(path, CONF_BYTES_MAX, root, err);
}

int conf_read_large_file(const char *path, struct conf_node **root, struct sy_error *err) {
    return read_file(path, CONF_LARGE_MAX, root, err);
}

/* ---- overrides ---- */

static struct conf_node *item_at(const struct conf_node *list, const char *index) {
    int64_t wanted;
    if (strchr("+-", *index) || decimal_int(index, 0, (int64_t)list->count - 1, &wanted) < 0)
        return NULL;
    struct conf_node *child = list->first;
    while (wanted--)
        child = child->next;
    return child;
}

/* Puts `value` where `old` is, and frees `old`. */
static void replace(struct conf_node *old, struct conf_node *value) {
    struct conf_node **at = &old->parent->first;
    while (*at != old)
        at = &(*at)->next;
    value->key = old->key;
    value->parent = old->parent;
    value->next = old->next;
    *at = value;
    if (old->parent->last == old)
        old->parent->last = value;
    old->key = NULL;
    conf_free(old);
}

static void lines_forget(struct conf_node *node) {
    node->line = 0;
    for (struct conf_node *child = node->first; child; child = child->next)
        lines_forget(child);
}

/* Goes down to the parent of the last part of `path`, making mappings; *last is that part. */
static int descend(struct conf_node **node, char *path, char **last, const char *assignment, struct sy_error *err) {
    int depth = 0;
    for (char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        *dot = '\0';
        struct conf_node *child = (*node)->kind == CONF_LIST ? item_at(*node, path) : conf_find(*node, path);
        if (!child && (*node)->kind == CONF_MAP && *path && ++depth <= CONF_DEPTH_MAX) {
            child = calloc(1, sizeof(*child));
            if (child)
                child->key = strdup(path);
            if (!child || !child->key) {
                free(child);
                return error_set(err, -ENOMEM, "out of memory");
            }
            child->kind = CONF_MAP;
            child->origin = SET_ORIGIN;
            append(*node, child);
        }
        if (!child)
            return error_set(err, -EINVAL, SET_ORIGIN " %s: there is no '%s'", assignment, path);
        *node = child;
    }
    *last = path;
    return 0;
}

int conf_set(struct conf_node *root, const char *assignment, struct sy_error *err) {
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return error_set(err, -EINVAL, SET_ORIGIN " %s: expected KEY=VALUE", assignment);
    char *path = strndup(assignment, (size_t)(equals - assignment)), *last = NULL;
    if (!path)
        return error_set(err, -ENOMEM, "out of memory");
    struct conf_node *value = NULL, *node = root;
    int rc = conf_read_text(SET_ORIGIN, equals + 1, strlen(equals + 1), &value, err);
    if (!rc) {
        lines_forget(value);
        rc = descend(&node, path, &last, assignment, err);
    }
    if (!rc) {
        struct conf_node *old = node->kind == CONF_LIST ? item_at(node, last) : conf_find(node, last);
        if (old) {
            replace(old, value);
        } else if (node->kind == CONF_MAP && *last && (value->key = strdup(last))) {
            append(node, value);
        } else {
            rc = error_set(err, -EINVAL, SET_ORIGIN " %s: there is no '%s'", assignment, last);
        }
    }
    if (rc)
        conf_free(value);
    free(path);
    return rc;
}

/* ---- values ---- */

static const char *kind_name(const struct conf_node *node) {
    return node->kind == CONF_LIST ? "a list" : "a mapping";
}

/* The text of an unquoted scalar, or NULL after an error. */
static const char *plain(const struct conf_node *node, const char *what, struct sy_error *err) {
    if (node->kind != CONF_SCALAR)
        conf_error(node, err, "found %s (expected %s)", kind_name(node), what);
    else if (node->quoted)
        conf_error(node, err, "found the text '%.60s' (expected %s, without quotes)", node->text, what);
    else if (!*node->text)
        conf_error(node, err, "has no value (expected %s)", what);
    else
        return node->text;
    return NULL;
}

int conf_get_double(const struct conf_node *node, double min, double max, const char *what, double *value,
                    struct sy_error *err) {
    const char *text = plain(node, what, err);
    if (!text)
        return -EINVAL;
    int rc = decimal_double(text, min, max, value);
    if (rc == -ERANGE)
        return conf_error(node, err, "%.60s is not in %.10g to %.10g (expected %s)", text, min, max, what);
    return rc < 0 ? conf_error(node, err, "'%.60s' is not a number (expected %s)", text, what) : 0;
}

int conf_get_int(const struct conf_node *node, int64_t min, int64_t max, const char *what, int64_t *value,
                 struct sy_error *err) {
    const char *text = plain(node, what, err);
    if (!text)
        return -EINVAL;
    int rc = decimal_int(text, min, max, value);
    if (rc == -ERANGE)
        return conf_error(node, err, "%.60s is not in %lld to %lld (expected %s)", text, (long long)min, (long long)max,
                          what);
    return rc < 0 ? conf_error(node, err, "'%.60s' is not a whole number (expected %s)", text, what) : 0;
}

int conf_get_time(const struct conf_node *node, double unit_ns, double min, double max, const char *what,
                  int64_t *value_ns, struct sy_error *err) {
    double value;
    int rc = conf_get_double(node, min, max, what, &value, err);
    if (!rc)
        *value_ns = llround(value * unit_ns);
    return rc;
}

int conf_get_bool(const struct conf_node *node, bool *value, struct sy_error *err) {
    const char *text = plain(node, "true or false", err);
    if (!text)
        return -EINVAL;
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return conf_error(node, err, "'%.60s' is neither true nor false", text);
    *value = *text == 't';
    return 0;
}

int conf_get_text(const struct conf_node *node, char *value, size_t bytes, const char *what, struct sy_error *err) {
    if (node->kind != CONF_SCALAR)
        return conf_error(node, err, "found %s (expected %s)", kind_name(node), what);
    size_t length = strlen(node->text);
    if (!length)
        return conf_error(node, err, "has no value (expected %s)", what);
    if (length >= bytes)
        return conf_error(node, err, "longer than %zu bytes (expected %s)", bytes - 1, what);
    memcpy(value, node->text, length + 1);
    return 0;
}

static int key_read(const struct conf_node *node, const struct conf_key *key, void *into, struct sy_error *err) {
    void *at = (char *)into + key->offset;
    switch (key->type) {
    case CONF_TYPE_DOUBLE:
        return conf_get_double(node, key->min, key->max, key->what, at, err);
    case CONF_TYPE_INT:
        return conf_get_int(node, (int64_t)key->min, (int64_t)key->max, key->what, at, err);
    case CONF_TYPE_TIME:
        return conf_get_time(node, key->unit_ns, key->min, key->max, key->what, at, err);
    case CONF_TYPE_BOOL:
        return conf_get_bool(node, at, err);
    case CONF_TYPE_TEXT:
        return conf_get_text(node, at, key->bytes, key->what, err);
    case CONF_TYPE_NODE:
        *(const struct conf_node **)at = node;
        return 0;
    case CONF_TYPE_PARSED:
        return key->parse(node, into, err);
    case CONF_TYPE_END:
        break;
    }
    return 0;
}

int conf_read_map(const struct conf_node *map, const struct conf_key *keys, void *into, struct sy_error *err) {
    char known[200] = ""; /* the keys, for sentences */
    size_t at = 0;
    for (const struct conf_key *key = keys; key->type != CONF_TYPE_END && at < sizeof(known); key++)
        at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s", at ? ", " : "", key->name);
    if (map->kind != CONF_MAP)
        return conf_error(map, err, "expected a mapping with the keys %s", known);
    for (const struct conf_node *child = map->first; child; child = child->next) {
        const struct conf_key *key = keys;
        while (key->type != CONF_TYPE_END && strcmp(key->name, child->key) != 0)
            key++;
        if (key->type == CONF_TYPE_END)
            return conf_error(child, err, "unknown key (expected %s)", known);
        int rc = key_read(child, key, into, err);
        if (rc)
            return rc;
    }
    for (const struct conf_key *key = keys; key->type != CONF_TYPE_END; key++)
        if (key->required && !conf_find(map, key->name))
            return conf_error(map, err, "'%s' is missing", key->name);
    return 0;
}
