/* pbtxt.c - a recursive-descent reader of protobuf's text format. */
#include "model/config/pbtxt.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *origin, *at, *end, *line_start;
    uint32_t line;
    struct sy_error *err;
};

void pbtxt_free(struct pbtxt_node *root) {
    if (!root)
        return;
    for (struct pbtxt_node *child = root->first, *next; child; child = next) {
        next = child->next;
        pbtxt_free(child);
    }
    free(root->name);
    free(root->text);
    free(root);
}

const struct pbtxt_node *pbtxt_find(const struct pbtxt_node *message, const char *name) {
    const struct pbtxt_node *child = message->first;
    while (child && strcmp(child->name, name) != 0)
        child = child->next;
    return child;
}

const struct pbtxt_node *pbtxt_next(const struct pbtxt_node *node) {
    const struct pbtxt_node *next = node->next;
    while (next && strcmp(next->name, node->name) != 0)
        next = next->next;
    return next;
}

int pbtxt_error(const char *origin, const struct pbtxt_node *node, struct sy_error *err, const char *fmt, ...) {
    char sentence[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return error_set(err, -EINVAL, "%s:%u:%u: %.300s", origin, node->line, node->column, sentence);
}

/* ---- tokens ---- */

static int __attribute__((format(printf, 2, 3))) fail(struct reader *r, const char *fmt, ...) {
    char sentence[sizeof(r->err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return error_set(r->err, -EINVAL, "%s:%u:%u: %.300s", r->origin, r->line, (uint32_t)(r->at - r->line_start) + 1,
                     sentence);
}

/* Fails with what was expected and what stands here. */
static int fail_found(struct reader *r, const char *expected) {
    if (r->at == r->end)
        return fail(r, "expected %s, found the end of the file", expected);
    unsigned char c = (unsigned char)*r->at;
    if (c < 0x20 || c >= 0x7f)
        return fail(r, "expected %s, found the byte 0x%02x", expected, c);
    return fail(r, "expected %s, found '%c'", expected, c);
}

static void blanks_skip(struct reader *r) {
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#') {
            while (r->at < r->end && *r->at != '\n')
                r->at++;
            if (r->at == r->end)
                return;
        }
        if (*r->at == '\n') {
            r->line++;
            r->line_start = r->at + 1;
        } else if (!memchr(" \t\r\v\f", *r->at, 5)) {
            return;
        }
    }
}

/* Is `c` next? Blanks before it are skipped. */
static bool next_is(struct reader *r, char c) {
    blanks_skip(r);
    return r->at < r->end && *r->at == c;
}

static bool take(struct reader *r, char c) {
    if (!next_is(r, c))
        return false;
    r->at++;
    return true;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_word_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static const char *word_end(const struct reader *r) {
    const char *end = r->at;
    while (end < r->end && (is_word_start(*end) || is_digit(*end)))
        end++;
    return end;
}

/* ---- strings ---- */

struct text {
    char *bytes;
    size_t length, capacity;
};

static int text_add(struct reader *r, struct text *text, const char *bytes, size_t count) {
    if (text->length + count + 1 > text->capacity) {
        size_t capacity = 2 * (text->length + count) + 32;
        char *grown = realloc(text->bytes, capacity);
        if (!grown)
            return error_set(r->err, -ENOMEM, "%s: out of memory", r->origin);
        text->bytes = grown;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
    text->bytes[text->length] = '\0';
    return 0;
}

/* Reads up to `digits_max` digits of `base`. Returns the number of digits read. */
static int digits_read(struct reader *r, int base, int digits_max, uint32_t *value) {
    int digits = 0;
    for (*value = 0; digits < digits_max && r->at < r->end; digits++, r->at++) {
        char c = *r->at;
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 99;
        if (digit >= base)
            break;
        *value = *value * (uint32_t)base + (uint32_t)digit;
    }
    return digits;
}

static int code_point_add(struct reader *r, struct text *text, uint32_t c) {
    char utf8[4];
    size_t n = 0;
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return fail(r, "\\u%x is not a character", c);
    if (c < 0x80) {
        utf8[n++] = (char)c;
    } else {
        int tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        utf8[n++] = (char)(0xff << (7 - tail) | c >> (6 * tail));
        while (tail--)
            utf8[n++] = (char)(0x80 | (c >> (6 * tail) & 0x3f));
    }
    return text_add(r, text, utf8, n);
}

/* Reads what follows a backslash. */
static int escape_read(struct reader *r, struct text *text) {
    static const char names[] = "abfnrtv\\'\"?", bytes[] = "\a\b\f\n\r\t\v\\'\"?";
    if (r->at == r->end)
        return fail_found(r, "an escape");
    char c = *r->at;
    uint32_t value;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        r->at++;
        return text_add(r, text, &bytes[name - names], 1);
    }
    if (c == 'u' || c == 'U') {
        r->at++;
        int wanted = c == 'u' ? 4 : 8;
        if (digits_read(r, 16, wanted, &value) != wanted)
            return fail(r, "\\%c needs %d hexadecimal digits", c, wanted);
        return code_point_add(r, text, value);
    }
    int digits;
    if (c == 'x' || c == 'X') {
        r->at++;
        digits = digits_read(r, 16, 2, &value);
    } else {
        digits = digits_read(r, 8, 3, &value);
    }
    if (!digits || value > 255)
        return fail(r, "not an escape that the text format knows");
    char byte = (char)value;
    return text_add(r, text, &byte, 1);
}

/* Reads one quoted piece and appends it. */
static int quoted_read(struct reader *r, struct text *text) {
    char quote = *r->at++;
    int rc = text_add(r, text, "", 0);
    while (!rc) {
        const char *piece = r->at;
        while (r->at < r->end && *r->at != quote && *r->at != '\\' && *r->at != '\n')
            r->at++;
        rc = text_add(r, text, piece, (size_t)(r->at - piece));
        if (rc)
            break;
        if (r->at == r->end || *r->at == '\n')
            return fail(r, "the string does not end on its line");
        if (*r->at++ == quote)
            break;
        rc = escape_read(r, text);
    }
    return rc;
}

/* ---- values and fields ---- */

static int message_read(struct reader *r, struct pbtxt_node *message, char close, int depth);

static int string_read(struct reader *r, struct pbtxt_node *node) {
    struct text text = {0};
    int rc;
    do
        rc = quoted_read(r, &text);
    while (!rc && (next_is(r, '"') || next_is(r, '\'')));
    node->kind = PBTXT_STRING;
    node->text = text.bytes;
    node->length = text.length;
    return rc;
}

/* Reads a number or a word, either with a sign (-inf). */
static int bare_read(struct reader *r, struct pbtxt_node *node) {
    bool negative = take(r, '-');
    blanks_skip(r);
    const char *start = r->at;
    if (r->at < r->end && (is_digit(*r->at) || *r->at == '.')) {
        node->kind = PBTXT_NUMBER;
        /* A sign within a number is part of it only after an exponent's e; in hexadecimal numbers e is a digit. */
        bool hex = r->end - r->at > 1 && r->at[0] == '0' && (r->at[1] | 0x20) == 'x';
        while (r->at < r->end &&
               (is_word_start(*r->at) || is_digit(*r->at) || *r->at == '.' ||
                (!hex && r->at > start && (r->at[-1] | 0x20) == 'e' && (*r->at == '+' || *r->at == '-'))))
            r->at++;
    } else if (r->at < r->end && is_word_start(*r->at)) {
        node->kind = negative ? PBTXT_NUMBER : PBTXT_WORD;
        r->at = word_end(r);
    } else {
        return fail_found(r, "a value");
    }
    struct text text = {0};
    int rc = negative ? text_add(r, &text, "-", 1) : 0;
    if (!rc)
        rc = text_add(r, &text, start, (size_t)(r->at - start));
    node->text = text.bytes;
    node->length = text.length;
    return rc;
}

static int value_read(struct reader *r, struct pbtxt_node *node, int depth) {
    if (next_is(r, '"') || next_is(r, '\''))
        return string_read(r, node);
    if (take(r, '{'))
        return message_read(r, node, '}', depth + 1);
    if (take(r, '<'))
        return message_read(r, node, '>', depth + 1);
    return bare_read(r, node);
}

static struct pbtxt_node *node_new(struct reader *r, const char *name, size_t length) {
    struct pbtxt_node *node = calloc(1, sizeof(*node));
    if (node && name && !(node->name = strndup(name, length))) {
        free(node);
        node = NULL;
    }
    if (!node) {
        error_set(r->err, -ENOMEM, "%s: out of memory", r->origin);
        return NULL;
    }
    node->line = r->line;
    node->column = (uint32_t)(r->at - r->line_start) + 1;
    return node;
}

/* Reads the values of one field, and links them at *tail, which moves behind them. */
static int field_read(struct reader *r, struct pbtxt_node ***tail, int depth) {
    if (next_is(r, '['))
        return fail(r, "extensions and Any are not supported");
    if (r->at == r->end || !is_word_start(*r->at))
        return fail_found(r, "a field's name");
    const char *name = r->at;
    size_t length = (size_t)(word_end(r) - name);
    struct pbtxt_node *node = **tail = node_new(r, name, length);
    if (!node)
        return -ENOMEM;
    *tail = &node->next;
    r->at += length;
    bool colon = take(r, ':');
    if (!colon && !next_is(r, '{') && !next_is(r, '<') && !next_is(r, '['))
        return fail_found(r, "':' after a field's name");
    if (!take(r, '['))
        return value_read(r, node, depth);
    if (take(r, ']')) { /* an empty list is no value at all; its node goes, and the tail is found again */
        *tail = NULL;
        return 0;
    }
    for (int rc;;) {
        if (!colon && !next_is(r, '{') && !next_is(r, '<')) /* without a colon, a list may hold only messages */
            return fail_found(r, "'{' (a list without ':' is one of messages)");
        rc = value_read(r, node, depth);
        if (rc || take(r, ']'))
            return rc;
        if (!take(r, ','))
            return fail_found(r, "',' or ']'");
        blanks_skip(r);
        node = **tail = node_new(r, name, length);
        if (!node)
            return -ENOMEM;
        *tail = &node->next;
    }
}

/* Reads fields up to the character `close`; '\0': up to the end of the text. */
static int message_read(struct reader *r, struct pbtxt_node *message, char close, int depth) {
    message->kind = PBTXT_MESSAGE;
    if (depth > PBTXT_DEPTH_MAX)
        return fail(r, "messages nested deeper than %d", PBTXT_DEPTH_MAX);
    struct pbtxt_node **tail = &message->first;
    for (;;) {
        blanks_skip(r);
        if (close ? take(r, close) : r->at == r->end)
            return 0;
        struct pbtxt_node **before = tail;
        int rc = field_read(r, &tail, depth);
        if (rc)
            return rc;
        if (!tail) {
            pbtxt_free(*before);
            *before = NULL;
            tail = before;
        }
        if (!take(r, ','))
            take(r, ';');
    }
}

int pbtxt_read(const char *origin, const char *text, size_t bytes, struct pbtxt_node **root, struct sy_error *err) {
    struct reader r = {.origin = origin, .at = text, .end = text + bytes, .line_start = text, .line = 1, .err = err};
    if (bytes > PBTXT_BYTES_MAX)
        return error_set(err, -EFBIG, "%s: larger than %d bytes", origin, PBTXT_BYTES_MAX);
    struct pbtxt_node *node = node_new(&r, NULL, 0);
    if (!node)
        return -ENOMEM;
    int rc = message_read(&r, node, '\0', 0);
    if (rc)
        pbtxt_free(node);
    else
        *root = node;
    return rc;
}

int pbtxt_get_int(const char *origin, const struct pbtxt_node *node, int64_t min, int64_t max, int64_t *value,
                  struct sy_error *err) {
    char *end = node->text;
    errno = 0;
    long long number = node->kind == PBTXT_NUMBER ? strtoll(node->text, &end, 0) : 0;
    if (node->kind != PBTXT_NUMBER || end == node->text || *end)
        return pbtxt_error(origin, node, err, "%s: expected a whole number%s%.60s%s", node->name,
                           node->text ? ", found '" : "", node->text ? node->text : "", node->text ? "'" : "");
    if (errno || number < min || number > max)
        return pbtxt_error(origin, node, err, "%s: %.60s is not in %lld to %lld", node->name, node->text,
                           (long long)min, (long long)max);
    *value = number;
    return 0;
}
