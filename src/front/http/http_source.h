/* http_source.h - the body of an answer that is written piece by piece while it is sent. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/util/text.h"

#define HTTP_PIECE_BYTES    ((size_t)64 * 1024)
#define HTTP_LENGTH_UNKNOWN SIZE_MAX

/* Called by the frontend's thread. */
struct http_source {
    size_t bytes; /* length of the whole body; HTTP_LENGTH_UNKNOWN: it ends with a piece of no bytes */
    bool waits;   /* of unknown length: a piece of no bytes is not the end, but http_connection_more() asks again */
    /* Appends the next piece, of about HTTP_PIECE_BYTES. All pieces together are `bytes` long. */
    void (*more)(struct http_source *source, struct text *out);
    /* Frees the source: the whole body was sent, or nobody takes the rest. */
    void (*end)(struct http_source *source);
};
