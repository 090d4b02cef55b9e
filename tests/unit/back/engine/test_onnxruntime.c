/* test_onnxruntime.c - tiny models: signatures, runs, errors that leave the engine usable. */
#include "unit/test.h"

#include <stdio.h>
#include <string.h>

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/engine/engine.h"

#define DATA TESTS_DIR "/unit/back/engine/data/"
#define VIEW(array, ...)                                                                                               \
    view_of(array, sizeof(array), (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / 8)

static const struct engine_ops *const ops = &engine_onnxruntime;

static struct tensor_view view_of(const void *data, size_t bytes, const int64_t *dims, size_t dim_count) {
    struct tensor_view view = {.data = (void *)data, .bytes = bytes, .dim_count = (uint32_t)dim_count};
    memcpy(view.dims, dims, dim_count * sizeof(*dims));
    return view;
}

/* An engine with one model loaded. */
struct loaded {
    struct signature_room room;
    struct engine *engine;
    struct engine_model *model;
};

static void load(struct loaded *l, const char *file) {
    struct sy_error err = {""};
    struct engine_options options = {.provider = "cpu"};
    char path[512];
    snprintf(path, sizeof(path), DATA "%s", file);
    assert_int_equal(ops->signature(path, NULL, &l->room, &err), 0);
    assert_int_equal(ops->open(&l->engine, &options, &err), 0);
    struct engine_model_source source = {
        .name = file, .path = path, .signature = &l->room.signature, .batch_max = l->room.signature.batched ? 8 : 1};
    assert_int_equal(ops->load(l->engine, &source, &l->model, &err), 0);
}

static void unload(struct loaded *l) {
    ops->unload(l->model);
    ops->close(l->engine);
}

TEST(signatures_come_from_the_file) {
    struct signature_room s;
    struct sy_error err;
    assert_int_equal(ops->signature(DATA "add.onnx", NULL, &s, &err), 0);
    assert_int_equal(s.signature.input_count, 3);
    assert_int_equal(s.signature.output_count, 2);
    assert_string_equal(s.inputs[2].name, "c");
    assert_int_equal(s.inputs[2].type, DATATYPE_INT64);
    assert_int_equal(s.inputs[2].dim_count, 2);
    assert_int_equal(s.inputs[2].dims[0], -1);
    assert_int_equal(s.inputs[2].dims[1], 2);
    assert_string_equal(s.outputs[0].name, "sum");
    assert_int_equal(s.outputs[0].type, DATATYPE_FP32);

    static const struct {
        const char *path;
        bool batched, variable_shapes;
    } cases[] = {
        {DATA "add.onnx", true, false},  {DATA "mlp.onnx", true, false},     {DATA "fixed.onnx", false, false},
        {DATA "image.onnx", true, true}, {DATA "scalar.onnx", false, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(ops->signature(cases[i].path, NULL, &s, &err), 0);
        assert_int_equal(s.signature.batched, cases[i].batched);
        assert_int_equal(s.signature.variable_shapes, cases[i].variable_shapes);
    }
}

TEST(what_cannot_be_served_is_named) {
    struct signature_room s;
    struct sy_error err = {""};
    assert_int_equal(ops->signature(DATA "sequence.onnx", NULL, &s, &err), -ENOTSUP);
    assert_string_equal(err.text, "output 'y' is not a tensor but a sequence, map or optional, which is not served; "
                                  "skl2onnx writes a tensor with options={'zipmap': False}");
    assert_int_equal(ops->signature(DATA "absent.onnx", NULL, &s, &err), -ENOENT);
    assert_non_null(strstr(err.text, "absent.onnx"));
}

TEST(broken_files_are_refused) {
    char bytes[20000], path[] = "/tmp/symphony-test-XXXXXX";
    FILE *whole = fopen(DATA "mlp.onnx", "rb");
    size_t size = fread(bytes, 1, sizeof(bytes), whole);
    fclose(whole);
    int fd = mkstemp(path);
    assert_int_equal(write(fd, bytes, size / 2), (ssize_t)(size / 2));
    struct signature_room s;
    struct sy_error err = {""};
    assert_true(ops->signature(path, NULL, &s, &err) < 0);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_true(ops->signature(path, NULL, &s, &err) < 0);
    close(fd);
    unlink(path);
}

TEST(a_batch_runs_in_place) {
    struct loaded l;
    load(&l, "add.onnx");
    float a[3][16], b[3][16];
    int64_t c[3][2] = {{1, 2}, {3, 4}, {-5, 1LL << 40}};
    for (int i = 0; i < 48; i++) {
        a[i / 16][i % 16] = (float)i;
        b[i / 16][i % 16] = 0.5f;
    }
    struct tensor_view inputs[] = {VIEW(a, 3, 16), VIEW(b, 3, 16), VIEW(c, 3, 2)};
    struct output_block *block = NULL;
    struct sy_error err = {""};
    for (int round = 0; round < 3; round++) { /* blocks are used again */
        assert_int_equal(ops->run(l.model, inputs, 3, &block, &err), 0);
        assert_int_equal(block->output_count, 2);
        assert_int_equal(block->outputs[0].dims[0], 3);
        assert_int_equal(block->outputs[0].bytes, sizeof(a));
        for (int i = 0; i < 48; i++)
            assert_true(((float *)block->outputs[0].data)[i] == (float)i + 0.5f);
        assert_int_equal(((int64_t *)block->outputs[1].data)[5], 1LL << 41);
        output_block_put(block);
    }
    unload(&l);
}

TEST(outputs_outlive_the_model) {
    struct loaded l;
    load(&l, "fixed.onnx");
    float x[16] = {0};
    struct tensor_view input = VIEW(x, 1, 16);
    struct output_block *first, *second;
    assert_int_equal(ops->run(l.model, &input, 1, &first, NULL), 0);
    x[0] = 7;
    assert_int_equal(ops->run(l.model, &input, 1, &second, NULL), 0);
    assert_ptr_not_equal(first, second);
    unload(&l);
    assert_true(((float *)first->outputs[0].data)[15] == 15);
    assert_true(((float *)second->outputs[0].data)[0] == 7);
    output_block_put(second);
    output_block_put(first);
}

TEST(the_same_input_gives_the_same_row_in_any_batch) {
    struct loaded l;
    load(&l, "mlp.onnx");
    float x[5][32];
    for (int i = 0; i < 5 * 32; i++)
        x[i / 32][i % 32] = (float)(i * 7 % 5 - 2);
    struct tensor_view batch = VIEW(x, 5, 32);
    struct output_block *five, *one;
    assert_int_equal(ops->run(l.model, &batch, 5, &five, NULL), 0);
    for (int i = 0; i < 5; i++) {
        struct tensor_view item = VIEW(x[i], 1, 32);
        assert_int_equal(ops->run(l.model, &item, 1, &one, NULL), 0);
        assert_memory_equal(one->outputs[0].data, (float *)five->outputs[0].data + i * 8, 8 * sizeof(float));
        output_block_put(one);
    }
    output_block_put(five);
    unload(&l);
}

TEST(a_failed_run_says_why_and_the_model_goes_on) {
    struct loaded l;
    float x[7][16] = {{0}};
    struct output_block *block;
    struct sy_error err = {""};
    load(&l, "fails.onnx");
    struct tensor_view one = VIEW(x[0], 1, 16), seven = VIEW(x, 7, 16);
    assert_true(ops->run(l.model, &one, 1, &block, &err) < 0);
    assert_non_null(strstr(err.text, "Reshape"));
    /* runs, and gives 16 rows for 7 items: whose they are is not the engine's business */
    assert_int_equal(ops->run(l.model, &seven, 7, &block, &err), 0);
    assert_int_equal(block->outputs[0].dims[0], 16);
    output_block_put(block);
    unload(&l);

    load(&l, "add.onnx");
    struct tensor_view wrong[] = {VIEW(x[0], 1, 16), VIEW(x[0], 1, 16), VIEW(x[0], 1, 8)};
    assert_int_equal(ops->run(l.model, wrong, 1, &block, &err), -EINVAL);
    assert_non_null(strstr(err.text, "c"));
    int64_t c[2] = {1, 2};
    wrong[2] = VIEW(c, 1, 2);
    assert_int_equal(ops->run(l.model, wrong, 1, &block, &err), 0);
    output_block_put(block);
    unload(&l);
}

/* The limit holds for all models together, and a failed run leaves nothing behind. */
TEST(runs_share_so_much_memory) {
    enum { ITEMS = 1 << 20 }; /* 64 MiB of sums */
    struct loaded one, other;
    struct output_block *first, *second;
    struct sy_error err = {""};
    float *x = calloc(ITEMS, 16 * sizeof(*x));
    int64_t *c = calloc(ITEMS, 2 * sizeof(*c));
    assert_true(x && c);
    struct tensor_view sums = view_of(x, (size_t)ITEMS * 64, (const int64_t[]){ITEMS, 16}, 2);
    struct tensor_view inputs[] = {sums, sums, view_of(c, (size_t)ITEMS * 16, (const int64_t[]){ITEMS, 2}, 2)};
    engine_run_memory_set(120 << 20);
    load(&one, "add.onnx");
    load(&other, "add.onnx");
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ops->run(one.model, inputs, ITEMS, &first, &err), 0);
        assert_true(ops->run(other.model, inputs, ITEMS, &second, &err) < 0);
        assert_string_equal(err.text, "run: it needs more memory than runs may take, 120 MiB for all "
                                      "(--run-memory-max-mib)");
        output_block_put(first);
        assert_int_equal(ops->run(other.model, inputs, ITEMS, &second, &err), 0);
        output_block_put(second);
    }
    unload(&one);
    unload(&other);
    engine_run_memory_set(0);
    free(x);
    free(c);
}

