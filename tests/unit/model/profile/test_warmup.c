/* test_warmup.c - batches made of model_warmup: what is in them, and what is refused where. */
#include "unit/test.h"

#include <errno.h>

#include "core/util/container.h"
#include "model/profile/warmup.h"
#include "specs.h"
#include "unit/model/repository/world.h"

/* x: items of 3 floats and any number more; words: 2 strings; mask: may be left out. */
static const struct signature signature = {
    .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 3, .dims = {-1, 3, -1}},
                    {.name = "words", .type = DATATYPE_BYTES, .dim_count = 2, .dims = {-1, 2}},
                    {.name = "mask", .type = DATATYPE_INT64, .dim_count = 1, .dims = {-1}}),
    .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 10}}),
    .input_count = 3,
    .output_count = 1,
    .inputs_optional = 4,
    .batched = true,
    .variable_shapes = true,
};

#define WORDS "inputs { key: 'words' value { data_type: TYPE_STRING dims: [ 2 ] zero_data: true } }"

struct seen {
    uint32_t samples, runs, items;
    float x[64];
    char words[64];
    size_t x_bytes, words_bytes;
    bool mask;
    int64_t x_dims[3];
    char print[FINGERPRINT_TEXT];
};

static int see(void *context, const struct warmup_sample *sample, struct sy_error *err) {
    struct seen *seen = context;
    seen->samples++;
    seen->runs = sample->runs;
    seen->items = sample->items;
    seen->x_bytes = sample->inputs[0].bytes;
    seen->words_bytes = sample->inputs[1].bytes;
    seen->mask = sample->inputs[2].data;
    assert_true(seen->x_bytes <= sizeof(seen->x) && seen->words_bytes <= sizeof(seen->words));
    memcpy(seen->x, sample->inputs[0].data, seen->x_bytes);
    memcpy(seen->words, sample->inputs[1].data, seen->words_bytes);
    memcpy(seen->x_dims, sample->inputs[0].dims, sizeof(seen->x_dims));
    return sample->name[0] == '!' ? error_set(err, -EIO, "not this one") : 0;
}

/* The samples of ROOT/m with a configuration. */
static struct seen samples(struct world *w, const char *config, uint32_t batch_max, int *rc) {
    static struct served_model model;
    struct seen seen = {.samples = 0};
    char folder[256];
    in_root(w, folder, "m");
    put(w, "m/config.pbtxt", config);
    model.folder = folder;
    model.signature = signature;
    model.batch_max = batch_max;
    w->err.text[0] = '\0';
    if (warmup_fingerprint(&model, seen.print, &w->err) < 0)
        strcpy(seen.print, "none");
    *rc = warmup_each(&model, see, &seen, &w->err);
    return seen;
}

static struct seen good(struct world *w, const char *config) {
    int rc;
    struct seen seen = samples(w, config, 8, &rc);
    if (rc)
        fail_msg("%s: %s", config, w->err.text);
    return seen;
}

TEST_WITH(zeros_are_repeated_for_every_request_of_the_batch, world_make, world_remove) {
    struct seen seen =
        good(*state, "max_batch_size: 8 model_warmup { name: 'z' batch_size: 3 count: 5\n"
                     "inputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] zero_data: true } }" WORDS "}");
    static const int64_t dims[] = {3, 3, 2};
    static const char zeros[24];
    assert_int_equal(seen.samples, 1);
    assert_int_equal(seen.runs, 5);
    assert_int_equal(seen.items, 3);
    assert_memory_equal(seen.x_dims, dims, sizeof(dims));
    assert_int_equal(seen.x_bytes, 3 * 3 * 2 * 4);
    assert_float_equal(seen.x[17], 0, 0);
    assert_int_equal(seen.words_bytes, 3 * 2 * 4); /* empty strings */
    assert_memory_equal(seen.words, zeros, sizeof(zeros));
    assert_false(seen.mask);
}

TEST_WITH(random_data_are_the_same_every_time, world_make, world_remove) {
    static const char config[] =
        "max_batch_size: 8 model_warmup { batch_size: 1\n"
        "inputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 1 ] random_data: true } }" WORDS
        "inputs { key: 'mask' value { data_type: TYPE_INT64 random_data: true } } }";
    struct seen seen = good(*state, config), again = good(*state, config);
    assert_true(seen.x[0] >= 0.5f && seen.x[0] < 1 && seen.x[1] != seen.x[0]);
    assert_true(seen.mask);
    assert_string_equal(seen.print, again.print);
}

