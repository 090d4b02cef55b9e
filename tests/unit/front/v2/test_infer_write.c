/* test_infer_write.c - outputs of a batch as answers: the right items, in JSON and in binary. */
#include "unit/test.h"

#include <errno.h>
#include <string.h>

#include "front/v2/infer_write.h"
#include "specs.h"

static const struct served_model model = {
    .name = "a \"model\"",
    .version = 3,
    .batch_max = 8,
    .signature = {.output_count = 2,
                  .batched = true,
                  .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 2}},
                                   {.name = "z", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}})},
};

struct fixture {
    float y[8];
    int64_t z[4];
    struct tensor_view outputs[2]; /* a batch of four */
    struct text text;
    char memory[256];
    struct infer_answer answer;
    struct infer_call call;
    struct sy_error err;
};

static void prepare(struct fixture *f) {
    memset(f, 0, sizeof(*f));
    for (int i = 0; i < 8; i++)
        f->y[i] = (float)i + 0.5F;
    for (int i = 0; i < 4; i++)
        f->z[i] = 10 * i;
    f->outputs[0] = (struct tensor_view){f->y, sizeof(f->y), 2, {4, 2}, NULL};
    f->outputs[1] = (struct tensor_view){f->z, sizeof(f->z), 1, {4}, NULL};
    text_init(&f->text, f->memory, sizeof(f->memory));
    assert_int_equal(infer_call_begin(&f->call, &model, (struct infer_memory){0}, NULL), 0);
    f->call.items = 1;
    f->call.output_count = 2;
    f->call.outputs[1].index = 1;
}

static int build(struct fixture *f, uint32_t first_item) {
    return infer_write(&f->answer, &f->text, &model, &f->call, f->outputs, 2, first_item, &f->err);
}

TEST(each_request_gets_its_items) {
    struct fixture f;
    prepare(&f);
    f.call.items = 2;
    f.call.id = "r\\n1";
    f.call.id_length = 4;
    assert_int_equal(build(&f, 1), 0);
    assert_int_equal(f.answer.json_bytes, 0);
    assert_int_equal(f.answer.piece_count, 1);
    assert_int_equal(f.answer.bytes, f.text.length);
    assert_ptr_equal(f.answer.pieces[0].iov_base, f.text.data);
    assert_string_equal(text_end(&f.text),
                        "{\"id\":\"r\\n1\",\"model_name\":\"a \\\"model\\\"\",\"model_version\":\"3\",\"outputs\":["
                        "{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[2.5,3.5,4.5,5.5]},"
                        "{\"name\":\"z\",\"datatype\":\"INT64\",\"shape\":[2],\"data\":[10,20]}]}");
    text_free(&f.text);
}

TEST(small_binary_outputs_are_copied) {
    struct fixture f;
    prepare(&f);
    f.call.output_count = 1;
    f.call.outputs[0] = (struct infer_output){.index = 1, .binary = true};
    assert_int_equal(build(&f, 3), 0);
    static const char json[] =
        "{\"model_name\":\"a \\\"model\\\"\",\"model_version\":\"3\",\"outputs\":[{\"name\":\"z\","
        "\"datatype\":\"INT64\",\"shape\":[1],\"parameters\":{\"binary_data_size\":8}}]}";
    assert_int_equal(f.answer.json_bytes, sizeof(json) - 1);
    assert_int_equal(f.answer.bytes, sizeof(json) - 1 + 8);
    assert_int_equal(f.answer.piece_count, 1);
    assert_int_equal(f.text.length, f.answer.bytes);
    assert_memory_equal(f.text.data, json, sizeof(json) - 1);
    assert_memory_equal(f.text.data + sizeof(json) - 1, &f.z[3], 8);
    text_free(&f.text);
}

TEST(large_binary_outputs_stay_where_they_are) {
    static float large[3][INFER_ANSWER_COPY_MAX / 4 + 1];
    const struct served_model wide = {
        .name = "wide",
        .version = 1,
        .signature = {.output_count = 1,
                      .batched = true,
                      .outputs = SPECS({.name = "y",
                                        .type = DATATYPE_FP32,
                                        .dim_count = 2,
                                        .dims = {-1, INFER_ANSWER_COPY_MAX / 4 + 1}})},
    };
    struct fixture f;
    prepare(&f);
    f.outputs[0] = (struct tensor_view){large, sizeof(large), 2, {3, INFER_ANSWER_COPY_MAX / 4 + 1}, NULL};
    f.call.output_count = 1;
    f.call.outputs[0].binary = true;
    assert_int_equal(infer_write(&f.answer, &f.text, &wide, &f.call, f.outputs, 1, 2, &f.err), 0);
    assert_int_equal(f.answer.piece_count, 2);
    assert_int_equal(f.answer.json_bytes, f.text.length);
    assert_ptr_equal(f.answer.pieces[1].iov_base, large[2]);
    assert_int_equal(f.answer.pieces[1].iov_len, sizeof(large[2]));
    assert_int_equal(f.answer.bytes, f.text.length + sizeof(large[2]));
    text_free(&f.text);
}

TEST(json_and_binary_mix) {
    struct fixture f;
    prepare(&f);
    f.call.outputs[0].binary = true;
    assert_int_equal(build(&f, 0), 0);
    assert_int_equal(f.answer.bytes, f.answer.json_bytes + 8);
    assert_memory_equal(f.text.data + f.answer.json_bytes, f.y, 8);
    assert_non_null(strstr(text_end(&f.text), "\"data\":[0]}]}"));
    text_free(&f.text);
}

TEST(models_without_a_batch_give_all) {
    const struct served_model single = {
        .name = "single",
        .version = 1,
        .signature = {.output_count = 1,
                      .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {4, 2}})},
    };
    struct fixture f;
    prepare(&f);
    f.call.output_count = 1;
    assert_int_equal(infer_write(&f.answer, &f.text, &single, &f.call, f.outputs, 1, 0, &f.err), 0);
    assert_non_null(strstr(text_end(&f.text), "\"shape\":[4,2],\"data\":[0.5,1.5,2.5,3.5,4.5,5.5,6.5,7.5]"));
    text_free(&f.text);
}

TEST(faults_are_told) {
    struct fixture f;
    prepare(&f);
    assert_int_equal(build(&f, 4), -EINVAL); /* a fifth of four */
    text_free(&f.text);
    prepare(&f);
    assert_int_equal(infer_write(&f.answer, &f.text, &model, &f.call, f.outputs, 1, 0, &f.err), -EINVAL);
    assert_string_equal(f.err.text, "output 'z' is missing");
    text_free(&f.text);
    prepare(&f);
    f.outputs[0].dims[1] = 3; /* not what the bytes say */
    assert_int_equal(build(&f, 0), -EINVAL);
    text_free(&f.text);
}