TEST(strings_go_in_and_come_out) {
    struct loaded l;
    struct output_block *block;
    struct tensor_view row;
    static const char words[] = "\3\0\0\0a\0b\0\0\0\0\2\0\0\0\xff\xfe";
    load(&l, "text.onnx");
    struct tensor_view three = {.data = (void *)words, .bytes = sizeof(words) - 1, .dim_count = 1, .dims = {3}};
    for (int round = 0; round < 3; round++) {
        assert_int_equal(ops->run(l.model, &three, 3, &block, NULL), 0);
        assert_int_equal(block->outputs[0].bytes, sizeof(words) - 1);
        assert_memory_equal(block->outputs[0].data, words, sizeof(words) - 1);
        assert_int_equal(tensor_rows(&block->outputs[0], 2, 1, &row), 0);
        assert_int_equal(row.bytes, 6);
        assert_memory_equal(row.data, "\2\0\0\0\xff\xfe", 6);
        output_block_put(block);
    }
    unload(&l);

    load(&l, "lookup.onnx");
    static const char labels[] = "\3\0\0\0dog\3\0\0\0cat\3\0\0\0cow\3\0\0\0dog";
    static const int64_t numbers[] = {8, 7, -1, 8};
    struct tensor_view two = {.data = (void *)labels, .bytes = sizeof(labels) - 1, .dim_count = 2, .dims = {2, 2}};
    assert_int_equal(ops->run(l.model, &two, 2, &block, NULL), 0);
    assert_memory_equal(block->outputs[0].data, numbers, sizeof(numbers));
    output_block_put(block);
    unload(&l);

    load(&l, "lower.onnx");
    static const char shout[] = "\3\0\0\0CAT\3\0\0\0the\0\0\0\0";
    struct tensor_view few = {.data = (void *)shout, .bytes = sizeof(shout) - 1, .dim_count = 2, .dims = {1, 3}};
    assert_int_equal(ops->run(l.model, &few, 1, &block, NULL), 0);
    assert_int_equal(block->outputs[0].dims[1], 2);
    assert_memory_equal(block->outputs[0].data, "\3\0\0\0cat\0\0\0\0", 11);
    output_block_put(block);
    unload(&l);
}

