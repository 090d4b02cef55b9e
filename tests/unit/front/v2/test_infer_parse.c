/* test_infer_parse.c - tables of good and bad bodies of infer requests. */
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "front/v2/infer_parse.h"
#include "specs.h"

/* Gives memory for inputs and takes it all back. */
struct memory {
    void *blocks[TENSORS_MAX];
    int count;
    bool empty; /* refuses */
};

static void *memory_take(void *context, size_t bytes) {
    struct memory *memory = context;
    if (memory->empty)
        return NULL;
    assert_in_range(memory->count, 0, TENSORS_MAX - 1);
    return memory->blocks[memory->count++] = malloc(bytes ? bytes : 1);
}

static void memory_give(struct memory *memory) {
    while (memory->count > 0)
        free(memory->blocks[--memory->count]);
}

/* x: FP32 [batch, 4]; ids: INT64 [batch]; answers y and z. */
static const struct served_model batched = {
    .name = "double",
    .version = 2,
    .batch_max = 8,
    .signature = {.input_count = 2,
                  .output_count = 2,
                  .batched = true,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}},
                                  {.name = "ids", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}}),
                  .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}},
                                   {.name = "z", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}})},
};
/* One input of any width and height. */
static const struct served_model images = {
    .name = "images",
    .version = 1,
    .batch_max = 4,
    .item_elements = 3 * 32 * 32,
    .signature = {.input_count = 1,
                  .output_count = 1,
                  .batched = true,
                  .variable_shapes = true,
                  .inputs = SPECS({.name = "image", .type = DATATYPE_UINT8, .dim_count = 4, .dims = {-1, 3, -1, -1}}),
                  .outputs = SPECS({.name = "label", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 10}})},
};
/* No batch dimension. */
static const struct served_model single = {
    .name = "single",
    .version = 1,
    .batch_max = 1,
    .signature = {.input_count = 1,
                  .output_count = 1,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 1, .dims = {4}}),
                  .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 1, .dims = {4}})},
};

/* Strings. */
static const struct served_model words = {
    .name = "words",
    .version = 1,
    .batch_max = 4,
    .signature = {.input_count = 1,
                  .output_count = 1,
                  .batched = true,
                  .inputs = SPECS({.name = "w", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, 2}}),
                  .outputs = SPECS({.name = "y", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, 2}})},
};
static const struct served_model word = {
    .name = "word",
    .version = 1,
    .batch_max = 4,
    .signature = {.input_count = 1,
                  .batched = true,
                  .inputs = SPECS({.name = "w", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, -1}})},
};

struct parsed {
    struct infer_call call;
    struct memory memory;
    struct sy_error err;
    char *body;
    int status;
};

/* Parses a copy of the body that is just as long as it, so that the address sanitizer sees every step beyond it. */
static struct parsed *parse(const struct served_model *model, const void *data, size_t bytes, int64_t json_bytes) {
    struct parsed *p = calloc(1, sizeof(*p));
    p->body = malloc(bytes ? bytes : 1);
    memcpy(p->body, data, bytes);
    struct infer_body body = {model, p->body, bytes, json_bytes, {memory_take, &p->memory}};
    p->status = infer_parse(&body, &p->call, &p->err);
    return p;
}

static void parsed_free(struct parsed *p) {
    memory_give(&p->memory);
    free(p->body);
    free(p);
}

static struct parsed *parse_json(const struct served_model *model, const char *json) {
    return parse(model, json, strlen(json), INFER_NO_HEADER);
}

/* JSON and `bytes` of tensors counted up from 0 behind it. */
static struct parsed *parse_binary(const struct served_model *model, const char *json, size_t bytes) {
    size_t length = strlen(json);
    char *body = malloc(length + bytes + 1);
    memcpy(body, json, length);
    for (size_t i = 0; i < bytes; i++)
        body[length + i] = (char)i;
    struct parsed *p = parse(model, body, length + bytes, (int64_t)length);
    free(body);
    return p;
}

#define X_REST "\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\",\"data\":[1,2,3,4]}"
#define X      "{" X_REST
#define IDS    "{\"name\":\"ids\",\"shape\":[1],\"datatype\":\"INT64\",\"data\":[7]}"
#define XB     "{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":16}}"
#define IDB    "{\"name\":\"ids\",\"shape\":[1],\"datatype\":\"INT64\",\"parameters\":{\"binary_data_size\":8}}"

