/* test_grpc_infer.c - requests and answers of inference, packed and unpacked by protobuf-c. */
#include "unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "front/grpc/grpc_infer.h"
#include "inference.pb-c.h"
#include "specs.h"

typedef Inference__ModelInferRequest Request;
typedef Inference__ModelInferRequest__InferInputTensor Input;
typedef Inference__InferTensorContents Contents;

/* Every type, two of each in an item. */
static const struct served_model types = {
    .name = "types",
    .version = 12,
    .batch_max = 4,
    .signature = {.input_count = 12,
                  .output_count = 2,
                  .batched = true,
                  .inputs = SPECS({.name = "bool", .type = DATATYPE_BOOL, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "u8", .type = DATATYPE_UINT8, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "u16", .type = DATATYPE_UINT16, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "u32", .type = DATATYPE_UINT32, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "u64", .type = DATATYPE_UINT64, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "i8", .type = DATATYPE_INT8, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "i16", .type = DATATYPE_INT16, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "i32", .type = DATATYPE_INT32, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "i64", .type = DATATYPE_INT64, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "fp32", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "fp64", .type = DATATYPE_FP64, .dim_count = 2, .dims = {-1, 2}},
                                  {.name = "u8 too", .type = DATATYPE_UINT8, .dim_count = 2, .dims = {-1, 2}}),
                  .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 3}},
                                   {.name = "z", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}})},
};
static const struct served_model one = {
    .name = "one",
    .version = 1,
    .batch_max = 4,
    .signature = {.input_count = 1,
                  .output_count = 1,
                  .batched = true,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_INT8, .dim_count = 2, .dims = {-1, 2}}),
                  .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 3}})},
};
static const struct served_model words = {
    .name = "words",
    .version = 1,
    .batch_max = 4,
    .signature = {.input_count = 1,
                  .batched = true,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, 2}})},
};
static const struct served_model half = {
    .name = "half",
    .version = 1,
    .batch_max = 1,
    .signature = {.input_count = 1,
                  .output_count = 1,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_FP16, .dim_count = 1, .dims = {2}})},
};

struct memory {
    void *blocks[64];
    int count;
    bool empty;
};

static void *memory_take(void *context, size_t bytes) {
    struct memory *memory = context;
    if (memory->empty)
        return NULL;
    assert_in_range(memory->count, 0, 63);
    return memory->blocks[memory->count++] = aligned_alloc(64, (bytes + 64) / 64 * 64);
}

static void memory_give(void *context, void *block) {
    /* freed with the others */
}

struct parsed {
    struct memory memory;
    struct grpc_message message;
    struct grpc_words words;
    struct infer_call call;
    struct sy_error err;
    int status;
};

static struct parsed *parse_bytes(const struct served_model *model, const uint8_t *data, size_t bytes) {
    struct parsed *p = calloc(1, sizeof(*p));
    uint8_t prefix[GRPC_PREFIX_BYTES] = {0, (uint8_t)(bytes >> 24), (uint8_t)(bytes >> 16), (uint8_t)(bytes >> 8),
                                         (uint8_t)bytes};
    size_t taken;
    grpc_message_begin(&p->message, true, 1 << 20, (struct block_memory){memory_take, memory_give, &p->memory});
    p->status = grpc_message_feed(&p->message, prefix, sizeof(prefix), &taken, &p->err);
    if (!p->status && bytes > 0)
        p->status = grpc_message_feed(&p->message, data, bytes, &taken, &p->err);
    if (!p->status)
        p->status = grpc_infer_words(&p->message, &p->words, &p->err);
    if (!p->status)
        p->status =
            grpc_infer_parse(&p->message, model, (struct infer_memory){memory_take, &p->memory}, &p->call, &p->err);
    return p;
}

static struct parsed *parse(const struct served_model *model, const Request *request) {
    size_t bytes = inference__model_infer_request__get_packed_size(request);
    uint8_t *packed = malloc(bytes ? bytes : 1);
    inference__model_infer_request__pack(request, packed);
    struct parsed *p = parse_bytes(model, packed, bytes);
    free(packed);
    return p;
}

static void parsed_free(struct parsed *p) {
    while (p->memory.count > 0)
        free(p->memory.blocks[--p->memory.count]);
    free(p);
}

static void check_ok(const struct parsed *p) {
    if (p->status != 0)
        fail_msg("%d: %s", p->status, p->err.text);
}

