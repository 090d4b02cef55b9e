/* fuzz_infer_body.c - bodies of infer requests from anywhere, against models of several signatures.
 *
 * The input's first byte picks the model, the next two (little-endian) are the length of the JSON, 0xffff: no header
 * says it; the rest is the body. What is accepted must be a request that can be run: every input lies wholly in the
 * body or in memory taken for it, aligned, with the bytes of its shape. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/container.h"
#include "base/text.h"
#include "frontend/infer_answer.h"
#include "frontend/infer_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct served_model models[] = {
    {.name = "batched",
     .batch_max = 8,
     .signature = {.input_count = 2,
                   .output_count = 2,
                   .batched = true,
                   .inputs = {{"x", DATATYPE_FP32, 2, {-1, 4}}, {"ids", DATATYPE_INT64, 1, {-1}}},
                   .outputs = {{"y", DATATYPE_FP32, 2, {-1, 4}}, {"z", DATATYPE_INT64, 1, {-1}}}}},
    {.name = "images",
     .batch_max = 4,
     .item_elements = 3072,
     .signature = {.input_count = 1,
                   .output_count = 1,
                   .batched = true,
                   .variable_shapes = true,
                   .inputs = {{"x", DATATYPE_UINT8, 4, {-1, 3, -1, -1}}},
                   .outputs = {{"y", DATATYPE_FP32, 2, {-1, 10}}}}},
    {.name = "single",
     .batch_max = 1,
     .signature = {.input_count = 1,
                   .output_count = 1,
                   .inputs = {{"x", DATATYPE_FP64, 2, {2, 2}}},
                   .outputs = {{"y", DATATYPE_FP64, 2, {2, 2}}}}},
    {.name = "types",
     .batch_max = 2,
     .signature = {.input_count = 4,
                   .output_count = 1,
                   .batched = true,
                   .inputs = {{"b", DATATYPE_BOOL, 2, {-1, 2}},
                              {"h", DATATYPE_FP16, 2, {-1, 2}},
                              {"f", DATATYPE_BF16, 2, {-1, 1}},
                              {"u", DATATYPE_UINT64, 1, {-1}}},
                   .outputs = {{"y", DATATYPE_INT8, 1, {-1}}}}},
    {.name = "strings",
     .batch_max = 1,
     .signature = {.input_count = 1,
                   .output_count = 1,
                   .inputs = {{"x", DATATYPE_BYTES, 1, {-1}}},
                   .outputs = {{"y", DATATYPE_BYTES, 1, {-1}}}}},
};

struct memory {
    char *blocks[TENSORS_MAX];
    size_t bytes[TENSORS_MAX];
    int count;
};

static void *memory_take(void *context, size_t bytes) {
    struct memory *memory = context;
    CHECK_LT(memory->count, TENSORS_MAX);
    memory->bytes[memory->count] = bytes;
    return memory->blocks[memory->count++] = malloc(bytes ? bytes : 1);
}

static bool inside(const struct tensor_view *view, const char *block, size_t bytes) {
    const char *data = view->data;
    return data >= block && data + view->bytes <= block + bytes;
}

static void check_inputs(const struct infer_body *body, const struct infer_call *call, const struct memory *memory) {
    const struct signature *signature = &body->model->signature;
    CHECK_LE(1, call->items);
    CHECK_LE(call->items, body->model->batch_max);
    for (uint32_t i = 0; i < signature->input_count; i++) {
        const struct tensor_view *view = &call->inputs[i];
        const struct tensor_spec *spec = &signature->inputs[i];
        bool found = inside(view, body->data, body->bytes);
        for (int b = 0; b < memory->count; b++)
            found = found || inside(view, memory->blocks[b], memory->bytes[b]);
        CHECK(found);
        CHECK_EQ((uintptr_t)view->data % datatype_bytes(spec->type), 0);
        CHECK_EQ(view->rank, spec->rank);
        CHECK_EQ(view->bytes, (size_t)dims_product(view->dims, 0, view->rank) * datatype_bytes(spec->type));
        for (uint32_t d = 0; d < spec->rank; d++)
            CHECK(spec->dims[d] == view->dims[d] || (spec->dims[d] == -1 && view->dims[d] > 0));
        if (signature->batched)
            CHECK_EQ(view->dims[0], call->items);
    }
}

/* An answer can be made of it, whose JSON is as long as it says. */
static void check_answer(const struct served_model *model, const struct infer_call *call) {
    static char zeros[8 * 10 * 8];
    struct tensor_view outputs[TENSORS_MAX];
    for (uint32_t i = 0; i < model->signature.output_count; i++) {
        const struct tensor_spec *spec = &model->signature.outputs[i];
        outputs[i] = (struct tensor_view){.data = zeros, .rank = spec->rank};
        for (uint32_t d = 0; d < spec->rank; d++)
            outputs[i].dims[d] = spec->dims[d] < 0 ? call->items : spec->dims[d];
        outputs[i].bytes = (size_t)dims_product(outputs[i].dims, 0, spec->rank) * datatype_bytes(spec->type);
        CHECK_LE(outputs[i].bytes, sizeof(zeros));
    }
    struct infer_answer answer;
    struct text text = {0};
    CHECK_EQ(infer_answer_build(&answer, &text, model, call, outputs, model->signature.output_count, 0, NULL), 0);
    CHECK_EQ(answer.piece_count, 1);
    CHECK_EQ(answer.bytes, text.length);
    CHECK_LE(answer.json_bytes, answer.bytes);
    text_free(&text);
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
    CHECK(status == 0 || ((status == 400 || status == 501) && err.text[0] != '\0'));
    if (status == 0) {
        check_inputs(&body, &call, &memory);
        check_answer(body.model, &call);
    }
    CHECK_EQ(memcmp(copy, data + 3, bytes), 0);
    for (int b = 0; b < memory.count; b++)
        free(memory.blocks[b]);
    free(copy);
    return 0;
}