static void check_ok(const struct parsed *p) {
    if (p->status != 0)
        fail_msg("%d: %s", p->status, p->err.text);
}

TEST(json_inputs_become_tensors) {
    struct parsed *p = parse_json(
        &batched, "{\"id\":\"a\\u00e9\\\"\",\"parameters\":{\"timeout\":2500,\"priority\":1,\"own\":[{}]},\"inputs\":["
                  "{\"name\":\"ids\",\"shape\":[2],\"datatype\":\"INT64\",\"data\":[-1,9]},"
                  "{\"name\":\"x\",\"shape\":[2,4],\"datatype\":\"FP32\",\"data\":[[1,2,3,4],[5,6,7,8.5]]}]}");
    check_ok(p);
    assert_int_equal(p->call.items, 2);
    assert_int_equal(p->call.timeout_us, 2500);
    assert_int_equal(p->call.priority, 1);
    assert_false(p->call.best_effort);
    assert_int_equal(p->call.shape_key, 0);
    assert_true(p->call.work == 1);
    assert_int_equal(p->call.id_length, strlen("a\\u00e9\\\""));
    assert_memory_equal(p->call.id, "a\\u00e9\\\"", p->call.id_length);
    assert_int_equal(p->call.inputs[0].bytes, 32);
    assert_true(((float *)p->call.inputs[0].data)[7] == 8.5F);
    assert_int_equal(p->call.inputs[0].dim_count, 2);
    assert_int_equal(p->call.inputs[0].dims[1], 4);
    assert_int_equal(((int64_t *)p->call.inputs[1].data)[0], -1);
    assert_int_equal(p->call.output_count, 2);
    assert_int_equal(p->call.outputs[1].index, 1);
    assert_false(p->call.outputs[1].binary);
    parsed_free(p);
}

TEST(names_may_be_as_long_as_those_of_tensors) {
#define NAME126                                                                                                        \
    "123456789012345678901234567890123456789012345678901234567890123"                                                  \
    "123456789012345678901234567890123456789012345678901234567890123"
    static const char *const names[] = {"a" NAME126, "\\u0061" NAME126, "aa" NAME126};
    struct served_model model = single;
    struct tensor_spec spec = single.signature.inputs[0];
    strcpy(spec.name, names[0]);
    model.signature.inputs = &spec;
    for (int i = 0; i < 3; i++) {
        char json[512];
        snprintf(json, sizeof(json),
                 "{\"inputs\":[{\"name\":\"%s\",\"shape\":[4],\"datatype\":\"FP32\",\"data\":[1,2,3,4]}]}", names[i]);
        struct parsed *p = parse_json(&model, json);
        assert_int_equal(p->status, i < 2 ? 0 : 400);
        assert_string_equal(p->err.text, i < 2 ? "" : "a name of 128 bytes is too long: it may have 127");
        parsed_free(p);
    }
}

TEST(fields_may_come_in_any_order) {
    static const char *const bodies[] = {
        "{\"inputs\":[{\"data\":[1,2,3,4],\"datatype\":\"FP32\",\"shape\":[1,4],\"name\":\"x\"}," IDS "]}",
        "{\"inputs\":[{\"shape\":[1,4],\"data\":[[1,2,3,4]],\"name\":\"x\",\"datatype\":\"FP32\"}," IDS "]}",
        "{\"inputs\":[{\"name\":\"\\u0078\",\"data\":[1,2,3,4],\"datatype\":\"FP32\",\"shape\":[1,4]}," IDS
        "],\"z\":1}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        struct parsed *p = parse_json(&batched, bodies[i]);
        check_ok(p);
        assert_true(((float *)p->call.inputs[0].data)[3] == 4);
        assert_int_equal(((int64_t *)p->call.inputs[1].data)[0], 7);
        parsed_free(p);
    }
}

TEST(binary_inputs_stay_in_the_body_if_aligned) {
    char json[512];
    for (int blanks = 0; blanks < 8; blanks++) {
        snprintf(json, sizeof(json), "{%*s\"inputs\":[" XB "," IDB "]}", blanks, "");
        struct parsed *p = parse_binary(&batched, json, 24);
        check_ok(p);
        const char *x = p->call.inputs[0].data;
        bool inside = x >= p->body && x < p->body + strlen(json) + 24;
        assert_int_equal(inside, ((uintptr_t)p->body + strlen(json)) % 4 == 0);
        assert_int_equal((uintptr_t)x % 4, 0);
        assert_int_equal((uintptr_t)p->call.inputs[1].data % 8, 0);
        for (int b = 0; b < 16; b++)
            assert_int_equal(x[b], b);
        for (int b = 0; b < 8; b++)
            assert_int_equal(((char *)p->call.inputs[1].data)[b], 16 + b);
        parsed_free(p);
    }
}

