/* inflate.h - inflates bodies and messages that come compressed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <zlib.h>

#include "core/util/error.h"
#include "front/bulk/block_memory.h"

/* Name of the limit on a body, for sentences. */
#define BODY_LIMIT "--body-max-mib, or 64 KiB where it is neither an inference nor a load"

/* A guess of how many times larger a body becomes, as JSON usually does. */
#define INFLATE_TIMES 4

enum body_encoding {
    BODY_IDENTITY,
    BODY_GZIP,
    BODY_DEFLATE, /* deflate in zlib's framing, as both protocols define it */
    BODY_UNKNOWN,
};

/* Reads a word of Content-Encoding or grpc-encoding, upper or lower case; x-gzip is gzip (RFC 9110, 8.4.1.3). */
enum body_encoding body_encoding_of(const char *word, size_t length);

/* State of one thread's inflating; zeroed before its first use. */
struct inflater {
    z_stream stream;
    bool ready; /* the stream is set up */
};

void inflater_destroy(struct inflater *inflater);
/* Inflates all `bytes` at `data` into a block of `memory`, whose first `lead` bytes are left free. 0: *out is the
 * block, *out_bytes the length of the output after the lead. Or a status with a sentence: 400 the data do not have the
 * encoding, 413 the output is longer than `bytes_max`, 503 no memory. */
int inflate_body(struct inflater *inflater, enum body_encoding encoding, const void *data, size_t bytes,
                 size_t bytes_max, size_t lead, struct block_memory memory, char **out, size_t *out_bytes,
                 struct sy_error *err);