#define VALUES(member_, ...)                                                                                           \
    .n_##member_ =                                                                                                     \
        sizeof((__typeof__(*(Contents){0}.member_)[]){__VA_ARGS__}) / sizeof(__typeof__(*(Contents){0}.member_)),      \
    .member_ = (__typeof__(*(Contents){0}.member_)[]) {                                                                \
        __VA_ARGS__                                                                                                    \
    }

TEST(typed_contents_become_tensors) {
    Contents empty = INFERENCE__INFER_TENSOR_CONTENTS__INIT;
#define CONTENTS(...) {.base = empty.base, __VA_ARGS__}
    Contents contents[12] = {CONTENTS(VALUES(bool_contents, 1, 0)),
                             CONTENTS(VALUES(uint_contents, 0, 255)),
                             CONTENTS(VALUES(uint_contents, 1, 65535)),
                             CONTENTS(VALUES(uint_contents, 2, UINT32_MAX)),
                             CONTENTS(VALUES(uint64_contents, 3, UINT64_MAX)),
                             CONTENTS(VALUES(int_contents, -128, 127)),
                             CONTENTS(VALUES(int_contents, -32768, 32767)),
                             CONTENTS(VALUES(int_contents, INT32_MIN, INT32_MAX)),
                             CONTENTS(VALUES(int64_contents, INT64_MIN, INT64_MAX)),
                             CONTENTS(VALUES(fp32_contents, -0.5f, INFINITY)),
                             CONTENTS(VALUES(fp64_contents, 0.1, -1e300)),
                             CONTENTS(VALUES(uint_contents, 7, 8))};
    Input inputs[12], *pointers[12];
    int64_t shape[] = {1, 2};
    Request request = INFERENCE__MODEL_INFER_REQUEST__INIT;
    for (uint32_t i = 0; i < 12; i++) {
        const struct tensor_spec *spec = &types.signature.inputs[11 - i]; /* not in the signature's order */
        inputs[i] = (Input)INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT;
        inputs[i].name = (char *)spec->name;
        inputs[i].datatype = (char *)datatype_name(spec->type);
        inputs[i].n_shape = 2;
        inputs[i].shape = shape;
        inputs[i].contents = &contents[11 - i];
        pointers[i] = &inputs[i];
    }
    request.model_name = (char *)"types";
    request.n_inputs = 12;
    request.inputs = pointers;
    struct parsed *p = parse(&types, &request);
    check_ok(p);
    assert_int_equal(p->words.model_length, 5);
    assert_int_equal(p->call.items, 1);
    assert_memory_equal(p->call.inputs[0].data, ((uint8_t[]){1, 0}), 2);
    assert_memory_equal(p->call.inputs[1].data, ((uint8_t[]){0, 255}), 2);
    assert_memory_equal(p->call.inputs[2].data, ((uint16_t[]){1, 65535}), 4);
    assert_memory_equal(p->call.inputs[3].data, ((uint32_t[]){2, UINT32_MAX}), 8);
    assert_memory_equal(p->call.inputs[4].data, ((uint64_t[]){3, UINT64_MAX}), 16);
    assert_memory_equal(p->call.inputs[5].data, ((int8_t[]){-128, 127}), 2);
    assert_memory_equal(p->call.inputs[6].data, ((int16_t[]){-32768, 32767}), 4);
    assert_memory_equal(p->call.inputs[7].data, ((int32_t[]){INT32_MIN, INT32_MAX}), 8);
    assert_memory_equal(p->call.inputs[8].data, ((int64_t[]){INT64_MIN, INT64_MAX}), 16);
    assert_memory_equal(p->call.inputs[9].data, ((float[]){-0.5f, INFINITY}), 8);
    assert_memory_equal(p->call.inputs[10].data, ((double[]){0.1, -1e300}), 16);
    assert_memory_equal(p->call.inputs[11].data, ((uint8_t[]){7, 8}), 2);
    assert_int_equal(p->call.output_count, 2);
    parsed_free(p);
}

/* The fields of a request for model "one", to be spoilt. */
#define MODEL "\x0a\3one"
#define NAME  "\x0a\1x"
#define INT8  "\x12\4INT8"
#define SHAPE "\x1a\2\1\2"
#define HEAD  NAME INT8 SHAPE /* 13 bytes */
#define INPUT "\x2a\x0d" HEAD
#define RAW   "\x3a\2ab"

