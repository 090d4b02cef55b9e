/* test_preparations.c - models whose inputs are prepared: what fits, what clients see, what is refused. The engine is
 * one of here: a file holds the letters of an input's and an output's shape. */
#include "unit/test.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/system/clock.h"
#include "core/util/container.h"
#include "core/util/time.h"
#include "model/config/preparations.h"
#include "specs.h"
#include "unit/model/repository/world.h"

static const struct {
    char letter;
    struct tensor_spec spec;
} shapes[] = {
    {'a', {.name = "a", .type = DATATYPE_UINT8, .dim_count = 4, .dims = {-1, -1, -1, 3}}},
    {'b', {.name = "b", .type = DATATYPE_FP32, .dim_count = 4, .dims = {-1, 3, 8, 8}}},
    {'c', {.name = "c", .type = DATATYPE_UINT8, .dim_count = 3, .dims = {-1, -1, 3}}},
    {'d', {.name = "d", .type = DATATYPE_FP32, .dim_count = 3, .dims = {3, 8, 8}}},
    {'e', {.name = "e", .type = DATATYPE_FP32, .dim_count = 3, .dims = {3, 8, 9}}},
    {'f', {.name = "f", .type = DATATYPE_UINT8, .dim_count = 3, .dims = {3, 8, 8}}},
    {'g', {.name = "g", .type = DATATYPE_FP32, .dim_count = 2, .dims = {1, 50}}},
    {'h', {.name = "h", .type = DATATYPE_FP32, .dim_count = 4, .dims = {1, 3, -1, 8}}},
    {'i', {.name = "i", .type = DATATYPE_FP32, .dim_count = 4, .dims = {2, 3, 8, 8}}},
    {'j', {.name = "j", .type = DATATYPE_FP32, .dim_count = 1, .dims = {50}}},
    {'k', {.name = "k", .type = DATATYPE_FP32, .dim_count = 4, .dims = {-1, 3, -1, -1}}},
    {'l', {.name = "l", .type = DATATYPE_BYTES, .dim_count = 1, .dims = {1}}},
    {'m', {.name = "m", .type = DATATYPE_FP32, .dim_count = 4, .dims = {-1, 3, 224, 224}}},
};

extern const struct transform_ops fake;

static int opened, runs;
static bool failing;
static int64_t run_ns;

static struct tensor_spec shape_of(int letter) {
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++)
        if (shapes[i].letter == letter)
            return shapes[i].spec;
    fail_msg("no shape '%c'", letter);
    return shapes[0].spec;
}

static int fake_open(const char *path, struct transform **transform, struct sy_error *err) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int in = fgetc(file), out = fgetc(file);
    fclose(file);
    if (in == '!')
        return error_set(err, -EINVAL, "it is broken");
    struct transform *t = calloc(1, sizeof(*t));
    *t = (struct transform){.ops = &fake, .input = shape_of(in), .output = shape_of(out)};
    *transform = t;
    opened++;
    return 0;
}

static int fake_open_bytes(const void *contents, size_t bytes, struct transform **transform, struct sy_error *err) {
    const char *letters = contents;
    if (letters[0] == '!')
        return error_set(err, -EINVAL, "it is broken");
    assert_int_equal(bytes, 2);
    struct transform *t = calloc(1, sizeof(*t));
    *t = (struct transform){.ops = &fake, .input = shape_of(letters[0]), .output = shape_of(letters[1])};
    *transform = t;
    opened++;
    return 0;
}

static void fake_close(struct transform *transform) {
    opened--;
    free(transform);
}

static int fake_run(struct transform *transform, struct transform_stop *stop, const struct tensor_view *input,
                    const struct tensor_view *output, struct sy_error *err) {
    assert_int_equal(input->dim_count, transform->input.dim_count);
    assert_int_equal(output->bytes, 3 * 8 * 8 * sizeof(float));
    runs++;
    for (int64_t begun_ns = clock_now_ns(); clock_now_ns() - begun_ns < run_ns;)
        ;
    return failing ? error_set(err, -EIO, "no such kernel") : 0;
}