TEST(binary_and_json_inputs_mix) {
    struct parsed *p = parse_binary(&batched, "{\"inputs\":[" IDB "," X "]}", 8);
    check_ok(p);
    assert_int_equal(((unsigned char *)p->call.inputs[1].data)[7], 7);
    assert_true(((float *)p->call.inputs[0].data)[0] == 1);
    parsed_free(p);
}

TEST(outputs_are_chosen) {
    struct parsed *p = parse_json(
        &batched, "{\"parameters\":{\"binary_data_output\":true},\"inputs\":[" X "," IDS
                  "],\"outputs\":[{\"name\":\"z\"},{\"name\":\"y\",\"parameters\":{\"binary_data\":false}}]}");
    check_ok(p);
    assert_int_equal(p->call.output_count, 2);
    assert_int_equal(p->call.outputs[0].index, 1);
    assert_true(p->call.outputs[0].binary);
    assert_int_equal(p->call.outputs[1].index, 0);
    assert_false(p->call.outputs[1].binary);
    parsed_free(p);
    p = parse_json(&batched,
                   "{\"outputs\":[],\"inputs\":[" X "," IDS "],\"parameters\":{\"binary_data_output\":true}}");
    check_ok(p);
    assert_int_equal(p->call.output_count, 2);
    assert_true(p->call.outputs[0].binary);
    parsed_free(p);
}

TEST(shapes_make_keys_and_work) {
    static const char form[] = "{\"inputs\":[{\"name\":\"image\",\"shape\":[%d,3,%d,%d],\"datatype\":\"UINT8\","
                               "\"parameters\":{\"binary_data_size\":%d}}]}";
    static const int sizes[][3] = {{1, 32, 32}, {2, 32, 32}, {1, 32, 64}, {1, 64, 32}};
    uint64_t keys[4];
    float works[4];
    for (int i = 0; i < 4; i++) {
        char json[256];
        int bytes = sizes[i][0] * 3 * sizes[i][1] * sizes[i][2];
        snprintf(json, sizeof(json), form, sizes[i][0], sizes[i][1], sizes[i][2], bytes);
        struct parsed *p = parse_binary(&images, json, (size_t)bytes);
        check_ok(p);
        assert_int_equal(p->call.items, sizes[i][0]);
        keys[i] = p->call.shape_key;
        works[i] = p->call.work;
        parsed_free(p);
    }
    assert_true(keys[0] == keys[1] && keys[0] != 0);
    assert_true(keys[0] != keys[2] && keys[2] != keys[3]);
    assert_true(works[0] == 1 && works[1] == 1 && works[2] == 2);
}

TEST(tensors_of_no_elements) {
    struct parsed *p =
        parse_json(&images, "{\"inputs\":[{\"name\":\"image\",\"shape\":[2,3,0,5],\"datatype\":\"UINT8\","
                            "\"data\":[]}]}");
    check_ok(p);
    assert_int_equal(p->call.items, 2);
    assert_int_equal(p->call.inputs[0].bytes, 0);
    assert_non_null(p->call.inputs[0].data);
    assert_true(p->call.work == 1);
    parsed_free(p);
    p = parse_binary(&images,
                     "{\"inputs\":[{\"name\":\"image\",\"shape\":[1,3,4,0],\"datatype\":\"UINT8\",\"parameters\":"
                     "{\"binary_data_size\":0}}]}",
                     0);
    check_ok(p);
    parsed_free(p);
}

/* A dimension beside a zero is bounded as others are: by JSON, and with binary data. */
TEST(no_dimension_hides_behind_a_zero) {
    static const char form[] = "{\"inputs\":[{\"name\":\"image\",\"shape\":[1,3,0,%s],\"datatype\":\"UINT8\",%s}]}";
    static const char *const data[] = {"\"data\":[]", "\"parameters\":{\"binary_data_size\":0}"};
    for (size_t i = 0; i < ARRAY_COUNT(data); i++) {
        char json[256];
        snprintf(json, sizeof(json), form, "2216615441821888", data[i]);
        struct parsed *p = parse_binary(&images, json, 0);
        assert_int_equal(p->status, 400);
        assert_non_null(strstr(p->err.text, "got [1,3,0,2216615441821888]"));
        parsed_free(p);
        snprintf(json, sizeof(json), form, "1000000", data[i]);
        p = parse_binary(&images, json, 0);
        check_ok(p);
        parsed_free(p);
    }
}