TEST(raw_inputs_and_forms) {
    static const struct {
        const char *bytes;
        size_t length;
    } cases[] = {
#define CASE(bytes) {bytes, sizeof(bytes) - 1}
        CASE(MODEL INPUT RAW),
        CASE(RAW MODEL INPUT),                                     /* fields come in any order */
        CASE(MODEL "\x2a\x0d" INT8 "\x18\1\x18\2" NAME RAW),       /* a shape that is not packed */
        CASE(MODEL INPUT "\xf2\7\3abc" RAW),                       /* an unknown field */
        CASE(MODEL "\x2a\x13" HEAD "\x2a\4\x12\2ab"),              /* typed: 97, 98 */
        CASE(MODEL "\x2a\x13" HEAD "\x2a\4\x10\x61\x10\x62"),      /* and not packed */
        CASE(MODEL INPUT RAW "\x22\x0d\x0a\7timeout\x12\2\x10\5"), /* 5 us */
        CASE(MODEL INPUT RAW "\x22\x0d\x0a\7timeout\x12\2\x28\5"), /* as uint64_param */
        CASE(MODEL INPUT RAW "\x32\3\x0a\1y"),                     /* output y */
        CASE(MODEL INPUT RAW "\x1a\2id"),
        CASE(MODEL INPUT RAW "\x22\x0e\x0a\x08priority\x12\2\x28\3"),
        CASE(MODEL INPUT RAW "\x22\x11\x0a\x0b"
                             "best_effort\x12\2\x08\1"),
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct parsed *p = parse_bytes(&one, (const uint8_t *)cases[i].bytes, cases[i].length);
        if (p->status != 0)
            fail_msg("case %zu: %d %s", i, p->status, p->err.text);
        assert_memory_equal(p->call.inputs[0].data, "ab", 2);
        assert_int_equal(p->call.inputs[0].bytes, 2);
        assert_int_equal(p->call.timeout_us, i == 6 || i == 7 ? 5 : 0);
        assert_int_equal(p->call.id_length, i == 9 ? 2 : 0);
        assert_int_equal(p->call.priority, i == 10 ? 3 : 0);
        assert_int_equal(p->call.best_effort, i == 11);
        parsed_free(p);
    }
}

/* The same of strings, two an item. */
#define WORDS "\x0a\5words\x2a"
#define STRINGS                                                                                                        \
    NAME "\x12\5"                                                                                                      \
         "BYTES"                                                                                                       \
         "\x1a\2\1\2" /* 14 bytes */

TEST(strings_come_raw_and_typed) {
    static const struct {
        const char *bytes;
        size_t length;
        int status;
        const char *words;
    } cases[] = {
#define TEXT(bytes, status, words) {bytes, sizeof(bytes) - 1, status, words}
        TEXT(WORDS "\x0e" STRINGS "\x3a\x0a\2\0\0\0\0a\0\0\0\0", 0, ""),
        TEXT(WORDS "\x16" STRINGS "\x2a\6\x42\2\0a\x42\0", 0, ""),
        TEXT(WORDS "\x12" STRINGS "\x2a\2\x42\0", 400, "expected 1 more strings"),
        TEXT(WORDS "\x16" STRINGS "\x2a\6\x42\0\x42\0\x42\0", 400, "4 bytes follow the 2 strings"),
        TEXT(WORDS "\x12" STRINGS "\x2a\2\x12\0", 400, "another type than BYTES"),
        TEXT(WORDS "\x12" STRINGS "\x2a\2\x40\0", 400, "another type than BYTES"),
        TEXT(WORDS "\x12" STRINGS "\x2a\2\x42\1", 400, "not valid protobuf"),
        TEXT(WORDS "\x0e" STRINGS "\x3a\4\0\0\0\0", 400, "expected 1 more strings"),
        TEXT(WORDS "\x0e" STRINGS "\x3a\x08\0\0\0\0\1\0\0\0", 400, "string 1 is not whole"),
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct parsed *p = parse_bytes(&words, (const uint8_t *)cases[i].bytes, cases[i].length);
        if (p->status != cases[i].status || !strstr(p->err.text, cases[i].words))
            fail_msg("case %zu: %d '%s', not %d '%s'", i, p->status, p->err.text, cases[i].status, cases[i].words);
        if (p->status == 0) {
            assert_int_equal(p->call.inputs[0].bytes, 10);
            assert_memory_equal(p->call.inputs[0].data, "\2\0\0\0\0a\0\0\0\0", 10);
        }
        parsed_free(p);
    }
}

