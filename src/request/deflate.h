/* deflate.h - answers that go out compressed, for clients that ask. */
#pragma once

#include "base/text.h"
#include "request/infer_answer.h"
#include "request/inflate.h"

/* Shorter answers are sent as they are: what they would save is less than what a packet costs. */
#define DEFLATE_BYTES_MIN 512

/* What one thread compresses with. Its first use takes memory, 256 KiB an encoding. */
struct deflater {
    int level; /* 1 to 9, as zlib has them */
    z_stream streams[BODY_UNKNOWN];
    bool ready[BODY_UNKNOWN];
};

/* `level` 0: nothing is compressed. */
void deflater_init(struct deflater *deflater, int level);
void deflater_destroy(struct deflater *deflater);

/* Of a list as Accept-Encoding and grpc-accept-encoding have it, the encoding with the greatest weight (q) that is
 * served here; of equal ones gzip, then deflate, then none. "*" asks for nothing. */
enum body_encoding accepted_encoding(const char *list, size_t length);

/* Makes the answer one piece, compressed, in `packed` (empty, on the heap; it must outlive the answer), whose first
 * `lead` bytes are the answer's own. False, and the answer is as it was: it is short, or would not become shorter, or
 * memory is out. */
bool answer_deflate(struct deflater *deflater, enum body_encoding encoding, size_t lead, struct infer_answer *answer,
                    struct text *packed);
