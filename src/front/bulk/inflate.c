/* inflate.c - zlib, into a block that grows with the output. */
#include "front/bulk/inflate.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "core/system/yield.h"
#include "core/util/container.h"

#define ROOM_MIN     ((size_t)4096)
#define WINDOW_BITS  15                   /* the largest window, which senders use */
#define GZIP_FRAMING 16                   /* zlib's flag for gzip's framing */
#define INPUT_MAX    UINT_MAX             /* most input at once: zlib counts in unsigned int */
#define SLICE_BYTES  ((size_t)256 * 1024) /* bytes inflated between yield points: 0.1 to 0.5 ms */

enum body_encoding body_encoding_of(const char *word, size_t length) {
    static const struct {
        const char *word;
        enum body_encoding encoding;
    } rows[] = {{"identity", BODY_IDENTITY}, {"gzip", BODY_GZIP}, {"deflate", BODY_DEFLATE}, {"x-gzip", BODY_GZIP}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (strlen(rows[i].word) == length && strncasecmp(rows[i].word, word, length) == 0)
            return rows[i].encoding;
    return BODY_UNKNOWN;
}

void inflater_destroy(struct inflater *inflater) {
    if (inflater->ready)
        inflateEnd(&inflater->stream);
    inflater->ready = false;
}

static bool begin(struct inflater *inflater, enum body_encoding encoding) {
    int bits = WINDOW_BITS + (encoding == BODY_GZIP ? GZIP_FRAMING : 0);
    if (inflater->ready)
        return inflateReset2(&inflater->stream, bits) == Z_OK;
    memset(&inflater->stream, 0, sizeof(inflater->stream));
    inflater->ready = inflateInit2(&inflater->stream, bits) == Z_OK;
    return inflater->ready;
}

/* The output as far as it has come. */
struct output {
    struct block_memory memory;
    char *block;
    size_t lead, used, room;
};

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool grow(struct output *o, size_t room) {
    char *block = o->memory.take(o->memory.context, o->lead + room);
    if (!block)
        return false;
    if (o->block) {
        for (size_t at = 0; at < o->used; at += SLICE_BYTES) {
            memcpy(block + o->lead + at, o->block + o->lead + at, least(o->used - at, SLICE_BYTES));
            yield_point();
        }
        o->memory.give(o->memory.context, o->block);
    }
    o->block = block;
    o->room = room;
    return true;
}

int inflate_body(struct inflater *inflater, enum body_encoding encoding, const void *data, size_t bytes,
                 size_t bytes_max, size_t lead, struct block_memory memory, char **out, size_t *out_bytes,
                 struct sy_error *err) {
    struct output o = {.memory = memory, .lead = lead};
    z_stream *z = &inflater->stream;
    size_t first = least(bytes, SIZE_MAX / INFLATE_TIMES) * INFLATE_TIMES;
    if (bytes > INPUT_MAX)
        return error_set(err, 413, "the compressed body is too long");
    if (!begin(inflater, encoding) || !grow(&o, least(first < ROOM_MIN ? ROOM_MIN : first, bytes_max)))
        return error_set(err, 503, "the memory for inputs is exhausted");
    z->next_in = (Bytef *)data;
    z->avail_in = (unsigned)bytes;
    for (;;) {
        size_t room = least(o.room - o.used, SLICE_BYTES);
        z->next_out = (Bytef *)o.block + o.lead + o.used;
        z->avail_out = (unsigned)room;
        int rc = inflate(z, Z_NO_FLUSH);
        o.used += room - z->avail_out;
        if (rc == Z_STREAM_END && z->avail_in == 0)
            break;
        if (rc == Z_STREAM_END && encoding == BODY_GZIP && inflateReset(z) == Z_OK)
            continue; /* another member (RFC 1952, 2.2) */
        if (rc == Z_MEM_ERROR)
            return error_set(err, 503, "the memory for inputs is exhausted");
        if ((rc != Z_OK && rc != Z_BUF_ERROR) || z->avail_out > 0) /* wrong, cut off, or with more behind it */
            return error_set(err, 400, "the body is not whole %s data", encoding == BODY_GZIP ? "gzip" : "deflate");
        yield_point();
        if (o.used < o.room)
            continue;
        if (o.room == bytes_max)
            return error_set(err, 413, "the body becomes larger than %zu bytes: " BODY_LIMIT, bytes_max);
        if (!grow(&o, least(2 * o.room, bytes_max)))
            return error_set(err, 503, "the memory for inputs is exhausted");
    }
    *out = o.block;
    *out_bytes = o.used;
    return 0;
}