TEST(tensors_without_elements_need_no_contents) {
    const struct served_model any = {
        .name = "any",
        .version = 1,
        .batch_max = 4,
        .signature = {.input_count = 2,
                      .batched = true,
                      .inputs = SPECS({.name = "x", .type = DATATYPE_FP16, .dim_count = 2, .dims = {-1, -1}},
                                      {.name = "w", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, -1}})},
    };
    static const char request[] = "\x0a\3any\x2a\x0d\x0a\1x\x12\4"
                                  "FP16\x1a\2\1\0\x2a\x0e\x0a\1w\x12\5"
                                  "BYTES\x1a\2\1\0";
    struct parsed *p = parse_bytes(&any, (const uint8_t *)request, sizeof(request) - 1);
    check_ok(p);
    for (uint32_t i = 0; i < 2; i++) {
        assert_non_null(p->call.inputs[i].data); /* it is given */
        assert_int_equal(p->call.inputs[i].bytes, 0);
    }
    parsed_free(p);
}

TEST(mistakes) {
    static const struct {
        const char *bytes;
        size_t length;
        int status;
        const char *words;
    } cases[] = {
#define BAD(bytes, status, words) {bytes, sizeof(bytes) - 1, status, words}
        BAD(MODEL RAW, 400, "1 raw_input_contents for 0 inputs"),
        BAD(MODEL, 400, "missing"),
        BAD(MODEL INPUT, 400, "input 'x' has neither contents nor raw_input_contents"),
        BAD(MODEL INPUT INPUT RAW, 400, "given twice"),
        BAD(MODEL "\x2a\x13" HEAD "\x2a\4\x12\2ab" RAW, 400,
            "contents field must not be specified when using raw_input_contents for 'x'"),
        BAD(MODEL "\x2a\x13" HEAD "\x2a\4\x22\2ab", 400, "of another type"),
        BAD(MODEL "\x2a\x14" HEAD "\x2a\5\x12\3abc", 400, "more values"),
        BAD(MODEL "\x2a\x12" HEAD "\x2a\3\x12\1a", 400, "fewer values"),
        BAD(MODEL "\x2a\x14" HEAD "\x2a\5\x12\3\x80\1\1", 400, "128 is out of the range of INT8"),
        BAD(MODEL "\x2a\x13" HEAD "\x2a\4\x12\2\x80\x80", 400, "not valid protobuf"),
        BAD(MODEL "\x2a\x15" HEAD "\x2a\6\x12\2ab\x12\1", 400, "not valid protobuf"),
        BAD(MODEL "\x2a\x19" HEAD "\x2a\4\x12\2ab\x2a\4\x12\2ab", 400, "contents twice"),
        BAD(MODEL "\x2a\x04" NAME "x", 400, "not valid protobuf"),
        BAD(MODEL "\x2a\x0d" NAME "\x12\4INT9" SHAPE RAW, 400, "unknown datatype 'INT9'"),
        BAD(MODEL "\x2a\x0e" NAME "\x12\5"
                  "BYTES" SHAPE RAW,
            400, "data-type is 'BYTES'"),
        BAD(MODEL INPUT RAW "\x22\x0e\x0a\7timeout\x12\3\x1a\1"
                            "5",
            400, "expected int64_param"),
        BAD(MODEL INPUT RAW "\x22\x09\x0a\7timeout", 400, "expected int64_param"),
        BAD(MODEL INPUT RAW "\x22\x0a\x0a\x08priority", 400,
            "invalid value type for 'priority' parameter, expected int64_param"),
        BAD(MODEL INPUT RAW "\x22\x11\x0a\x0b"
                            "best_effort\x12\2\x10\1",
            400, "bool_param"),
        BAD(MODEL INPUT RAW "\x22\x03\x0a\7t", 400, "not valid protobuf"),
        BAD(MODEL INPUT RAW "\x32\x17\x0a\1y\x12\x12\x0a\x0e"
                            "classification\x12\0",
            400, "whole number"),
        BAD(MODEL INPUT RAW "\x32\x22\x0a\1y\x12\x1d\x0a\x0e"
                            "classification\x12\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\1",
            400, "classification is -1, which is negative"),
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct parsed *p = parse_bytes(&one, (const uint8_t *)cases[i].bytes, cases[i].length);
        if (p->status != cases[i].status || !strstr(p->err.text, cases[i].words))
            fail_msg("case %zu: %d '%s', not %d '%s'", i, p->status, p->err.text, cases[i].status, cases[i].words);
        parsed_free(p);
    }
    struct parsed *p = parse_bytes(&half,
                                   (const uint8_t *)"\x2a\x14\x0a\1x\x12\4"
                                                    "FP16\x1a\1\2\x2a\6\x32\4abcd",
                                   22);
    assert_int_equal(p->status, 400);
    if (!strstr(p->err.text, "raw_input_contents only"))
        fail_msg("%s", p->err.text);
    parsed_free(p);
}

