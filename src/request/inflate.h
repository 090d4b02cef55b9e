/* inflate.h - bodies and messages that come compressed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <zlib.h>

#include "base/error.h"
#include "request/block_memory.h"

enum body_encoding {
    BODY_IDENTITY,
    BODY_GZIP,
    BODY_DEFLATE, /* framed as zlib's, as both protocols mean it */
    BODY_UNKNOWN,
};

/* A word of Content-Encoding or grpc-encoding, in any case; x-gzip is gzip (RFC 9110, 8.4.1.3). */
enum body_encoding body_encoding_of(const char *word, size_t length);

/* What one thread inflates with; zeroed before its first use. */
struct inflater {
    z_stream stream;
    bool ready;
};

void inflater_destroy(struct inflater *inflater);
/* Inflates `bytes` at `data`, whole, into a block of `memory` that begins with `lead` bytes left free. 0, and *out is
 * the block and *out_bytes what lies behind those; or a status with a sentence: 400 it is not what the encoding says,
 * 413 it becomes longer than `bytes_max`, 503 no memory. */
int inflate_body(struct inflater *inflater, enum body_encoding encoding, const void *data, size_t bytes,
                 size_t bytes_max, size_t lead, struct block_memory memory, char **out, size_t *out_bytes,
                 struct sy_error *err);
