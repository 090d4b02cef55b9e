/* http_source.h - the body of an answer that is made while it is sent, a piece at a time. */
#pragma once

#include <stddef.h>

#include "core/util/text.h"

#define HTTP_PIECE_BYTES ((size_t)64 * 1024)

/* Called by the frontend's thread. */
struct http_source {
    size_t bytes; /* of the whole body */
    /* Appends the next piece, some HTTP_PIECE_BYTES. The pieces together are `bytes` long. */
    void (*more)(struct http_source *source, struct text *out);
    /* All has been sent, or nobody takes it: frees the source. */
    void (*end)(struct http_source *source);
};
