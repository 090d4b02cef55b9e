/* pbtxt.c - a recursive-descent reader of protobuf's text format. */
#include "model/config/pbtxt.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/text.h"
#include "core/util/utf8.h"

struct reader {
    const char *origin, *at, *end, *line_start;
    uint32_t line;
    struct text text; /* of the scalar that is being read */
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

int place_error(const char *origin, uint32_t line, uint32_t column, struct sy_error *err, const char *fmt, ...) {
    char sentence[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    return error_set(err, -EINVAL, "%s:%u:%u: %.400s", origin, line, column, sentence);
}

/* ---- tokens ---- */

#define fail(r, ...)                                                                                                   \
    place_error((r)->origin, (r)->line, (uint32_t)((r)->at - (r)->line_start) + 1, (r)->err, __VA_ARGS__)

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

/* Reads what follows a backslash. */
static int escape_read(struct reader *r) {
    static const char names[] = "abfnrtv\\'\"?", bytes[] = "\a\b\f\n\r\t\v\\'\"?";
    if (r->at == r->end)
        return fail_found(r, "an escape");
    char c = *r->at, utf8[4];
    uint32_t value;
    const char *name = c ? strchr(names, c) : NULL;
    if (name) {
        r->at++;
        text_put_char(&r->text, bytes[name - names]);
        return 0;
    }
    if (c == 'u' || c == 'U') {
        r->at++;
        int wanted = c == 'u' ? 4 : 8;
        if (digits_read(r, 16, wanted, &value) != wanted)
            return fail(r, "\\%c needs %d hexadecimal digits", c, wanted);
        if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
            return fail(r, "\\u%x is not a character", value);
        text_append(&r->text, utf8, utf8_write(value, utf8));
        return 0;
    }
    bool hex = c == 'x' || c == 'X';
    r->at += hex;
    if (!digits_read(r, hex ? 16 : 8, hex ? 2 : 3, &value) || value > 255)
        return fail(r, "not an escape that the text format knows");
    text_put_char(&r->text, (char)value);
    return 0;
}

/* Reads one quoted piece and appends it. */
static int quoted_read(struct reader *r) {
    char quote = *r->at++;
    for (;;) {
        const char *piece = r->at;
        while (r->at < r->end && *r->at != quote && *r->at != '\\' && *r->at != '\n')
            r->at++;
        text_append(&r->text, piece, (size_t)(r->at - piece));
        if (r->at == r->end || *r->at == '\n')
            return fail(r, "the string does not end on its line");
        if (*r->at++ == quote)
            return 0;
        int rc = escape_read(r);
        if (rc)
            return rc;
    }
}

/* ---- values and fields ---- */

static int message_read(struct reader *r, struct pbtxt_node *message, char close, int depth);

/* Gives a node the reader's text. */
static int text_take(struct reader *r, struct pbtxt_node *node, enum pbtxt_kind kind) {
    node->kind = kind;
    const char *text = text_end(&r->text);
    node->length = r->text.length;
    node->text = r->text.failed ? NULL : malloc(node->length + 1);
    if (!node->text)
        return error_set(r->err, -ENOMEM, "%s: out of memory", r->origin);
    memcpy(node->text, text, node->length + 1);
    return 0;
}

static int string_read(struct reader *r, struct pbtxt_node *node) {
    int rc;
    r->text.length = 0;
    do
        rc = quoted_read(r);
    while (!rc && (next_is(r, '"') || next_is(r, '\'')));
    return rc ? rc : text_take(r, node, PBTXT_STRING);
}

/* Reads a number or a word, either with a sign (-inf). */
static int bare_read(struct reader *r, struct pbtxt_node *node) {
    bool negative = take(r, '-');
    enum pbtxt_kind kind = PBTXT_NUMBER;
    blanks_skip(r);
    const char *start = r->at;
    if (r->at < r->end && (is_digit(*r->at) || *r->at == '.')) {
        /* A sign within a number is part of it only after an exponent's e; in hexadecimal numbers e is a digit. */
        bool hex = r->end - r->at > 1 && r->at[0] == '0' && (r->at[1] | 0x20) == 'x';
        while (r->at < r->end &&
               (is_word_start(*r->at) || is_digit(*r->at) || *r->at == '.' ||
                (!hex && r->at > start && (r->at[-1] | 0x20) == 'e' && (*r->at == '+' || *r->at == '-'))))
            r->at++;
    } else if (r->at < r->end && is_word_start(*r->at)) {
        kind = negative ? PBTXT_NUMBER : PBTXT_WORD;
        r->at = word_end(r);
    } else {
        return fail_found(r, "a value");
    }
    r->text.length = 0;
    text_append(&r->text, "-", negative);
    text_append(&r->text, start, (size_t)(r->at - start));
    return text_take(r, node, kind);
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
    text_free(&r.text);
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

bool pbtxt_flag(const struct pbtxt_node *node) {
    return node && strchr("tT1", node->text[0]);
}
