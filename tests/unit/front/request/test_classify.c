/* test_classify.c - the highest classes of every type, their labels, and who stands where when scores are equal. */
#include "unit/test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/data/strings.h"
#include "core/util/container.h"
#include "front/request/classify.h"
#include "model/config/labels.h"
#include "specs.h"

/* One output of the type: [items, elements], or [elements] for `items` 0. */
static void model_of(struct served_model *model, enum datatype type, uint32_t items) {
    struct tensor_spec output = {.name = "y", .type = type, .dim_count = items ? 2 : 1, .dims = {-1, -1}};
    served_model_release(model);
    specs_set(model, (struct signature){.output_count = 1, .batched = items > 0, .outputs = &output});
}

/* Asks for the first output. */
static void call_begin(struct infer_call *call, const struct served_model *model, uint32_t items) {
    assert_int_equal(infer_call_begin(call, model, (struct infer_memory){0}, NULL), 0);
    call->items = items;
    call->output_count = 1;
    call->outputs[0] = (struct infer_output){.index = 0};
}

/* The classes, with blanks between them, of the last `items` of a batch with one more before them. */
static void classified(const struct served_model *model, const void *data, uint32_t items, uint32_t elements,
                       int64_t classes, char *out) {
    size_t bytes = datatype_bytes(model->signature.outputs[0].type);
    bool batched = model->signature.batched;
    struct infer_call call;
    struct tensor_view part, y = {.data = (void *)data, .dim_count = 1, .dims = {elements}, .bytes = elements * bytes};
    struct text text = {0};
    struct string element;
    if (batched)
        y = (struct tensor_view){.data = (void *)data,
                                 .dim_count = 2,
                                 .dims = {items + 1, elements},
                                 .bytes = (items + 1) * elements * bytes};
    call_begin(&call, model, items);
    assert_int_equal(infer_call_classify(&call, model, &call.outputs[0], classes, NULL), 0);
    assert_int_equal(classify_outputs(&call, model, model->labels, &y, 1, batched, &text, NULL), 0);
    assert_int_equal(infer_output_type(model, &call.outputs[0]), DATATYPE_BYTES);
    assert_int_equal(infer_output_slice(&part, model, &call, &call.outputs[0], &y, 1, batched, NULL), 0);
    assert_int_equal(part.dim_count, batched ? 2 : 1);
    assert_int_equal(part.dims[0], batched ? items : classes < elements ? classes : elements);
    assert_int_equal(strings_check(part.data, part.bytes, dims_product(part.dims, 0, part.dim_count), NULL), 0);
    const char *at = part.data;
    for (*out = '\0'; strings_next(&at, (char *)part.data + part.bytes, &element) > 0;)
        sprintf(out + strlen(out), "%s%.*s", *out ? " " : "", (int)element.length, element.data);
    text_free(&text);
}

