/* grpc_infer.h - ModelInferRequest, checked and laid out as the model's inputs, and ModelInferResponse.
 *
 * Pure, like infer_parse.h and infer_write.h. Field numbers are those of proto/inference.proto. */
#pragma once

#include "core/util/text.h"
#include "front/bulk/infer_answer.h"
#include "front/grpc/grpc_message.h"
#include "front/request/infer_call.h"

struct grpc_words {
    const char *model, *version, *id; /* in the message's head; of length 0: not given */
    size_t model_length, version_length, id_length;
};

/* Each: 0 or a status with a sentence. */

/* Which model a complete message is for, and its id. */
int grpc_infer_words(const struct grpc_message *message, struct grpc_words *words, struct sy_error *err);
/* Its tensors. Raw contents are used where they lie in the message; for typed ones memory is taken. */
int grpc_infer_parse(const struct grpc_message *message, const struct served_model *model, struct infer_memory memory,
                     struct infer_call *call, struct sy_error *err);

/* The answer with its length prefix, as infer_write() makes HTTP's: small outputs copied, others where they lie.
 * `streamed`: within a ModelStreamInferResponse, which says that it is the request's only one. 0 or -errno. */
int grpc_answer_build(struct infer_answer *answer, struct text *text, const struct served_model *model,
                      const struct infer_call *call, const struct tensor_view *outputs, uint32_t output_count,
                      uint32_t first_item, bool streamed, struct sy_error *err);
/* A ModelStreamInferResponse that says what became of one request of the stream. */
void grpc_answer_error(struct infer_answer *answer, struct text *text, const char *sentence, const char *id,
                       size_t id_length);
/* A message that is in the text from GRPC_ANSWER_ROOM on is the answer; its length prefix goes before it. */
#define GRPC_ANSWER_ROOM 16
void grpc_answer_text(struct infer_answer *answer, struct text *text);
