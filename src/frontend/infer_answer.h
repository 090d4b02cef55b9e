/* infer_answer.h - a finished request's outputs as the body of its answer.
 *
 * Pure, like infer_parse.h. */
#pragma once

#include <sys/uio.h>

#include "base/text.h"
#include "frontend/infer_parse.h"

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

/* Builds the answer in `text` (empty, initialised by the caller; it must outlive the answer). `outputs` are the whole
 * batch's, of which the request's items begin at `first_item`; with `call` as infer_parse() left it. 0; -EDOM: an
 * output that JSON cannot carry (tensor_json.h) was asked for as JSON; -EINVAL: the outputs are not what the signature
 * says; -ENOMEM.
 */
int infer_answer_build(struct infer_answer *answer, struct text *text, const struct served_model *model,
                       const struct infer_call *call, const struct tensor_view *outputs, uint32_t output_count,
                       uint32_t first_item, struct sy_error *err);
