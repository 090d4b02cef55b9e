/* test_graph_fingerprint.c - which models have one graph, and which differ in more than their weights. */
#include "model/onnx/graph_fingerprint.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "core/system/folder.h"
#include "core/util/container.h"
#include "unit/model/onnx/onnx_build.h"
#include "unit/temp_folder.h"
#include "unit/test.h"

enum { FLOAT = 1, INT64 = 7 };

/* A model of one node, which takes an initialiser `w` of two elements. */
struct built {
    const char *op;
    uint64_t type;
    float values[2];
    bool external, output; /* the elements lie in another file; the initialiser is an output, too */
};

static void built_write(const char *path, const struct built *b) {
    struct text graph, t, model;
    text_init(&graph, NULL, 0);
    text_init(&t, NULL, 0);
    build_values(&graph, GRAPH_INPUT, "x");
    build_node(&graph, &(struct build_node){b->op, "x w", "y"});
    build_values(&graph, GRAPH_OUTPUT, b->output ? "y w" : "y");
    build_number(&t, TENSOR_DIMS, b->type == INT64 ? 1 : 2);
    build_number(&t, TENSOR_DATA_TYPE, b->type);
    protobuf_put_bytes(&t, TENSOR_NAME, "w", 1);
    if (b->external)
        build_number(&t, TENSOR_LOCATION, LOCATION_EXTERNAL);
    else
        protobuf_put_bytes(&t, TENSOR_RAW, b->values, sizeof(b->values));
    build_message(&graph, GRAPH_INITIALIZER, &t);
    build_model(&model, &graph);
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(model.data, 1, model.length, to), model.length);
    fclose(to);
    text_free(&model);
}

TEST(graphs_are_told_apart) {
    static const struct {
        struct built a, b;
        bool same;
    } cases[] = {
        {{"MatMul", FLOAT, {1, 2}, false, false}, {"MatMul", FLOAT, {3, 4}, false, false}, true},
        {{"MatMul", FLOAT, {1, 2}, true, false}, {"MatMul", FLOAT, {1, 2}, true, false}, true},
        {{"MatMul", FLOAT, {1, 2}, false, false}, {"Add", FLOAT, {1, 2}, false, false}, false},
        {{"Reshape", INT64, {1, 2}, false, false}, {"Reshape", INT64, {1, 3}, false, false}, false}, /* a shape */
        {{"Resize", FLOAT, {1, 2}, false, false}, {"Resize", FLOAT, {1, 3}, false, false}, false},   /* a factor */
        {{"MatMul", FLOAT, {1, 2}, false, true}, {"MatMul", FLOAT, {1, 3}, false, true}, false},
    };
    char folder[64], path[128];
    temp_folder(folder);
    snprintf(path, sizeof(path), "%s/m.onnx", folder);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct fingerprint a, b;
        struct sy_error err = {""};
        built_write(path, &cases[i].a);
        assert_int_equal(graph_fingerprint(path, &a, &err), 0);
        built_write(path, &cases[i].b);
        assert_int_equal(graph_fingerprint(path, &b, &err), 0);
        assert_int_equal(memcmp(&a, &b, sizeof(a)) == 0, cases[i].same);
    }
    assert_int_equal(folder_remove(folder), 0);
}

TEST(what_lies_elsewhere_and_counts_is_refused) {
    char folder[64], path[128];
    struct fingerprint a;
    struct sy_error err = {""};
    temp_folder(folder);
    snprintf(path, sizeof(path), "%s/m.onnx", folder);
    built_write(path, &(struct built){"Reshape", INT64, {1, 2}, true, false});
    assert_int_equal(graph_fingerprint(path, &a, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(unlink(path), 0);
    assert_true(graph_fingerprint(path, &a, &err) < 0);
    assert_int_equal(folder_remove(folder), 0);
}
