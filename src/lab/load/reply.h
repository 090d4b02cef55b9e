/* reply.h - reads HTTP/1.x responses out of a byte stream cut anywhere, by llhttp: status, framing, and the first bytes
 * of a body that tells of a mistake. Bodies are skipped unless a sink is set. Responses 1xx are skipped.
 *
 * Pure; one thread; no allocation. A reply stays where it was initialized. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <llhttp.h>

#define REPLY_HEAD_BYTES_MAX (64u << 10)

enum reply_state {
    REPLY_COMING,
    REPLY_DONE,  /* the response is complete; call reply_init() before the next */
    REPLY_BROKEN /* the response is not HTTP/1.x, or over a limit; the connection cannot be used any more */
};

struct reply {
    llhttp_t parser;
    enum reply_state state;
    int status;        /* status code, such as 200; 0: the head has not come yet */
    bool begun;        /* whether a byte has come */
    bool keep_alive;   /* whether the connection may carry another request after this response; known with the status */
    size_t head_bytes; /* bytes of a head that has not come whole */
    uint16_t text_length;
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
