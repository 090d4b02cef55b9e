/* infer_answer.h - the body of an answer, as pieces to send. */
#pragma once

#include <sys/uio.h>

#include "request/infer_call.h"

#define INFER_ANSWER_PIECES (1 + 2 * TENSORS_MAX)

struct infer_answer {
    size_t json_bytes; /* of the JSON in front, when binary outputs follow it; 0: all of it is JSON */
    size_t bytes;      /* of the whole body */
    /* The body. The first piece is the text; others point into the outputs: nothing is copied, and the outputs must
     * outlive the answer. Small outputs are appended to the text instead, so then there is one piece. */
    struct iovec pieces[INFER_ANSWER_PIECES];
    int piece_count;
};

struct request;

/* Whether making the answer of what has run is bulk (bulk.h): about how many bytes there are to be written as JSON,
 * sorted, compressed or copied; 0 where it is little. `as_json`: outputs are, unless they are asked for otherwise. */
size_t infer_answer_work(const struct infer_call *call, const struct request *request, bool as_json, bool compressed);

/* Binary outputs of at most so many bytes together are copied behind the JSON: a copy of that costs less than a second
 * system call. */
#define INFER_ANSWER_COPY_MAX ((size_t)32 * 1024)