TEST(optional_inputs_may_be_left_out) {
    struct served_model model = batched;
    struct parsed *with, *without;
    model.signature.inputs_optional = 2;
    model.signature.variable_shapes = true;
    with = parse_json(&model, "{\"inputs\":[" X "," IDS "]}");
    without = parse_json(&model, "{\"inputs\":[" X "]}");
    check_ok(with);
    check_ok(without);
    assert_null(without->call.inputs[1].data);
    assert_int_equal(without->call.inputs[1].bytes, 0);
    assert_true(with->call.shape_key != without->call.shape_key); /* they do not share a batch */
    parsed_free(with);
    parsed_free(without);
    struct parsed *p = parse_json(&model, "{\"inputs\":[" IDS "]}");
    assert_int_equal(p->status, 400);
    assert_non_null(strstr(p->err.text, "expected number of inputs between 1 and 2 but got 1 inputs for model "
                                        "'double'. Got input(s) ['ids'], but missing required input(s) ['x']. Please"));
    parsed_free(p);
}

/* The first of a signature's inputs may be the one that is left out: an ensemble keeps the order of its file. */
TEST(the_first_input_may_be_left_out) {
    struct served_model model = batched;
    model.signature.inputs_optional = 1;
    model.signature.variable_shapes = true;
    struct parsed *p = parse_json(&model, "{\"inputs\":[{\"name\":\"ids\",\"shape\":[3],\"datatype\":\"INT64\","
                                          "\"data\":[7,8,9]}]}");
    check_ok(p);
    assert_int_equal(p->call.items, 3);
    parsed_free(p);
    model.signature.inputs_optional = 3;
    p = parse_json(&model, "{\"inputs\":[]}");
    check_ok(p);
    assert_int_equal(p->call.items, 1);
    parsed_free(p);
}

TEST(raw_bodies_are_one_item) {
    static const float values[4] = {1, 2, 3, 4};
    struct parsed *p = parse(&single, values, sizeof(values), 0);
    check_ok(p);
    assert_int_equal(p->call.inputs[0].dim_count, 1);
    assert_true(p->call.outputs[0].binary);
    parsed_free(p);
    p = parse(&single, values, sizeof(values) - 1, 0);
    assert_int_equal(p->status, 400);
    assert_non_null(strstr(p->err.text, "expected 16 bytes, got 15"));
    parsed_free(p);
    p = parse(&batched, values, sizeof(values), 0);
    assert_int_equal(p->status, 400);
    assert_non_null(strstr(p->err.text, "one input"));
    parsed_free(p);
    p = parse(&images, values, sizeof(values), 0);
    assert_int_equal(p->status, 400);
    assert_non_null(strstr(p->err.text, "at most one dimension of any size"));
    parsed_free(p);
    p = parse(&single, values, 0, 0);
    assert_int_equal(p->status, 400);
    parsed_free(p);
}

