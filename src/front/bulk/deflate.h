/* deflate.h - compresses answers, for clients that ask for it. */
#pragma once

#include "core/util/text.h"
#include "front/bulk/infer_answer.h"
#include "front/bulk/inflate.h"

/* Least length of an answer that is compressed; for shorter ones, compression would save less than one packet costs. */
#define DEFLATE_BYTES_MIN 512

/* State of one thread's compression. The first use of each encoding takes 256 KiB of memory. */
struct deflater {
    int level;                      /* zlib's level, 1 to 9; 0: nothing is compressed */
    z_stream streams[BODY_UNKNOWN]; /* by encoding */
    bool ready[BODY_UNKNOWN];       /* the stream is set up */
};

/* `level` 0: nothing is compressed. */
void deflater_init(struct deflater *deflater, int level);
void deflater_destroy(struct deflater *deflater);

/* Chooses from a list as in Accept-Encoding or grpc-accept-encoding: of the encodings served here, the one with the
 * greatest weight (q); among equal ones gzip, then deflate, then none. "*" asks for no compression. */
enum body_encoding accepted_encoding(const char *list, size_t length);

/* Compresses the answer into one piece, in `packed` (empty, on the heap; it must outlive the answer). The first `lead`
 * bytes stay as they are. False: the answer is unchanged, since it is short, would not become shorter, or there is no
 * memory. */
bool answer_deflate(struct deflater *deflater, enum body_encoding encoding, size_t lead, struct infer_answer *answer,
                    struct text *packed);