TEST_WITH(a_file_has_one_requests_bytes, world_make, world_remove) {
    static const char config[] =
        "max_batch_size: 8 model_warmup { batch_size: 2\n"
        "inputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 1 ] input_data_file: 'x' } }\n"
        "inputs { key: 'words' value { data_type: TYPE_STRING dims: [ 2 ] input_data_file: 'in/words' } } }";
    struct world *w = *state;
    char path[256];
    put(w, "m/warmup/x", "");
    put(w, "m/warmup/in/words", "");
    in_root(w, path, "m/warmup/x");
    FILE *file = fopen(path, "w");
    fwrite((float[]){1, 2, 3, 4}, 4, 4, file); /* more than it takes, as Triton lets it */
    fclose(file);
    in_root(w, path, "m/warmup/in/words");
    file = fopen(path, "w");
    fwrite("\3\0\0\0cat\0\0\0\0", 1, 11, file);
    fclose(file);
    struct seen seen = good(w, config);
    assert_memory_equal(seen.x, ((float[]){1, 2, 3, 1, 2, 3}), 24);
    assert_int_equal(seen.words_bytes, 22);
    assert_memory_equal(seen.words + 11, "\3\0\0\0cat\0\0\0\0", 11);
    file = fopen(path, "w");
    fwrite("\3\0\0\0dog\0\0\0\0", 1, 11, file);
    fclose(file);
    assert_string_not_equal(good(w, config).print, seen.print);
}

TEST_WITH(without_max_batch_size_the_number_of_dims_tells, world_make, world_remove) {
    static const char *const dims[] = {"[ 3, 2 ]", "[ 2, 3, 2 ]"};
    for (size_t i = 0; i < ARRAY_COUNT(dims); i++) {
        char config[512];
        snprintf(
            config, sizeof(config),
            "model_warmup { batch_size: 2 inputs { key: 'x' value { data_type: TYPE_FP32 dims: %s zero_data: true } }"
            "inputs { key: 'words' value { data_type: TYPE_STRING dims: %s zero_data: true } } }",
            dims[i], i ? "[ 2, 2 ]" : "[ 2 ]");
        struct seen seen = good(*state, config);
        assert_int_equal(seen.items, i ? 4 : 2);
        assert_int_equal(seen.x_dims[0], seen.items);
    }
}

#define X "inputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] zero_data: true } }"

TEST_WITH(who_says_no_batch_size_is_not_run, world_make, world_remove) {
    assert_int_equal(good(*state, "max_batch_size: 8 model_warmup { " X WORDS "}").samples, 0);
    assert_int_equal(
        good(*state, "max_batch_size: 8 model_warmup [ { batch_size: 1 " X WORDS "},{ batch_size: 2 " X WORDS " } ]")
            .samples,
        2);
    assert_int_equal(good(*state, "max_batch_size: 8").samples, 0);
    assert_string_equal(good(*state, "max_batch_size: 8").print, "");
}

TEST_WITH(a_batch_is_no_larger_than_the_profile_lets_it, world_make, world_remove) {
    int rc;
    struct seen seen = samples(*state, "max_batch_size: 8 model_warmup { batch_size: 8 " X WORDS "}", 3, &rc);
    assert_int_equal(rc, 0);
    assert_int_equal(seen.items, 3);
}

TEST_WITH(the_first_that_fails_ends_it, world_make, world_remove) {
    struct world *w = *state;
    int rc;
    struct seen seen = samples(w,
                               "max_batch_size: 8 model_warmup [ { name: '!' batch_size: 1 " X WORDS "},"
                               "{ batch_size: 2 " X WORDS " } ]",
                               8, &rc);
    assert_int_equal(rc, -EIO);
    assert_int_equal(seen.samples, 1);
    assert_string_equal(w->err.text, "not this one");
}

