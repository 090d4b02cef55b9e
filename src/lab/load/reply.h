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
    REPLY_BODY, /* `left` bytes to come */
    REPLY_CHUNK_SIZE,
    REPLY_CHUNK_DATA, /* `left` bytes to come */
    REPLY_CHUNK_END,
    REPLY_TRAILER,
    REPLY_UNTIL_CLOSE,
    REPLY_DONE,  /* complete; reply_init before the next */
    REPLY_BROKEN /* not HTTP/1.x, or over a limit; the connection is of no more use */
};

struct reply {
    enum reply_state state;
    int status;      /* 200; 0 before the status line */
    bool keep_alive; /* the connection may carry another request once done */
    bool chunked, has_length;
    uint64_t left;
    uint32_t header_bytes;
    uint16_t line_length, text_length;
    char line[512]; /* the part of a line that came before the rest; longer lines lose their end */
    char text[192]; /* start of the body when status >= 400 */
    void (*sink)(void *context, const char *bytes, size_t length); /* every body byte, in order, or NULL */
    void *sink_context;
};

/* Ready for a response's first byte; keeps the sink. */
void reply_init(struct reply *reply);
/* Takes bytes up to the response's end; returns how many. Fewer than `length` only when done or broken. */
size_t reply_feed(struct reply *reply, const char *bytes, size_t length);
/* The peer closed. Returns true if that completed the response (state DONE), false if it cut it short. */
bool reply_end(struct reply *reply);
