/* reply.c - reads HTTP/1.x responses out of a byte stream. */
#include "lab/load/reply.h"

#include <string.h>
#include <strings.h>

void reply_init(struct reply *r) {
    r->state = REPLY_STATUS_LINE;
    r->status = 0;
    r->keep_alive = true;
    r->chunked = r->has_length = false;
    r->left = 0;
    r->header_bytes = 0;
    r->line_length = r->text_length = 0;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static void status_line(struct reply *r, const char *line, size_t length) {
    if (length == 0 && r->header_bytes <= 4) /* a stray line end before the response is tolerated, as RFC 9112 asks */
        return;
    if (length < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' || !is_digit(line[9]) || !is_digit(line[10]) ||
        !is_digit(line[11])) {
        r->state = REPLY_BROKEN;
        return;
    }
    r->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    r->keep_alive = line[7] != '0';
    r->state = REPLY_HEADER;
}

/* Whether the comma-separated list holds the word, in any case. */
static bool list_has(const char *list, size_t length, const char *word) {
    size_t word_length = strlen(word);
    while (length) {
        size_t item = 0;
        while (item < length && list[item] != ',')
            item++;
        size_t from = 0, to = item;
        while (from < to && (list[from] == ' ' || list[from] == '\t'))
            from++;
        while (to > from && (list[to - 1] == ' ' || list[to - 1] == '\t'))
            to--;
        if (to - from == word_length && strncasecmp(list + from, word, word_length) == 0)
            return true;
        item += item < length;
        list += item;
        length -= item;
    }
    return false;
}

static void content_length(struct reply *r, const char *value, size_t length) {
    uint64_t bytes = 0;
    bool valid = length > 0;
    for (size_t i = 0; i < length && valid; i++) {
        valid = is_digit(value[i]) && bytes < UINT64_MAX / 16;
        bytes = bytes * 10 + (uint64_t)(value[i] - '0');
    }
    if (!valid || (r->has_length && bytes != r->left)) {
        r->state = REPLY_BROKEN;
        return;
    }
    r->has_length = true;
    r->left = bytes;
}

static bool name_is(const char *line, size_t length, const char *name) {
    return strlen(name) == length && strncasecmp(line, name, length) == 0;
}

static void header_line(struct reply *r, const char *line, size_t length) {
    if (length == 0) {
        if (r->status >= 100 && r->status < 200) { /* "100 Continue": the response proper follows */
            uint32_t header_bytes = r->header_bytes;
            reply_init(r);
            r->header_bytes = header_bytes;
        } else if (r->status == 204 || r->status == 304) {
            r->state = REPLY_DONE;
        } else if (r->chunked) {
            r->state = REPLY_CHUNK_SIZE;
        } else if (r->has_length) {
            r->state = r->left ? REPLY_BODY : REPLY_DONE;
        } else {
            r->keep_alive = false;
            r->state = REPLY_UNTIL_CLOSE;
        }
        return;
    }
    const char *colon = memchr(line, ':', length);
    if (!colon || colon == line) {
        r->state = REPLY_BROKEN;
        return;
    }
    size_t name = (size_t)(colon - line);
    const char *value = colon + 1, *end = line + length;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    size_t value_length = (size_t)(end - value);
    if (name_is(line, name, "content-length"))
        content_length(r, value, value_length);
    else if (name_is(line, name, "transfer-encoding"))
        r->chunked = list_has(value, value_length, "chunked");
    else if (name_is(line, name, "connection"))
        r->keep_alive = list_has(value, value_length, "close")        ? false
                        : list_has(value, value_length, "keep-alive") ? true
                                                                      : r->keep_alive;
}

static void chunk_size_line(struct reply *r, const char *line, size_t length) {
    uint64_t size = 0;
    size_t digits = 0;
    for (; digits < length && digits < 15; digits++) {
        char c = line[digits] | 0x20;
        if (is_digit(line[digits]))
            size = size * 16 + (uint64_t)(line[digits] - '0');
        else if (c >= 'a' && c <= 'f')
            size = size * 16 + (uint64_t)(c - 'a' + 10);
        else
            break;
    }
    bool ends = digits == length || line[digits] == ';' || line[digits] == ' ' || line[digits] == '\t';
    if (!digits || !ends) {
        r->state = REPLY_BROKEN;
        return;
    }
    r->left = size;
    r->state = size ? REPLY_CHUNK_DATA : REPLY_TRAILER;
}

static void line_take(struct reply *r, const char *line, size_t length) {
    if (length && line[length - 1] == '\r')
        length--;
    switch (r->state) {
    case REPLY_STATUS_LINE:
        status_line(r, line, length);
        break;
    case REPLY_HEADER:
        header_line(r, line, length);
        break;
    case REPLY_CHUNK_SIZE:
        chunk_size_line(r, line, length);
        break;
    case REPLY_CHUNK_END:
        r->state = length ? REPLY_BROKEN : REPLY_CHUNK_SIZE;
        break;
    default: /* trailer */
        if (length == 0)
            r->state = REPLY_DONE;
        break;
    }
}

/* Takes a line, or the part of it that has come; returns the number of bytes taken. */
static size_t line_feed(struct reply *r, const char *bytes, size_t length) {
    const char *newline = memchr(bytes, '\n', length);
    size_t taken = newline ? (size_t)(newline - bytes) + 1 : length;
    /* Chunk sizes count too, but not against a long body of many chunks. */
    r->header_bytes = r->state >= REPLY_CHUNK_SIZE && r->state <= REPLY_CHUNK_END ? 0 : r->header_bytes;
    r->header_bytes += (uint32_t)(taken < REPLY_HEADER_BYTES_MAX ? taken : REPLY_HEADER_BYTES_MAX);
    if (r->header_bytes > REPLY_HEADER_BYTES_MAX) {
        r->state = REPLY_BROKEN;
        return taken;
    }
    if (newline && r->line_length == 0) {
        line_take(r, bytes, taken - 1);
        return taken;
    }
    size_t part = newline ? taken - 1 : taken, room = sizeof(r->line) - r->line_length;
    part = part < room ? part : room;
    memcpy(r->line + r->line_length, bytes, part);
    r->line_length = (uint16_t)(r->line_length + part);
    if (newline) {
        size_t line_length = r->line_length;
        r->line_length = 0;
        line_take(r, r->line, line_length);
    }
    return taken;
}

static size_t body_feed(struct reply *r, const char *bytes, size_t length) {
    if (r->state != REPLY_UNTIL_CLOSE && length > r->left)
        length = (size_t)r->left;
    if (r->status >= 400 && r->text_length < sizeof(r->text)) {
        size_t room = sizeof(r->text) - r->text_length, part = length < room ? length : room;
        memcpy(r->text + r->text_length, bytes, part);
        r->text_length = (uint16_t)(r->text_length + part);
    }
    if (r->sink)
        r->sink(r->sink_context, bytes, length);
    if (r->state != REPLY_UNTIL_CLOSE) {
        r->left -= length;
        if (!r->left)
            r->state = r->state == REPLY_BODY ? REPLY_DONE : REPLY_CHUNK_END;
    }
    return length;
}

size_t reply_feed(struct reply *r, const char *bytes, size_t length) {
    size_t taken = 0;
    while (taken < length && r->state < REPLY_DONE) {
        bool body = r->state == REPLY_BODY || r->state == REPLY_CHUNK_DATA || r->state == REPLY_UNTIL_CLOSE;
        taken += (body ? body_feed : line_feed)(r, bytes + taken, length - taken);
    }
    return taken;
}

bool reply_end(struct reply *r) {
    if (r->state == REPLY_UNTIL_CLOSE)
        r->state = REPLY_DONE;
    return r->state == REPLY_DONE;
}