TEST_WITH(wrong_samples_are_refused_where_they_are_wrong, world_make, world_remove) {
    static const struct {
        const char *sample, *want;
    } cases[] = {
        {"batch_size: 9 " X WORDS,
         "@/m/config.pbtxt:1:34: model_warmup: batch_size is 9, but the model's batches are of at most 8"},
        {"batch_size: 1 count: 1001 " X WORDS, "@/m/config.pbtxt:1:48: count: 1001 is not in 0 to 1000"},
        {"batch_size: 1\n" X, "@/m/config.pbtxt:1:19: model_warmup: input 'words' is missing"},
        {"batch_size: 1\n" X X WORDS, "@/m/config.pbtxt:2:91: model_warmup: input 'x' is given twice"},
        {"batch_size: 1\ninputs { key: 'q' value { data_type: TYPE_FP32 dims: [ 3 ] zero_data: true } }",
         "@/m/config.pbtxt:2:10: model_warmup: the model has no input 'q' (it has 3, the first is 'x')"},
        {"batch_size: 1\ninputs { key: 'x' }", "@/m/config.pbtxt:2:1: model_warmup: inputs: value is missing"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP64 dims: [ 3, 2 ] zero_data: true } }",
         "@/m/config.pbtxt:2:27: model_warmup: input 'x': data_type is FP64, but the model's is FP32"},
        {"batch_size: 1\ninputs { key: 'x' value { dims: [ 3, 2 ] zero_data: true } }",
         "@/m/config.pbtxt:2:19: model_warmup: input 'x': data_type is missing"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] } }",
         "@/m/config.pbtxt:2:19: model_warmup: input 'x': one of zero_data, random_data, input_data_file is missing"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 4, 2 ] zero_data: true } }",
         "@/m/config.pbtxt:2:48: model_warmup: input 'x': dims are [4,2], but the model's are [3,-1] behind the batch "
         "dimension"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, -1 ] zero_data: true } }",
         "@/m/config.pbtxt:2:59: dims: -1 is not in 0 to 2147483647"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2147483647 ] zero_data: true } }",
         "@/m/config.pbtxt:2:19: model_warmup: the inputs of a sample are larger than 1073741824 bytes"},
        {"batch_size: 8\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 44739242 ] zero_data: true } "
         "}" WORDS,
         "@/m/config.pbtxt:1:19: model_warmup: the inputs of a sample are larger than 1073741824 bytes"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] input_data_file: 'gone' } }",
         "@/m/config.pbtxt:2:63: model_warmup: @/m/warmup/gone: No such file or directory"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] input_data_file: 'short' } }",
         "@/m/config.pbtxt:2:63: model_warmup: @/m/warmup/short: input 'x' takes 24 bytes, but the file has 5"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] input_data_file: 'folder' } }",
         "@/m/config.pbtxt:2:63: model_warmup: @/m/warmup/folder: not a file"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] input_data_file: '../secret' } "
         "}",
         "@/m/config.pbtxt:2:63: model_warmup: input_data_file '../secret' is not within the model's folder warmup"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] input_data_file: 'a/../../s' } "
         "}",
         "@/m/config.pbtxt:2:63: model_warmup: input_data_file 'a/../../s' is not within the model's folder warmup"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] input_data_file: '/etc/hosts' } "
         "}",
         "@/m/config.pbtxt:2:63: model_warmup: input_data_file '/etc/hosts' is not within the model's folder warmup"},
        {"batch_size: 1\ninputs { key: 'x' value { data_type: TYPE_FP32 dims: [ 3, 2 ] input_data_file: '' } }",
         "@/m/config.pbtxt:2:63: model_warmup: input_data_file '' is not within the model's folder warmup"},
        {"batch_size: 1\n" X
         "inputs { key: 'words' value { data_type: TYPE_STRING dims: [ 2 ] input_data_file: 'bytes' } }",
         "@/m/config.pbtxt:2:147: model_warmup: input 'words': string 0 is not whole: only 8 bytes are left for it "
         "and "
         "its length"},
    };
    struct world *w = *state;
    put(w, "m/warmup/short", "short");
    put(w, "m/warmup/folder/x", "");
    put(w, "m/warmup/bytes", "not strings.");
    put(w, "m/secret", "0123456789012345678901234567890123456789");
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char config[512];
        int rc;
        snprintf(config, sizeof(config), "max_batch_size: 8 model_warmup { %s }", cases[i].sample);
        assert_int_equal(samples(w, config, 8, &rc).samples, 0);
        assert_int_equal(rc, -EINVAL);
        assert_text(w, w->err.text, cases[i].want);
    }
}
