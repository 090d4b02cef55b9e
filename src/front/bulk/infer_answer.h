/* infer_answer.h - the body of an inference's answer, as pieces to send. */
#pragma once

#include <stddef.h>
#include <sys/uio.h>

#define INFER_ANSWER_OUTPUTS 16 /* most outputs that are sent without a copy; of more, all are copied */
#define INFER_ANSWER_PIECES  (1 + 2 * INFER_ANSWER_OUTPUTS)

struct infer_answer {
    size_t json_bytes; /* length of the JSON, if binary outputs follow it; 0: the whole body is JSON */
    size_t bytes;      /* length of the whole body */
    /* The body. The first piece is the text; the others point into the outputs, which are not copied and must outlive
     * the answer. Small or many outputs are appended to the text instead: then there is one piece. */
    struct iovec pieces[INFER_ANSWER_PIECES];
    int piece_count;
};

/* Binary outputs of at most so many bytes together are copied behind the JSON: copying them costs less than a second
 * system call. */
#define INFER_ANSWER_COPY_MAX ((size_t)32 * 1024)