const struct transform_ops fake = {
    .open = fake_open, .open_bytes = fake_open_bytes, .close = fake_close, .run = fake_run};

/* A model whose input has this shape; 'u': FP32 [3,8,8] without a batch dimension. */
static int complete(struct world *w, char input) {
    struct signature signature = {.inputs = SPECS(shape_of(input == 'u' ? 'd' : input)),
                                  .outputs =
                                      SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 10}}),
                                  .input_count = 1,
                                  .output_count = 1,
                                  .batched = input != 'u'};
    strcpy(signature.inputs[0].name, "x");
    for (uint32_t d = 1; d < signature.inputs[0].dim_count; d++)
        signature.variable_shapes |= signature.inputs[0].dims[d] < 0;
    return served_model_apply(&w->models[0], &signature, &w->err);
}

static struct served_model *prepared_by(struct world *w, char input, const char *steps, const char *letters) {
    char yaml[256];
    snprintf(yaml, sizeof(yaml), "prepare:\n  - %s\n", steps);
    put(w, "m/1/model.onnx", "x");
    put(w, "m/1/p.onnx", letters);
    put(w, "m/symphony.yaml", yaml);
    assert_int_equal(scan(w, ""), 0);
    int rc = complete(w, input);
    if (rc == 0)
        rc = preparations_open(&w->models[0], &fake, &w->err);
    return rc == 0 ? &w->models[0] : NULL;
}

static void again(struct world *w) {
    served_models_free(w->models, w->count);
    w->models = NULL;
    w->count = 0;
    assert_int_equal(opened, 0);
}