TEST(optional_inputs_may_be_left_out) {
    struct loaded l;
    struct output_block *block;
    float x[2][2] = {{1, 2}, {3, 4}}, scale[1] = {-1}, offset[2] = {0, 1};
    load(&l, "affine.onnx");
    assert_int_equal(l.room.signature.input_count, 3);
    assert_int_equal(l.room.signature.inputs_optional, 6);
    assert_string_equal(l.room.signature.inputs[0].name, "x");
    for (int given = 0; given < 4; given++) {
        struct tensor_view inputs[3] = {VIEW(x, 2, 2)};
        for (int i = 1; i < 3; i++) {
            bool is_scale = strcmp(l.room.signature.inputs[i].name, "scale") == 0;
            if (given & (is_scale ? 1 : 2))
                inputs[i] = is_scale ? VIEW(scale, 1) : VIEW(offset, 2);
        }
        assert_int_equal(ops->run(l.model, inputs, 2, &block, NULL), 0);
        const float *y = block->outputs[0].data;
        assert_true(y[3] == 4 * (given & 1 ? -1 : 2) + (given & 2 ? 1 : 10));
        output_block_put(block);
    }
    unload(&l);
}

TEST(a_stopped_model_runs_no_more_until_it_goes_on) {
    struct loaded l;
    float x[32] = {0};
    struct tensor_view item = VIEW(x, 1, 32);
    struct output_block *block;
    struct sy_error err = {""};
    load(&l, "mlp.onnx");
    assert_int_equal(ops->run(l.model, &item, 1, &block, &err), 0);
    output_block_put(block);
    ops->stop(l.model);
    assert_true(ops->run(l.model, &item, 1, &block, &err) < 0);
    assert_non_null(strstr(err.text, "terminate"));
    ops->go_on(l.model);
    assert_int_equal(ops->run(l.model, &item, 1, &block, &err), 0);
    output_block_put(block);
    unload(&l);
}

TEST(a_missing_provider_is_an_error) {
    struct loaded l;
    struct sy_error err = {""};
    struct engine_options options = {.provider = "abacus"};
    assert_int_equal(ops->signature(DATA "add.onnx", NULL, &l.room, &err), 0);
    assert_int_equal(ops->open(&l.engine, &options, &err), 0);
    struct engine_model_source source = {
        .name = "add", .path = DATA "add.onnx", .signature = &l.room.signature, .batch_max = 8};
    assert_int_equal(ops->load(l.engine, &source, &l.model, &err), -ENOTSUP);
    assert_string_equal(err.text, "there is no execution provider 'abacus'");
    ops->close(l.engine);
}

#endif