/* Statuses and sentences of mistakes in the JSON of a request to `batched`. */
TEST(mistakes_are_the_clients) {
    static const struct {
        const char *json;
        int status;
        const char *want;
    } cases[] = {
        {"", 400, "no body"},
        {" ", 400, "expected an object at byte 1, but the JSON ends there"},
        {"{", 400, "expected a key at byte 1, but the JSON ends there"},
        {"[]", 400, "expected an object at byte 0, found '['"},
        {"{}", 400, "no 'inputs'"},
        {"{}}", 400, "expected the end of the JSON at byte 2, found '}'"},
        {"{\"inputs\":\"x\"}", 400, "expected inputs, an array at byte 10"},
        {"{\"inputs\":[1]}", 400, "expected an input, an object"},
        {"{\"inputs\":[]}", 400,
         "expected 2 inputs but got 0 inputs for model 'double'. Got input(s) [], but missing required input(s) "
         "['x','ids']. Please provide all required input(s)."},
        {"{\"inputs\":[" X "]}", 400, "Got input(s) ['x'], but missing required input(s) ['ids']."},
        {"{\"inputs\":[" X "," X "," IDS "]}", 400, "input 'x' already exists in request"},
        {"{\"inputs\":[" X "," IDS "],\"inputs\":[]}", 400, "'inputs' is given twice"},
        {"{\"inputs\":[" X "," IDS ",]}", 400, "expected a value after ','"},
        {"{\"inputs\":[" X "," IDS "]", 400, "the JSON ends there"},
        {"{\"inputs\":[" X "," IDS "],}", 400, "expected a value after ','"},
        {"{\"inputs\":[" X "," IDS "],'a':1}", 400, "expected a key"},
        {"{\"inputs\":[" X "," IDS "],\"a\":nul}", 400, "expected a value"},
        {"{\"inputs\":[" X "," IDS "],\"a\" 1}", 400, "expected ':'"},
        {"{\"inputs\":[" X "," IDS "],\"a\":\"\x01\"}", 400, "control character"},
        {"{\"inputs\":[" X "," IDS "],\"a\":\"\\x\"}", 400, "wrong escape"},
        {"{\"inputs\":[" X "," IDS "],\"a\":\"\\ud800\"}", 400, "wrong escape"},
        {"{\"inputs\":[" X "," IDS "],\"a\":\"\xff\"}", 400, "not UTF-8"},
        {"{\"inputs\":[" X "," IDS "],\"a\":\"\xc0\x80\"}", 400, "not UTF-8"},
        {"{\"inputs\":[" X "," IDS "],\"a\":\"", 400, "does not end"},
        {"{\"inputs\":[{\"name\":\"q\",\"shape\":[1],\"datatype\":\"FP32\",\"data\":[1]}]}", 400,
         "unexpected inference input 'q' for model 'double'"},
        {"{\"inputs\":[{\"name\":5}]}", 400, "expected a string"},
        {"{\"inputs\":[{\"shape\":[1,4],\"datatype\":\"FP32\",\"data\":[1,2,3,4]}]}", 400, "an input has no 'name'"},
        {"{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"data\":[1]}]}", 400, "input 'x' has no 'shape'"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"data\":[1]}]}", 400, "input 'x' has no 'datatype'"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\"}]}", 400, "none of 'data'"},
        {"{\"inputs\":[{\"name\":\"x\",\"name\":\"x\"}]}", 400, "'name' is given twice"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1],\"shape\":[1]}]}", 400, "'shape' is given twice"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":4}]}", 400, "expected the shape, an array"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[-1,4]}]}", 400, "negative dimension -1"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1.0,4]}]}", 400, "whole number"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[99999999999999999999]}]}", 400, "whole number"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[\"1\"]}]}", 400, "expected a number"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,1,1,1,1,1,1,1,1]}]}", 400, "more than 8 dimensions"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,5],\"datatype\":\"FP32\",\"data\":[1,2,3,4,5]}]}", 400,
         "unexpected shape for input 'x' for model 'double'. Expected [-1,4], got [1,5]. The first"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[4],\"datatype\":\"FP32\",\"data\":[1,2,3,4]}]}", 400, "got [4]"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[0,4],\"datatype\":\"FP32\",\"data\":[]}]}", 400, "got [0,4]"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[4611686018427387904,4],\"datatype\":\"FP32\",\"data\":[]}]}", 400,
         "got [4611686018427387904,4]"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[9,4],\"datatype\":\"FP32\",\"data\":[1]}]}", 400,
         "inference request batch-size must be <= 8 for 'double': input 'x' has 9"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[8,4],\"datatype\":\"FP32\",\"data\":[1]}]}", 400,
         "the body is shorter"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\",\"data\":[1,2,3]}]}   ", 400,
         "input 'x': expected 4 values, found 3"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\",\"data\":[1,2,3,1e99]}]}", 400,
         "input 'x': 1e99 is not in the range of FP32"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\",\"data\":\"AAAA\"}]}", 400,
         "expected an array of values"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"INT32\",\"data\":[1,2,3,4]}]}", 400,
         "inference input 'x' data-type is 'INT32', but model 'double' expects 'FP32'"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP99\"}]}", 400, "unknown datatype 'FP99'"},
        {"{\"inputs\":[{\"name\":\"x\",\"datatype\":32}]}", 400, "expected a string"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"BYTES\",\"data\":[]}]}", 400,
         "data-type is 'BYTES', but model"},
        {"{\"inputs\":[{\"name\":\"x\",\"parameters\":{\"shared_memory_region\":\"r\"}}]}", 400, "no 'shape'"},
        {"{\"inputs\":[{\"name\":\"x\",\"parameters\":{\"shared_memory_region\":\"a\\\\b\"}}]}", 400, "backslash"},
        {"{\"inputs\":[{\"name\":\"x\",\"parameters\":{\"shared_memory_offset\":-1}}]}", 400, "negative"},
        {"{\"inputs\":[{\"name\":\"x\",\"parameters\":{\"binary_data_size\":-1}}]}", 400, "negative"},
        {"{\"inputs\":[{\"name\":\"x\",\"parameters\":{\"binary_data_size\":\"16\"}}]}", 400, "expected a number"},
        {"{\"inputs\":[{\"name\":\"x\",\"parameters\":[]}]}", 400, "expected parameters, an object"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\",\"data\":[1,2,3,4],"
         "\"parameters\":{\"binary_data_size\":16}}]}",
         400, "more than one of 'data'"},
        {"{\"inputs\":[" XB "," IDS "]}", 400,
         "unexpected size for input 'x', expecting 16 additional bytes for model 'double'"},
        {"{\"inputs\":[" X ",{\"name\":\"ids\",\"shape\":[2],\"datatype\":\"INT64\",\"data\":[7,8]}]}", 400,
         "input 'ids' batch size does not match other inputs for 'double': 2, but 'x' has 1"},
        {"{\"inputs\":[" X "," IDS "],\"outputs\":[{\"name\":\"q\"}]}", 400,
         "unexpected inference output 'q' for model 'double'"},
        {"{\"inputs\":[" X "," IDS "],\"outputs\":[{\"name\":\"y\"},{\"name\":\"y\"}]}", 400,
         "output 'y' already exists in request"},
        {"{\"inputs\":[" X "," IDS "],\"outputs\":[{}]}", 400, "an output has no 'name'"},
        {"{\"inputs\":[" X "," IDS "],\"outputs\":{}}", 400, "expected outputs, an array"},
        {"{\"inputs\":[" X "," IDS "],\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":1}}]}", 400,
         "expected true or false"},
        {"{\"inputs\":[" X "," IDS "],\"outputs\":[{\"name\":\"y\",\"parameters\":{\"classification\":-2}}]}", 400,
         "classification is -2, which is negative"},
        {"{\"inputs\":[" X "," IDS "],\"id\":7}", 400, "expected a string"},
        {"{\"inputs\":[" X "," IDS "],\"parameters\":7}", 400, "expected parameters, an object"},
        {"{\"parameters\":{\"priority\":-1}}", 400, "'priority' is not a whole number"},
        {"{\"parameters\":{\"priority\":\"high\"}}", 400, "'priority' is not a whole number"},
        {"{\"parameters\":{\"best_effort\":1}}", 400, "true or false"},
        {"{\"parameters\":{\"timeout\":\"x\"}}", 400, "'timeout' is not a positive whole number"},
        {"{\"parameters\":{\"timeout\":-5}}", 400, "'timeout' is not a positive whole number"},
        {"{\"parameters\":{\"timeout\":1.5}}", 400, "'timeout' is not a positive whole number"},
        {"{\"parameters\":{\"binary_data_output\":0}}", 400, "expected true or false"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct parsed *p = parse_json(&batched, cases[i].json);
        if (p->status != cases[i].status || !strstr(p->err.text, cases[i].want))
            fail_msg("%s\n  answers %d '%s', not %d '%s'", cases[i].json, p->status, p->err.text, cases[i].status,
                     cases[i].want);
        parsed_free(p);
    }
}

