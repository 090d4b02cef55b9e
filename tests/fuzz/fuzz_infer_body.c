/* fuzz_infer_body.c - bodies of infer requests from anywhere, against models of several signatures.
 *
 * The input's first byte picks the model, the next two (little-endian) are the length of the JSON, 0xffff: no header
 * says it; the rest is the body. What is accepted must be a request that can be run: every input lies wholly in the
 * body or in memory taken for it, aligned, with the bytes of its shape. */
/* runs: 75000 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/text.h"
#include "front/v2/infer_parse.h"
#include "front/v2/infer_write.h"
#include "infer_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An answer can be made of it, whose JSON is as long as it says. */
static void check_answer(const struct served_model *model, struct infer_call *call) {
    struct tensor_view outputs[TENSORS_MAX];
    struct text classes = {0};
    outputs_fill(model, call, outputs, &classes);
    struct infer_answer answer;
    struct text text = {0};
    CHECK_EQ(infer_write(&answer, &text, model, call, outputs, model->signature.output_count, 0, NULL), 0);
    CHECK_EQ(answer.piece_count, 1);
    CHECK_EQ(answer.bytes, text.length);
    CHECK_LE(answer.json_bytes, answer.bytes);
    text_free(&text);
    text_free(&classes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3)
        return 0;
    uint32_t json_bytes = data[1] | (uint32_t)data[2] << 8;
    struct memory memory = {.count = 0};
    size_t bytes = size - 3;
    char *copy = malloc(bytes ? bytes : 1); /* as long as the body: a step beyond is seen */
    memcpy(copy, data + 3, bytes);
    struct infer_body body = {.model = &models[data[0] % ARRAY_COUNT(models)],
                              .data = copy,
                              .bytes = bytes,
                              .json_bytes = json_bytes == 0xffff ? INFER_NO_HEADER : (int64_t)json_bytes,
                              .memory = {memory_take, &memory}};
    struct infer_call call;
    struct sy_error err = {""};
    int status = infer_parse(&body, &call, &err);
    CHECK(status == 0 || (status == 400 && err.text[0] != '\0'));
    if (status == 0) {
        check_inputs(body.model, &call, body.data, body.bytes, &memory);
        check_answer(body.model, &call);
    }
    CHECK_EQ(memcmp(copy, data + 3, bytes), 0);
    memory_free(&memory);
    free(copy);
    return 0;
}