/* The batch's outputs: items 0 to 3, of which the request has two from 1 on. */
static float y[4][3] = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}};
static int64_t z[4] = {10, 11, 12, 13};
static const struct tensor_view outputs[] = {{y, sizeof(y), 2, {4, 3}, NULL}, {z, sizeof(z), 1, {4}, NULL}};

/* As the greatest: all there are. */
TEST(more_classes_than_an_int64_counts) {
    static const char message[] = MODEL INPUT RAW "\x32\x22\x0a\1y\x12\x1d\x0a\x0e"
                                                  "classification\x12\x0b\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\1";
    struct parsed *p = parse_bytes(&one, (const uint8_t *)message, sizeof(message) - 1);
    assert_int_equal(p->status, 0);
    assert_int_equal(p->call.outputs[0].classes, UINT32_MAX);
    parsed_free(p);
}

static uint8_t *flatten(const struct infer_answer *answer) {
    uint8_t *bytes = malloc(answer->bytes);
    size_t at = 0;
    for (int i = 0; i < answer->piece_count; i++) {
        memcpy(bytes + at, answer->pieces[i].iov_base, answer->pieces[i].iov_len);
        at += answer->pieces[i].iov_len;
    }
    assert_int_equal(at, answer->bytes);
    assert_int_equal(bytes[0], 0);
    assert_int_equal((uint32_t)bytes[1] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 8 | bytes[4],
                     answer->bytes - GRPC_PREFIX_BYTES);
    return bytes;
}

static void check_response(const Inference__ModelInferResponse *response) {
    assert_string_equal(response->model_name, "types");
    assert_string_equal(response->model_version, "12");
    assert_string_equal(response->id, "me");
    assert_int_equal(response->n_outputs, 2);
    assert_string_equal(response->outputs[0]->name, "z");
    assert_string_equal(response->outputs[1]->datatype, "FP32");
    assert_int_equal(response->outputs[1]->n_shape, 2);
    assert_int_equal(response->outputs[1]->shape[0], 2);
    assert_int_equal(response->n_raw_output_contents, 2);
    assert_int_equal(response->raw_output_contents[0].len, 16);
    assert_memory_equal(response->raw_output_contents[0].data, &z[1], 16);
    assert_int_equal(response->raw_output_contents[1].len, 24);
    assert_memory_equal(response->raw_output_contents[1].data, y[1], 24);
}

TEST(answers_hold_the_requests_items) {
    struct infer_call call;
    struct infer_answer answer;
    struct text text = {0};
    assert_int_equal(infer_call_begin(&call, &types, (struct infer_memory){0}, NULL), 0);
    call.items = call.output_count = call.id_length = 2;
    call.id = "me";
    call.outputs[0] = (struct infer_output){.index = 1};
    call.outputs[1] = (struct infer_output){.index = 0};
    assert_int_equal(grpc_answer_build(&answer, &text, &types, &call, outputs, 2, 1, false, NULL), 0);
    uint8_t *bytes = flatten(&answer);
    Inference__ModelInferResponse *response =
        inference__model_infer_response__unpack(NULL, answer.bytes - GRPC_PREFIX_BYTES, bytes + GRPC_PREFIX_BYTES);
    assert_non_null(response);
    check_response(response);
    assert_int_equal(response->n_parameters, 0);
    inference__model_infer_response__free_unpacked(response, NULL);
    free(bytes);

    text_free(&text);
    assert_int_equal(grpc_answer_build(&answer, &text, &types, &call, outputs, 2, 1, true, NULL), 0);
    bytes = flatten(&answer);
    Inference__ModelStreamInferResponse *streamed = inference__model_stream_infer_response__unpack(
        NULL, answer.bytes - GRPC_PREFIX_BYTES, bytes + GRPC_PREFIX_BYTES);
    assert_non_null(streamed);
    assert_string_equal(streamed->error_message, "");
    check_response(streamed->infer_response);
    assert_string_equal(streamed->infer_response->parameters[0]->key, "triton_final_response");
    assert_true(streamed->infer_response->parameters[0]->value->bool_param);
    inference__model_stream_infer_response__free_unpacked(streamed, NULL);
    free(bytes);
    text_free(&text);
}