TEST(binary_mistakes) {
    static const struct {
        const char *json;
        size_t bytes;
        const char *want;
    } cases[] = {
        {"{\"inputs\":[" XB "," IDB "]}", 23,
         "unexpected size for input 'ids', expecting 1 additional bytes for model 'double': the body has 7 left"},
        {"{\"inputs\":[" XB "," IDB "]}", 25, "1 bytes more than"},
        {"{\"inputs\":[" X "," IDS "]}", 1, "1 bytes more than"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[2,4],\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":16}}"
         "," IDB "]}",
         24, "input byte size mismatch for input 'x' for model 'double'. Expected 32, got 16"},
        {"{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\",\"parameters\":"
         "{\"binary_data_size\":9223372036854775807}}]}",
         24, "got 9223372036854775807, the binary_data_size"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct parsed *p = parse_binary(&batched, cases[i].json, cases[i].bytes);
        if (p->status != 400 || !strstr(p->err.text, cases[i].want))
            fail_msg("%s: %d '%s', not '%s'", cases[i].json, p->status, p->err.text, cases[i].want);
        parsed_free(p);
    }
    struct parsed *p = parse(&batched, "{}", 2, 3);
    assert_int_equal(p->status, 400);
    assert_string_equal(p->err.text, "Inference-Header-Content-Length is 3, but the body has 2 bytes");
    parsed_free(p);
}

#define W(more) "{\"name\":\"w\",\"shape\":[1,2],\"datatype\":\"BYTES\"," more "}"

TEST(strings_come_in_every_form) {
    static const char want[] = "\2\0\0\0\0a\0\0\0\0";
    static const char binary[] = "{\"inputs\":[" W("\"parameters\":{\"binary_data_size\":10}") "]}";
    static const char *const json[] = {"{\"inputs\":[" W("\"data\":[\"\\u0000a\",\"\"]") "]}",
                                       "{\"inputs\":[" W("\"data\":[[\"\\u0000a\",\"\"]]") "]}",
                                       ("{\"inputs\":[{\"data\":[\"\\u0000a\",\"\"],\"shape\":[1,2],"
                                        "\"name\":\"w\",\"datatype\":\"BYTES\"}]}")};
    for (size_t i = 0; i <= ARRAY_COUNT(json); i++) {
        char body[256];
        size_t length = sizeof(binary) - 1;
        memcpy(body, binary, length);
        memcpy(body + length, want, 10);
        struct parsed *p =
            i < ARRAY_COUNT(json) ? parse_json(&words, json[i]) : parse(&words, body, length + 10, (int64_t)length);
        check_ok(p);
        assert_int_equal(p->call.inputs[0].bytes, 10);
        assert_memory_equal(p->call.inputs[0].data, want, 10);
        parsed_free(p);
    }
    struct parsed *p = parse(&word, "as it is", 8, 0); /* the whole body is one string */
    check_ok(p);
    assert_int_equal(p->call.inputs[0].bytes, 12);
    assert_memory_equal(p->call.inputs[0].data, "\x08\0\0\0as it is", 12);
    assert_int_equal(p->call.inputs[0].dims[1], 1);
    parsed_free(p);
}

TEST(mistakes_in_strings) {
    static const struct {
        const char *json, *behind;
        size_t bytes;
        const char *want;
    } cases[] = {
        {"{\"inputs\":[" W("\"data\":[\"a\"]") "]}", "", 0, "expected 2 values, found 1"},
        {"{\"inputs\":[" W("\"data\":[\"a\",2]") "]}", "", 0, "input 'w': expected a string"},
        {"{\"inputs\":[" W("\"data\":[\"a\",\"\xff\"]") "]}", "", 0, "not UTF-8"},
        {"{\"inputs\":[" W("\"parameters\":{\"binary_data_size\":10}") "]}", "\2\0\0\0ab\1\0\0\0", 10,
         "input 'w': string 1 is not whole"},
        {"{\"inputs\":[" W("\"parameters\":{\"binary_data_size\":9}") "]}", "\0\0\0\0\0\0\0\0x", 9,
         "input 'w': 1 bytes follow the 2 strings"},
        {"{\"inputs\":[" W("\"parameters\":{\"binary_data_size\":4}") "]}", "\0\0\0\0", 4, "expected 1 more strings"},
        {"{\"inputs\":[" W("\"parameters\":{\"binary_data_size\":40}") "]}", "\0\0\0\0", 4,
         "expecting 36 additional bytes"},
        {"{\"inputs\":[" W("\"parameters\":{\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":7}") "]}", "", 0,
         "Expected at least 8, got 7"},
        {"", "two are asked for", 17, "a raw binary request is one string, but the input has 2 elements"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char body[256];
        size_t length = strlen(cases[i].json);
        memcpy(body, cases[i].json, length);
        memcpy(body + length, cases[i].behind, cases[i].bytes);
        struct parsed *p = parse(&words, body, length + cases[i].bytes, (int64_t)length);
        if (p->status != 400 || !strstr(p->err.text, cases[i].want))
            fail_msg("%s: %d '%s', not '%s'", cases[i].json, p->status, p->err.text, cases[i].want);
        parsed_free(p);
    }
}