TEST_WITH(clients_see_what_they_send, world_make, world_remove) {
    struct world *w = *state;
    static const char both[] = "{step: decode_image, max_pixels: 9}\n  - {step: onnx, model: p.onnx}",
                      one[] = "{step: onnx, model: p.onnx}";
    static const struct {
        char input;
        const char *steps, *letters;
        enum datatype type;
        uint32_t dim_count;
        int64_t dims[4];
        bool lead;
        int runs;
    } cases[] = {
        {'b', both, "ab", DATATYPE_BYTES, 2, {-1, 1}, true, 0},
        {'b', both, "cd", DATATYPE_BYTES, 2, {-1, 1}, false, 0},
        {'b', one, "ab", DATATYPE_UINT8, 4, {-1, -1, -1, 3}, true, 0},
        {'b', one, "gb", DATATYPE_FP32, 2, {-1, 50}, true, 2}, /* of a fixed shape: it is tried, and measured */
        {'b', one, "jd", DATATYPE_FP32, 2, {-1, 50}, false, 2},
        {'b', one, "gh", DATATYPE_FP32, 2, {-1, 50}, true, 2}, /* the model knows the height */
        {'k', one, "gb", DATATYPE_FP32, 2, {-1, 50}, true, 2}, /* or the other one does */
        {'u', one, "gb", DATATYPE_FP32, 1, {50}, true, 2},
        {'u', one, "jd", DATATYPE_FP32, 1, {50}, false, 2},
        {'u', both, "ab", DATATYPE_BYTES, 1, {1}, true, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        runs = 0;
        const struct served_model *model = prepared_by(w, cases[i].input, cases[i].steps, cases[i].letters);
        if (!model)
            fail_msg("case %zu: %s", i, w->err.text);
        const struct tensor_spec *offered = &served_model_offered(model)->inputs[0];
        const struct served_preparation *how = &model->preparations[0];
        assert_string_equal(offered->name, "x");
        assert_int_equal(offered->type, cases[i].type);
        assert_int_equal(offered->dim_count, cases[i].dim_count);
        assert_memory_equal(offered->dims, cases[i].dims, cases[i].dim_count * sizeof(int64_t));
        assert_int_equal(how->lead, cases[i].lead);
        assert_int_equal(how->made_dim_count, 3);
        assert_memory_equal(how->made_dims, ((int64_t[]){3, 8, 8}), 3 * sizeof(int64_t));
        assert_int_equal(runs, cases[i].runs);
        assert_int_equal(how->transform->pace.measured, cases[i].runs > 0);
        again(w);
    }
}

/* What any run costs is not taken for the cost of the few elements that were there. */
TEST_WITH(a_trial_of_few_elements_says_little_about_many, world_make, world_remove) {
    struct world *w = *state;
    run_ns = NS_PER_MS;
    int64_t begun_ns = clock_now_ns();
    const struct served_model *model = prepared_by(w, 'b', "{step: onnx, model: p.onnx}", "gb");
    run_ns = 0;
    assert_non_null(model);
    assert_true(model->preparations[0].transform->pace.mean_ns * TRANSFORM_ELEMENTS_LEAST <=
                (double)(clock_now_ns() - begun_ns));
    again(w);
}

TEST_WITH(what_does_not_fit_is_refused, world_make, world_remove) {
    struct world *w = *state;
    static const char both[] = "{step: decode_image}\n  - {step: onnx, model: p.onnx}",
                      one[] = "{step: onnx, model: p.onnx}";
    static const struct {
        char input;
        const char *steps, *letters, *want;
    } cases[] = {
        {'b', one, "!", "@/m/symphony.yaml:2: prepare.0: @/m/1/p.onnx: it is broken"},
        {'b', "{step: onnx, model: q.onnx}", "", ":2: prepare.0: @/m/1/q.onnx: No such file or directory"},
        {'b', "{input: z, step: onnx, model: p.onnx}", "", ":2: prepare.0: the model has no input 'z'"},
        {'b', "{step: onnx, model: p.onnx}\n  - {step: decode_image}", "",
         ":3: prepare.1: decode_image comes before onnx"},
        {'b', "{step: onnx, model: p.onnx}\n  - {step: onnx, model: p.onnx}", "",
         ":3: prepare.1: input 'x' is given twice"},
        {'b', one, "gf",
         ":2: prepare.0: p.onnx: its output 'f' is UINT8 [3,8,8], but the model's input 'x' is FP32 [3,8,8] behind the "
         "batch dimension"},
        {'b', one, "ge", ": its output 'e' is FP32 [3,8,9], but the model's input 'x' is FP32 [3,8,8]"},
        {'b', one, "gg", ": its output 'g' is FP32 [1,50], but"},
        {'b', one, "gi", ": 'i' is [2,3,8,8]; its first dimension, the batch's, has to be open or 1"},
        {'b', one, "jb", ": 'j' is [50]; its first dimension, the batch's, has to be open or 1"},
        {'k', one, "gk",
         ":2: prepare.0: p.onnx: the size of its output 'k' is not known before it runs: neither it nor the model's "
         "input 'x' has a number for dimension 2"},
        {'b', one, "ld", ": its input 'l' is BYTES, which onnx does not take"},
        {'b', both, "gb",
         ":3: prepare.1: p.onnx: decode_image makes UINT8 [height,width,3], but its input 'g' is FP32 [50] behind the "
         "batch dimension"},
        {'b', "{step: decode_image}", "",
         ":2: prepare.0: decode_image makes UINT8 [height,width,3], but the model's input 'x' is FP32 [3,8,8]"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        if (prepared_by(w, cases[i].input, cases[i].steps, cases[i].letters))
            fail_msg("case %zu is not refused", i);
        assert_int_equal(opened, 0);
        char want[512];
        snprintf(want, sizeof(want), "%s", cases[i].want);
        for (char *at; (at = strchr(want, '@'));) {
            char rest[512];
            snprintf(rest, sizeof(rest), "%s", at + 1);
            snprintf(at, sizeof(want) - (size_t)(at - want), "%s%s", w->root, rest);
        }
        if (!strstr(w->err.text, want))
            fail_msg("case %zu: '%s' is not in '%s'", i, want, w->err.text);
        again(w);
    }
}

TEST_WITH(one_that_does_not_run_is_refused, world_make, world_remove) {
    struct world *w = *state;
    failing = true;
    assert_null(prepared_by(w, 'b', "{step: onnx, model: p.onnx}", "gb"));
    failing = false;
    assert_non_null(strstr(w->err.text, "prepare.0: p.onnx: it does not run: no such kernel"));
    again(w);
    assert_non_null(prepared_by(w, 'b', "{step: onnx, model: p.onnx}", "gb"));
    preparations_close(&w->models[0]);
    assert_int_equal(preparations_open(&w->models[0], NULL, &w->err), -EINVAL);
    assert_non_null(strstr(w->err.text, "no engine here runs"));
    again(w);
}

/* What a backend does: nothing stays open, and the contents are what a frontend opens it by. */
TEST_WITH(what_is_packed_is_opened_elsewhere, world_make, world_remove) {
    struct world *w = *state;
    static const char one[] = "{step: onnx, model: p.onnx}";
    assert_non_null(prepared_by(w, 'b', one, "gb"));
    preparations_close(&w->models[0]);
    if (preparations_pack(&w->models[0], &fake, &w->err))
        fail_msg("%s", w->err.text);
    assert_int_equal(opened, 0);
    struct served_preparation *how = &w->models[0].preparations[0];
    assert_non_null(how->contents);
    assert_int_equal(how->contents->bytes, 2);
    assert_memory_equal(how->contents->data, "gb", 2);
    put(w, "m/1/p.onnx", "!"); /* it is read no more */
    assert_int_equal(preparations_open(&w->models[0], &fake, &w->err), 0);
    assert_int_equal(opened, 1);
    assert_int_equal(w->models[0].offered.inputs[0].dims[1], 50);
    preparations_close(&w->models[0]);
    assert_int_equal(preparations_pack(&w->models[0], &fake, &w->err), -EINVAL);
    again(w);
}

TEST_WITH(what_is_too_large_to_go_elsewhere_is_refused, world_make, world_remove) {
    struct world *w = *state;
    char *large = malloc(PREPARE_CARRIED_MAX + 2);
    assert_non_null(large);
    memset(large, 'x', PREPARE_CARRIED_MAX + 1);
    large[0] = 'g';
    large[1] = 'b';
    large[PREPARE_CARRIED_MAX + 1] = '\0';
    assert_non_null(prepared_by(w, 'b', "{step: onnx, model: p.onnx}", "gb"));
    preparations_close(&w->models[0]);
    put(w, "m/1/p.onnx", large);
    free(large);
    assert_int_equal(preparations_pack(&w->models[0], &fake, &w->err), -EFBIG);
    assert_non_null(strstr(w->err.text,
                           "m/symphony.yaml:2: prepare.0: p.onnx: the files that prepare a model's inputs go "
                           "to the frontends of a cluster if they have at most 2097152 bytes together"));
    assert_null(w->models[0].preparations[0].contents);
    assert_int_equal(opened, 0);
    again(w);
}

/* Opening a FIFO to read it would wait for its writer. */
TEST_WITH(a_pipe_is_not_read, world_make, world_remove) {
    struct world *w = *state;
    char path[256];
    assert_non_null(prepared_by(w, 'b', "{step: onnx, model: p.onnx}", "gb"));
    preparations_close(&w->models[0]);
    in_root(w, path, "m/1/p.onnx");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(preparations_pack(&w->models[0], &fake, &w->err), -EINVAL);
    assert_non_null(strstr(w->err.text, "m/1/p.onnx: not a file"));
    again(w);
}