TEST(large_outputs_stay_where_they_are) {
    enum { ITEMS = 4, WIDTH = 40000 };
    static float wide[ITEMS][WIDTH];
    const struct served_model model = {
        .name = "wide",
        .version = 1,
        .signature = {.output_count = 2,
                      .batched = true,
                      .outputs = SPECS({.name = "a", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, WIDTH}},
                                       {.name = "b", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, WIDTH}})}};
    const struct tensor_view views[] = {{wide, sizeof(wide), 2, {ITEMS, WIDTH}, NULL},
                                        {wide, sizeof(wide), 2, {ITEMS, WIDTH}, NULL}};
    struct infer_call call;
    struct infer_answer answer;
    struct text text = {0};
    assert_int_equal(infer_call_begin(&call, &model, (struct infer_memory){0}, NULL), 0);
    call.items = 1;
    call.output_count = 2;
    call.outputs[0] = (struct infer_output){.index = 0};
    call.outputs[1] = (struct infer_output){.index = 1};
    for (int i = 0; i < ITEMS * WIDTH; i++)
        wide[i / WIDTH][i % WIDTH] = (float)i;
    assert_int_equal(grpc_answer_build(&answer, &text, &model, &call, views, 2, 3, true, NULL), 0);
    assert_int_equal(answer.piece_count, 4);
    assert_ptr_equal(answer.pieces[1].iov_base, wide[3]);
    assert_ptr_equal(answer.pieces[3].iov_base, wide[3]);
    uint8_t *bytes = flatten(&answer);
    Inference__ModelStreamInferResponse *streamed = inference__model_stream_infer_response__unpack(
        NULL, answer.bytes - GRPC_PREFIX_BYTES, bytes + GRPC_PREFIX_BYTES);
    assert_non_null(streamed);
    assert_memory_equal(streamed->infer_response->raw_output_contents[1].data, wide[3], sizeof(wide[3]));
    inference__model_stream_infer_response__free_unpacked(streamed, NULL);
    free(bytes);
    text_free(&text);
}

TEST(errors_of_a_stream) {
    struct infer_answer answer;
    struct text text = {0};
    grpc_answer_error(&answer, &text, "wrong: 'a\xc3'", "me", 2); /* a string of protobuf is UTF-8 */
    uint8_t *bytes = flatten(&answer);
    Inference__ModelStreamInferResponse *streamed = inference__model_stream_infer_response__unpack(
        NULL, answer.bytes - GRPC_PREFIX_BYTES, bytes + GRPC_PREFIX_BYTES);
    assert_string_equal(streamed->error_message, "wrong: 'a?'");
    assert_string_equal(streamed->infer_response->id, "me");
    inference__model_stream_infer_response__free_unpacked(streamed, NULL);
    free(bytes);
    text_free(&text);
}

TEST(the_error_of_a_stream_is_whole_without_memory_for_its_id) {
    struct infer_answer answer;
    char room[256];
    struct text text;
    text_init(&text, room, sizeof(room));
    for (int i = 0; i < 2; i++) { /* what has failed once does no harm */
        grpc_answer_error(&answer, &text, "wrong", "me", SIZE_MAX - 1000);
        uint8_t *bytes = flatten(&answer);
        Inference__ModelStreamInferResponse *streamed = inference__model_stream_infer_response__unpack(
            NULL, answer.bytes - GRPC_PREFIX_BYTES, bytes + GRPC_PREFIX_BYTES);
        assert_non_null(streamed);
        assert_string_equal(streamed->error_message, "wrong");
        assert_null(streamed->infer_response);
        inference__model_stream_infer_response__free_unpacked(streamed, NULL);
        free(bytes);
    }
}