TEST(every_type_is_written_as_it_is) {
    static const struct {
        enum datatype type;
        const char *want;
        union {
            char bytes[24];
            uint8_t u8[3];
            uint16_t u16[3];
            uint32_t u32[3];
            uint64_t u64[3];
            int8_t i8[3];
            int16_t i16[3];
            int32_t i32[3];
            int64_t i64[3];
            float f32[3];
            double f64[3];
        } values;
    } cases[] = {
        {DATATYPE_UINT8, "255:1 7:2 0:0", {.u8 = {0, 255, 7}}},
        {DATATYPE_UINT16, "65535:0 1:1 0:2", {.u16 = {65535, 1, 0}}},
        {DATATYPE_UINT32, "4294967295:2 1:1 0:0", {.u32 = {0, 1, UINT32_MAX}}},
        {DATATYPE_UINT64, "18446744073709551615:2 1:1 0:0", {.u64 = {0, 1, UINT64_MAX}}},
        {DATATYPE_INT8, "127:1 0:0 -128:2", {.i8 = {0, 127, -128}}},
        {DATATYPE_INT16, "32767:1 0:0 -32768:2", {.i16 = {0, INT16_MAX, INT16_MIN}}},
        {DATATYPE_INT32, "2147483647:1 0:0 -2147483648:2", {.i32 = {0, INT32_MAX, INT32_MIN}}},
        {DATATYPE_INT64, "9223372036854775807:1 0:0 -9223372036854775808:2", {.i64 = {0, INT64_MAX, INT64_MIN}}},
        {DATATYPE_FP32, "0.500000:1 0.000000:0 -1.250000:2", {.f32 = {0, 0.5F, -1.25F}}},
        {DATATYPE_FP64, "0.333333:2 -0.000000:0 -1000000000.000000:1", {.f64 = {-0.0, -1e9, 1.0 / 3}}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct served_model *model = calloc(1, sizeof(*model));
        char got[256];
        model_of(model, cases[i].type, 0);
        classified(model, cases[i].values.bytes, 1, 3, 3, got);
        assert_string_equal(got, cases[i].want);
        served_models_free(model, 1);
    }
}

TEST(ties_nan_and_infinity) {
    static const float y[] = {1, NAN, 2, INFINITY, 2, -NAN, -INFINITY, -0.0F, 0};
    struct served_model *model = calloc(1, sizeof(*model));
    char got[256];
    model_of(model, DATATYPE_FP32, 0);
    classified(model, y, 1, ARRAY_COUNT(y), 99, got);
    assert_string_equal(got, "inf:3 2.000000:2 2.000000:4 1.000000:0 -0.000000:7 0.000000:8 -inf:6 nan:1 -nan:5");
    served_models_free(model, 1);
}

TEST(each_item_has_its_own) {
    static const float y[3][4] = {{9, 9, 9, 9}, {1, 4, 3, 2}, {8, 5, 6, 7}};
    static const char labels[] = "cat\ndog\r\n\nfish";
    char got[256], path[] = "/tmp/symphony-test-XXXXXX";
    struct served_model *model = calloc(1, sizeof(*model));
    int fd = mkstemp(path);
    assert_int_equal(write(fd, labels, sizeof(labels) - 1), sizeof(labels) - 1);
    close(fd);
    model_of(model, DATATYPE_FP32, 2);
    classified(model, y, 2, 4, 2, got);
    assert_string_equal(got, "4.000000:1 3.000000:2 8.000000:0 7.000000:3");
    assert_int_equal(labels_read(path, &model->labels[0], NULL), 0);
    classified(model, y, 2, 4, 2, got);
    assert_string_equal(got, "4.000000:1:dog 3.000000:2: 8.000000:0:cat 7.000000:3:fish");
    classified(model, y, 1, 4, 4, got);
    assert_string_equal(got, "4.000000:1:dog 3.000000:2: 2.000000:3:fish 1.000000:0:cat");
    labels_free(model->labels[0]);
    unlink(path);
    served_models_free(model, 1);
}

TEST(the_highest_of_many) {
    enum { COUNT = 5000, WANTED = 100 };
    static int32_t y[COUNT];
    struct served_model *model = calloc(1, sizeof(*model));
    char *got = malloc(WANTED * 32), want[32];
    const char *at = got;
    for (int i = 0; i < COUNT; i++)
        y[i] = i * 7919 % COUNT; /* each number once */
    model_of(model, DATATYPE_INT32, 0);
    classified(model, y, 1, COUNT, WANTED, got);
    for (int k = 0; k < WANTED; k++) {
        int i = 0;
        while (y[i] != COUNT - 1 - k)
            i++;
        int n = sprintf(want, "%d:%d%s", y[i], i, k < WANTED - 1 ? " " : "");
        assert_memory_equal(at, want, n);
        at += n;
    }
    free(got);
    served_models_free(model, 1);
}

TEST(what_has_no_scores_is_refused) {
    static const enum datatype none[] = {DATATYPE_BOOL, DATATYPE_FP16, DATATYPE_BF16, DATATYPE_BYTES};
    struct served_model *model = calloc(1, sizeof(*model));
    struct infer_call call;
    struct sy_error err;
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        model_of(model, none[i], 0);
        call_begin(&call, model, 1);
        assert_int_equal(infer_call_classify(&call, model, &call.outputs[0], 1, &err), 400);
        assert_int_equal(infer_call_classify(&call, model, &call.outputs[0], 0, &err), 0);
        assert_false(call.classified);
    }
    model_of(model, DATATYPE_UINT8, 0);
    assert_int_equal(infer_call_classify(&call, model, &call.outputs[0], -1, &err), 400);
    assert_int_equal(infer_call_classify(&call, model, &call.outputs[0], INT64_MAX, &err), 0);
    uint8_t *large = calloc(1, CLASSIFY_ELEMENTS_MAX + 1);
    struct tensor_view y = {
        .data = large, .dim_count = 1, .dims = {CLASSIFY_ELEMENTS_MAX + 1}, .bytes = CLASSIFY_ELEMENTS_MAX + 1};
    struct text text = {0};
    assert_int_equal(classify_outputs(&call, model, model->labels, &y, 1, 0, &text, &err), -E2BIG);
    y.dims[0] = y.bytes = CLASSIFY_CLASSES_MAX + 1; /* all of them */
    assert_int_equal(classify_outputs(&call, model, model->labels, &y, 1, 0, &text, &err), -E2BIG);
    y.dims[0] = 7; /* not what the bytes are */
    assert_int_equal(classify_outputs(&call, model, model->labels, &y, 1, 0, &text, &err), -EINVAL);
    text_free(&text);
    free(large);
    served_models_free(model, 1);
}
