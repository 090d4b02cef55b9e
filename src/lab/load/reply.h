/* reply.h - reads HTTP/1.x responses out of a byte stream cut anywhere: status, framing, and the first bytes of a body
 * that tells of a mistake. Bodies are skipped unless a sink is set.
 *
 * Pure; one thread; no allocation. Framing follows RFC 9112 section 6: chunked before Content-Length before "until the
 * connection closes"; responses 1xx are skipped; differing lengths are refused. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_HEADER_BYTES_MAX (64u << 10)

enum reply_state {
    REPLY_STATUS_LINE,
    REPLY_HEADER,
    REPLY_BODY, /* `left` bytes of the body are to come */
    REPLY_CHUNK_SIZE,
    REPLY_CHUNK_DATA, /* `left` bytes of the chunk are to come */
    REPLY_CHUNK_END,
    REPLY_TRAILER,
    REPLY_UNTIL_CLOSE,
    REPLY_DONE,  /* the response is complete; call reply_init() before the next */
    REPLY_BROKEN /* the response is not HTTP/1.x, or over a limit; the connection cannot be used any more */
};

struct reply {
    enum reply_state state;
    int status;      /* status code, such as 200; 0: no status line yet */
    bool keep_alive; /* whether the connection may carry another request after this response */
    bool chunked, has_length;
    uint64_t left;
    uint32_t header_bytes;
    uint16_t line_length, text_length;
    char line[512]; /* beginning of a line whose rest has not come yet; longer lines lose their end */
    char text[192]; /* beginning of the body, if status >= 400 */
    void (*sink)(void *context, const char *bytes,
                 size_t length); /* function that gets every byte of the body, in order; NULL: none */
    void *sink_context;
};

/* Prepares for a response's first byte; keeps the sink. */
void reply_init(struct reply *reply);
/* Takes bytes up to the response's end, and returns their number: fewer than `length` only in REPLY_DONE or
 * REPLY_BROKEN. */
size_t reply_feed(struct reply *reply, const char *bytes, size_t length);
/* The peer has closed the connection. True: the response is complete (REPLY_DONE); false: it was cut short. */
bool reply_end(struct reply *reply);
