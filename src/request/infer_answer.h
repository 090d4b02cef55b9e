/* infer_answer.h - the body of an answer, as pieces to send. */
#pragma once

#include <sys/uio.h>

#include "request/infer_call.h"

#define INFER_ANSWER_OUTPUTS 16 /* of more outputs than that all are copied */
#define INFER_ANSWER_PIECES  (1 + 2 * INFER_ANSWER_OUTPUTS)

struct infer_answer {
    size_t json_bytes; /* of the JSON in front, if binary outputs follow it; 0: the whole body is JSON */
    size_t bytes;      /* of the whole body */
    /* The body. The first piece is the text; the others point into the outputs, which are not copied and must outlive
     * the answer. Small or many outputs are appended to the text instead: then there is one piece. */
    struct iovec pieces[INFER_ANSWER_PIECES];
    int piece_count;
};

struct request;

/* What a bulk job (bulk.h) makes the answer of a request that has run from: the bytes of all its outputs.
 * 0: no such job, since few bytes are to be written as JSON, sorted, compressed or copied. `as_json`: outputs are JSON
 * unless the client asked otherwise. */
size_t infer_answer_work(const struct infer_call *call, const struct request *request, bool as_json, bool compressed);

/* Binary outputs of at most so many bytes together are copied behind the JSON: copying them costs less than a second
 * system call. */
#define INFER_ANSWER_COPY_MAX ((size_t)32 * 1024)
