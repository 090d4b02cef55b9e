/* infer_write.h - writes a finished request's outputs as the JSON body of its answer, with binary outputs behind the
 * JSON.
 *
 * Pure, like infer_parse.h. */
#pragma once

#include "core/util/text.h"
#include "front/bulk/infer_answer.h"
#include "front/request/infer_call.h"

/* Builds the answer in `text` (empty, initialised by the caller; it must outlive the answer). `outputs` are those of
 * the whole batch, in which the request's items begin at `first_item`. `call` is as infer_parse() left it. 0; -EDOM: an
 * output that JSON cannot carry (tensor_json.h) was asked for as JSON; -EINVAL: the outputs are not what the signature
 * says; -ENOMEM.
 */
int infer_write(struct infer_answer *answer, struct text *text, const struct served_model *model,
                const struct infer_call *call, const struct tensor_view *outputs, uint32_t output_count,
                uint32_t first_item, struct sy_error *err);
