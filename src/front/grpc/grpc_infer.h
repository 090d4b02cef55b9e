/* grpc_infer.h - checks a ModelInferRequest and lays it out as the model's inputs; builds a ModelInferResponse.
 *
 * Pure, like infer_parse.h and infer_write.h. Field numbers are those of proto/inference.proto. */
#pragma once

#include "core/util/text.h"
#include "front/bulk/infer_answer.h"
#include "front/grpc/grpc_message.h"
#include "front/request/infer_call.h"

struct grpc_words {
    const char *model, *version, *id; /* words in the message's head; length 0: not given */
    size_t model_length, version_length, id_length;
};

/* The next two functions return 0, or a status with a sentence. */

/* Finds the model's name and version and the request's id in a complete message. */
int grpc_infer_words(const struct grpc_message *message, struct grpc_words *words, struct sy_error *err);
/* Reads the tensors of a complete message. Raw contents are used in place, in the message; memory is taken for typed
 * contents. */
int grpc_infer_parse(const struct grpc_message *message, const struct served_model *model, struct infer_memory memory,
                     struct infer_call *call, struct sy_error *err);

/* Builds the answer with its length prefix, as infer_write() does for HTTP: small outputs are copied, the others stay
 * in place. `streamed`: the answer is put into a ModelStreamInferResponse, which says that it is the request's only
 * one. 0 or -errno. */
int grpc_answer_build(struct infer_answer *answer, struct text *text, const struct served_model *model,
                      const struct infer_call *call, const struct tensor_view *outputs, uint32_t output_count,
                      uint32_t first_item, bool streamed, struct sy_error *err);
/* Builds a ModelStreamInferResponse with the error of one request of the stream, without its id if there is no memory
 * for that. `text` has room for GRPC_ANSWER_ROOM and the sentence. */
void grpc_answer_error(struct infer_answer *answer, struct text *text, const char *sentence, const char *id,
                       size_t id_length);
/* Makes the message that is in the text from GRPC_ANSWER_ROOM on the answer, and puts its length prefix before it. */
#define GRPC_ANSWER_ROOM 16
void grpc_answer_text(struct infer_answer *answer, struct text *text);