TEST(nesting_is_bounded) {
    static const char *const begins[] = {
        "", "{\"a\":", "{\"inputs\":", "{\"inputs\":[{\"data\":",
        "{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\",\"data\":"};
    enum { DEEP = 200000 };
    char *body = malloc(DEEP + 256);
    for (size_t i = 0; i < ARRAY_COUNT(begins); i++)
        for (int kind = 0; kind < 2; kind++) {
            size_t length = strlen(strcpy(body, begins[i]));
            for (int d = 0; d < DEEP / 5; d++) {
                strcpy(body + length, kind ? "{\"a\":" : "[");
                length += kind ? 5 : 1;
            }
            struct parsed *p = parse(&batched, body, length, INFER_NO_HEADER);
            assert_int_equal(p->status, 400);
            parsed_free(p);
        }
    free(body);
    /* 100 levels are fine */
    char *fine = calloc(1, 2048);
    strcpy(fine, "{\"inputs\":[" X "," IDS "],\"a\":");
    memset(fine + strlen(fine), '[', 100);
    memset(fine + strlen(fine), ']', 100);
    strcat(fine, "}");
    struct parsed *p = parse_json(&batched, fine);
    check_ok(p);
    parsed_free(p);
    free(fine);
}

TEST(best_effort) {
    struct parsed *p =
        parse_json(&batched, "{\"parameters\":{\"best_effort\":true,\"timeout\":9},\"inputs\":[" X "," IDS "]}");
    check_ok(p);
    assert_true(p->call.best_effort);
    assert_int_equal(p->call.timeout_us, 9);
    assert_int_equal(p->call.priority, 0);
    parsed_free(p);
}

