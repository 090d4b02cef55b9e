/* infer_answer.c - estimates the work of making an answer. */
#include "request/infer_answer.h"

#include "link/output_block.h"
#include "request/bulk.h"
#include "request/request.h"

size_t infer_answer_work(const struct infer_call *call, const struct request *request, bool as_json, bool compressed) {
    const struct output_block *block = request->block;
    size_t json = 0, copied = 0, all = 0;
    for (uint32_t i = 0; i < call->output_count; i++) {
        const struct infer_output *wanted = &call->outputs[i];
        size_t bytes = wanted->index < block->output_count ? block->outputs[wanted->index].bytes : 0;
        bytes = bytes / (request->batch_items ? request->batch_items : 1) * request->items;
        all += bytes;
        copied += wanted->shared.region || call->output_count > INFER_ANSWER_OUTPUTS ? bytes : 0;
        json += wanted->classified || (as_json && !wanted->binary && !wanted->shared.region) ? bytes : 0;
    }
    bool long_work = json > BULK_JSON_BYTES || copied > BULK_COPY_BYTES || (compressed && all > BULK_DEFLATE_BYTES);
    return long_work ? all : 0;
}
