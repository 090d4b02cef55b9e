/* test_onnxruntime_transform.c - tiny models that prepare: what they take, where their output goes, threads, ends. */
/* Starts threads. */
#include "unit/test.h"

#include <stdio.h>
#include <string.h>

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "model/engine/engine.h"

#define DATA TESTS_DIR "/unit/back/engine/data/"

static const struct transform_ops *const ops = &transform_onnxruntime;

static struct transform *opened(const char *path) {
    struct transform *transform = NULL;
    struct sy_error err = {""};
    if (ops->open(path, &transform, &err) != 0)
        fail_msg("%s: %s", path, err.text);
    return transform;
}

/* image.onnx: the means of three channels. */
static int means(struct transform *transform, struct transform_stop *stop, float fill, int64_t side, float *to,
                 int64_t channels, struct sy_error *err) {
    size_t elements = 3 * (size_t)(side * side);
    float *from = malloc(elements * sizeof(float));
    for (size_t i = 0; i < elements; i++)
        from[i] = fill + (float)(i * 3 / elements);
    struct tensor_view in = {
        .data = from, .bytes = elements * sizeof(float), .dim_count = 4, .dims = {1, 3, side, side}};
    struct tensor_view out = {
        .data = to, .bytes = (size_t)channels * sizeof(float), .dim_count = 2, .dims = {1, channels}};
    int rc = ops->run(transform, stop, &in, &out, err);
    free(from);
    return rc;
}

TEST(the_file_says_what_it_takes) {
    struct transform *transform = opened(DATA "image.onnx");
    assert_string_equal(transform->input.name, "x");
    assert_int_equal(transform->input.type, DATATYPE_FP32);
    assert_int_equal(transform->input.dim_count, 4);
    assert_memory_equal(transform->input.dims, ((int64_t[]){-1, 3, -1, -1}), 4 * sizeof(int64_t));
    assert_string_equal(transform->output.name, "y");
    assert_int_equal(transform->output.dim_count, 2);
    ops->close(transform);
}

TEST(outputs_go_where_they_are_wanted) {
    struct transform *transform = opened(DATA "image.onnx");
    struct sy_error err = {""};
    float to[5] = {-1, -1, -1, -1, -1};
    for (int64_t side = 1; side < 40; side += 13) {
        assert_int_equal(means(transform, NULL, 10, side, to + 1, 3, &err), 0);
        assert_memory_equal(to, ((float[]){-1, 10, 11, 12, -1}), sizeof(to));
    }
    /* another shape than the one that comes out is an error, and writes nothing */
    float small[3] = {-1, -1, -1};
    assert_true(means(transform, NULL, 10, 4, small, 2, &err) < 0);
    assert_memory_equal(small, ((float[]){-1, -1, -1}), sizeof(small));
    assert_true(strlen(err.text) > 0);
    assert_int_equal(means(transform, NULL, 20, 4, to + 1, 3, &err), 0);
    assert_true(to[1] == 20);
    ops->close(transform);
}

TEST(what_cannot_prepare_is_refused) {
    struct transform *transform;
    struct sy_error err;
    assert_int_equal(ops->open(DATA "add.onnx", &transform, &err), -EINVAL);
    assert_string_equal(err.text, "it has 3 inputs and 2 outputs; a model that prepares has one of each");
    assert_true(ops->open(DATA "no such file.onnx", &transform, &err) < 0);
    assert_true(ops->open(DATA "sequence.onnx", &transform, &err) < 0);
    transform = opened(DATA "affine.onnx"); /* the others have values */
    assert_string_equal(transform->input.name, "x");
    ops->close(transform);
}

TEST(contents_are_as_good_as_the_file) {
    struct transform *transform;
    struct sy_error err = {""};
    FILE *file = fopen(DATA "image.onnx", "rb");
    assert_non_null(file);
    char *contents = malloc(1 << 16);
    size_t bytes = fread(contents, 1, 1 << 16, file);
    fclose(file);
    if (ops->open_bytes(contents, bytes, &transform, &err))
        fail_msg("%s", err.text);
    memset(contents, 0, bytes); /* they need not stay */
    float to[3];
    assert_int_equal(means(transform, NULL, 10, 4, to, 3, &err), 0);
    assert_memory_equal(to, ((float[]){10, 11, 12}), sizeof(to));
    ops->close(transform);
    assert_true(ops->open_bytes(contents, bytes, &transform, &err) < 0);
    free(contents);
}

struct racer {
    pthread_t thread;
    struct transform *transform;
    float fill;
    int wrong;
};

static void *race(void *context) {
    struct racer *racer = context;
    struct transform_stop *stop = ops->stop_new();
    for (int i = 0; i < 200; i++) {
        float to[3] = {0};
        bool right = means(racer->transform, stop, racer->fill, 1 + i % 7, to, 3, NULL) == 0 && to[0] == racer->fill;
        racer->wrong += !right;
    }
    ops->stop_free(stop);
    return NULL;
}

TEST(threads_share_one) {
    enum { THREADS = 4 };
    struct racer racers[THREADS];
    struct transform *transform = opened(DATA "image.onnx");
    for (int i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){.transform = transform, .fill = (float)(100 * i)};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(racers[i].thread, NULL);
        assert_int_equal(racers[i].wrong, 0);
    }
    ops->close(transform);
}

TEST(a_stop_ends_runs_until_it_is_taken_back) {
    struct transform *transform = opened(DATA "image.onnx");
    struct transform_stop *stop = ops->stop_new(), *other = ops->stop_new();
    struct sy_error err;
    float to[3];
    ops->stop(stop, true);
    assert_true(means(transform, stop, 1, 4, to, 3, &err) < 0);
    assert_int_equal(means(transform, other, 1, 4, to, 3, &err), 0);
    ops->stop(stop, false);
    assert_int_equal(means(transform, stop, 1, 4, to, 3, &err), 0);
    ops->stop_free(stop);
    ops->stop_free(other);
    ops->close(transform);
}

#endif
