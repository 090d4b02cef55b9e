/* deflate.c - zlib over the pieces of an answer. */
#include "front/bulk/deflate.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include "core/system/yield.h"

#define WINDOW_BITS  15
#define GZIP_FRAMING 16                  /* zlib's flag for gzip's framing */
#define MEMORY_LEVEL 8                   /* zlib's default */
#define SLICE_BYTES  ((size_t)32 * 1024) /* bytes compressed between yield points: 0.2 to 0.8 ms */

void deflater_init(struct deflater *d, int level) {
    *d = (struct deflater){.level = level};
}

void deflater_destroy(struct deflater *d) {
    for (int i = 0; i < BODY_UNKNOWN; i++)
        if (d->ready[i])
            deflateEnd(&d->streams[i]);
    *d = (struct deflater){.level = 0};
}

static z_stream *begin(struct deflater *d, enum body_encoding encoding) {
    z_stream *z = &d->streams[encoding];
    int bits = WINDOW_BITS + (encoding == BODY_GZIP ? GZIP_FRAMING : 0);
    if (d->ready[encoding])
        deflateReset(z);
    else
        d->ready[encoding] = deflateInit2(z, d->level, Z_DEFLATED, bits, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK;
    return d->ready[encoding] ? z : NULL;
}

/* ---- what is asked for ---- */

/* The weight after a coding's name, in thousandths: "; q=0.5". */
static int weight_read(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == ';'))
        at++;
    if (end - at < 2 || strncasecmp(at, "q=", 2) != 0)
        return 1000;
    int weight = 0, unit = 1000;
    for (at += 2; at < end && unit > 0; at++) {
        if (*at == '.')
            continue;
        if (*at < '0' || *at > '9')
            break;
        weight += (*at - '0') * unit;
        unit /= 10;
    }
    return weight;
}

enum body_encoding accepted_encoding(const char *list, size_t length) {
    static const int preferred[] = {[BODY_IDENTITY] = 0, [BODY_GZIP] = 2, [BODY_DEFLATE] = 1};
    const char *end = list + length;
    enum body_encoding best = BODY_IDENTITY;
    int best_weight = 0;
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list)), *part_end = comma ? comma : end;
        while (list < part_end && (*list == ' ' || *list == '\t'))
            list++;
        const char *name_end = list;
        while (name_end < part_end && *name_end != ';' && *name_end != ' ' && *name_end != '\t')
            name_end++;
        enum body_encoding encoding = body_encoding_of(list, (size_t)(name_end - list));
        int weight = encoding == BODY_UNKNOWN ? 0 : weight_read(name_end, part_end);
        if (weight > best_weight || (weight > 0 && weight == best_weight && preferred[encoding] > preferred[best])) {
            best = encoding;
            best_weight = weight;
        }
        list = comma ? comma + 1 : end;
    }
    return best;
}

/* ---- compressing ---- */

/* Compresses the pieces, without their first `skip` bytes, into room that is large enough. The bytes written, or 0. */
static size_t pieces_deflate(z_stream *z, const struct infer_answer *answer, size_t skip, char *out, size_t room) {
    z->next_out = (Bytef *)out;
    z->avail_out = (unsigned)room;
    for (int i = 0; i < answer->piece_count; i++) {
        size_t left = answer->pieces[i].iov_len - (i == 0 ? skip : 0);
        z->next_in = (Bytef *)answer->pieces[i].iov_base + (i == 0 ? skip : 0);
        do {
            size_t part = left < SLICE_BYTES ? left : SLICE_BYTES;
            bool last = i == answer->piece_count - 1 && part == left;
            z->avail_in = (unsigned)part;
            left -= part;
            if (deflate(z, last ? Z_FINISH : Z_NO_FLUSH) != (last ? Z_STREAM_END : Z_OK) && (last || z->avail_in > 0))
                return 0;
            yield_point();
        } while (left > 0);
    }
    return room - z->avail_out;
}

bool answer_deflate(struct deflater *d, enum body_encoding encoding, size_t lead, struct infer_answer *answer,
                    struct text *packed) {
    if (encoding == BODY_IDENTITY || d->level == 0 || answer->bytes < DEFLATE_BYTES_MIN)
        return false;
    z_stream *z = begin(d, encoding);
    size_t room = z ? deflateBound(z, answer->bytes) : 0;
    if (room == 0 || room > UINT_MAX || !text_reserve(packed, lead + room))
        return false;
    size_t bytes = pieces_deflate(z, answer, lead, packed->data + lead, room);
    if (bytes == 0 || lead + bytes >= answer->bytes)
        return false;
    memcpy(packed->data, answer->pieces[0].iov_base, lead);
    packed->length = answer->bytes = lead + bytes;
    answer->pieces[0] = (struct iovec){packed->data, packed->length};
    answer->piece_count = 1;
    return true;
}