TEST(timeouts) {
    static const struct {
        const char *json;
        int64_t want;
    } cases[] = {
        {"{\"parameters\":{},\"inputs\":[" X "," IDS "]}", 0},
        {"{\"parameters\":{\"timeout\":0},\"inputs\":[" X "," IDS "]}", 0},
        {"{\"parameters\":{\"timeout\":1},\"inputs\":[" X "," IDS "]}", 1},
        {"{\"parameters\":{\"timeout\":9223372036854775807},\"inputs\":[" X "," IDS "]}", 86400000000},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct parsed *p = parse_json(&batched, cases[i].json);
        check_ok(p);
        assert_int_equal(p->call.timeout_us, cases[i].want);
        parsed_free(p);
    }
}

TEST(what_is_optional_may_be_null) {
    static const char *const cases[] = {
        "{\"id\":null,\"parameters\":null,\"outputs\": null ,\"inputs\":[" X "," IDS "]}",
        "{\"inputs\":[{\"parameters\":null," X_REST "," IDS "],\"outputs\":[{\"name\":\"y\",\"parameters\":null}]}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct parsed *p = parse_json(&batched, cases[i]);
        check_ok(p);
        assert_int_equal(p->call.id_length, 0);
        parsed_free(p);
    }
    struct parsed *p = parse_json(&batched, "{\"inputs\":null}");
    assert_int_equal(p->status, 400);
    parsed_free(p);
    p = parse_json(&batched, "{\"id\":nil,\"inputs\":[" X "," IDS "]}");
    assert_int_equal(p->status, 400);
    parsed_free(p);
}

TEST(memory_that_runs_out_is_not_the_clients_fault) {
    static char json[] = "{\"inputs\":[" X "," IDS "]}";
    struct memory memory = {.empty = true};
    struct infer_body body = {&batched, json, sizeof(json) - 1, INFER_NO_HEADER, {memory_take, &memory}};
    struct infer_call call;
    struct sy_error err;
    assert_int_equal(infer_parse(&body, &call, &err), 503);
    assert_string_equal(err.text, "the memory for inputs is exhausted");
}

/* Every prefix of a good body is a mistake, and stays within it. */
TEST(short_bodies) {
    static const char json[] = "{\"id\":\"\\u00e9\\n\",\"inputs\":[" X "," IDS "],\"outputs\":[{\"name\":\"y\"}],"
                               "\"parameters\":{\"a\":[true,false,null,-1.5e3,{\"b\":\"c\"}]}}";
    for (size_t n = 0; n < sizeof(json) - 1; n++) {
        struct parsed *p = parse(&batched, json, n, INFER_NO_HEADER);
        assert_int_equal(p->status, 400);
        parsed_free(p);
    }
    struct parsed *p = parse_json(&batched, json);
    check_ok(p);
    parsed_free(p);
}
