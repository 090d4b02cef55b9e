/* test_onnx_graph.c - what is read of a model's file, and what mistakes say; weights in each of their forms. */
#include "model/onnx/onnx_graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit/model/onnx/onnx_build.h"
#include "unit/temp_folder.h"
#include "unit/test.h"

TEST(nodes_and_tensors_are_numbered) {
    static const struct build_node nodes[] = {{"Neg", "x", "a"}, {"Add", "a x", "b"}, {"Abs", "b", "y"}, {NULL}};
    struct onnx_graph graph;
    struct sy_error err;
    struct text model;
    build_chain(&model, "x", nodes, "y");
    assert_int_equal(onnx_graph_parse("m", model.data, model.length, &graph, &err), 0);
    assert_int_equal(graph.node_count, 3);
    assert_int_equal(graph.tensor_count, 4);
    assert_int_equal(graph.ir_version, 9);
    uint32_t a = onnx_tensor_find(&graph, "a", 1), x = onnx_tensor_find(&graph, "x", 1);
    assert_int_equal(graph.tensors[a].node, 0);
    assert_int_equal(graph.tensors[x].input, 0);
    assert_int_equal(graph.nodes[1].input_count, 2);
    assert_int_equal(graph.uses[graph.nodes[1].uses_at], a);
    assert_int_equal(graph.uses[graph.nodes[1].uses_at + 1], x);
    assert_true(graph.tensors[onnx_tensor_find(&graph, "y", 1)].output);
    assert_int_equal(onnx_tensor_find(&graph, "z", 1), ONNX_NONE);
    onnx_graph_free(&graph);
    text_free(&model);
}

TEST(graphs_that_contradict_themselves_are_refused) {
    static const struct {
        const char *inputs;
        struct build_node nodes[3];
        const char *outputs, *mistake;
    } cases[] = {
        {"x", {{"Neg", "z", "y"}}, "y", "m: node 0 takes 'z', which nothing before it gives"},
        {"x", {{"Neg", "b", "y"}, {"Abs", "x", "b"}}, "y", "node 0 takes 'b'"},
        {"x", {{"Neg", "x", "y"}, {"Abs", "x", "y"}}, "y", "node 1 gives 'y', which is there already"},
        {"x", {{"Neg", "x", "x"}}, "x", "node 0 gives 'x', which is there already"},
        {"x x", {{"Neg", "x", "y"}}, "y", "there are two inputs 'x'"},
        {"x", {{"Neg", "x", "y"}}, "z", "nothing gives the output 'z'"},
        {"x", {{"Neg", "x", "y"}}, "y y", "there are two outputs 'y'"},
        {"x", {{"Neg", "x", "y"}}, "", "its graph has no output"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct onnx_graph graph;
        struct sy_error err = {""};
        struct text model;
        build_chain(&model, cases[i].inputs, cases[i].nodes, cases[i].outputs);
        assert_int_equal(onnx_graph_parse("m", model.data, model.length, &graph, &err), -EINVAL);
        if (!strstr(err.text, cases[i].mistake))
            fail_msg("'%s' is not in '%s'", cases[i].mistake, err.text);
        text_free(&model);
    }
}

/* Every model that is cut off somewhere is refused, or is a shorter one; memory behind it is never read. */
TEST(cut_off_anywhere) {
    static const struct build_node nodes[] = {{"Neg", "x", "a"}, {"Add", "a x", "y"}, {NULL}};
    struct text model;
    build_chain(&model, "x", nodes, "y");
    for (size_t length = 0; length < model.length; length++) {
        struct onnx_graph graph;
        struct sy_error err;
        char *copy = malloc(length + 1); /* so that a sanitizer sees its end */
        copy = realloc(copy, length ? length : 1);
        memcpy(copy, model.data, length);
        assert_int_equal(onnx_graph_parse("m", copy, length, &graph, &err), -EINVAL);
        free(copy);
    }
    text_free(&model);
}

/* ---- weights ---- */

static struct onnx_bytes bytes_of(const struct text *text) {
    return (struct onnx_bytes){(const uint8_t *)text->data, text->length};
}

TEST(weights_are_the_same_in_every_field) {
    static const int32_t wanted[] = {-1, 5};
    struct onnx_graph graph = {.path = "m"};
    for (int form = 0; form < 3; form++) {
        struct onnx_weights weights;
        struct sy_error err;
        struct text t, packed;
        text_init(&t, NULL, 0);
        text_init(&packed, NULL, 0);
        build_number(&t, TENSOR_DIMS, 2);
        build_number(&t, TENSOR_DATA_TYPE, 6); /* INT32 */
        for (int i = 0; i < 2; i++) {
            if (form == 0)
                build_number(&t, TENSOR_INT32S, (uint64_t)(int64_t)wanted[i]);
            protobuf_put_varint(&packed, (uint64_t)(int64_t)wanted[i]);
        }
        if (form == 1)
            protobuf_put_bytes(&t, TENSOR_INT32S, packed.data, packed.length);
        else if (form == 2)
            protobuf_put_bytes(&t, TENSOR_RAW, wanted, sizeof(wanted));
        assert_int_equal(onnx_weights_read(&graph, bytes_of(&t), &weights, &err), 0);
        assert_int_equal(weights.type, 6);
        assert_int_equal(weights.dim_count, 1);
        assert_int_equal(weights.dims[0], 2);
        assert_int_equal(weights.bytes, sizeof(wanted));
        assert_memory_equal(weights.data, wanted, sizeof(wanted));
        onnx_weights_free(&weights);
        text_free(&t);
        text_free(&packed);
    }
}

static void external_put(struct text *tensor, const char *key, const char *value) {
    struct text entry;
    text_init(&entry, NULL, 0);
    protobuf_put_bytes(&entry, ENTRY_KEY, key, strlen(key));
    protobuf_put_bytes(&entry, ENTRY_VALUE, value, strlen(value));
    build_message(tensor, TENSOR_EXTERNAL, &entry);
}

static void file_put(const char *path, const char *text) {
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    assert_true(fputs(text, to) >= 0);
    fclose(to);
}

TEST(weights_in_a_file_of_their_own) {
    static const struct {
        const char *location, *offset, *length, *mistake;
    } cases[] = {
        {"w.bin", "2", "3", NULL},
        {"w.bin", NULL, NULL, NULL},
        {"w.bin", "7", "4", "their file is shorter than the model says"},
        {"w.bin", "11", NULL, "their file is shorter"},
        {"w.bin", "-1", NULL, "its description is wrong"},
        {"w.bin", "18446744073709551616", NULL, "its description is wrong"},
        {"none.bin", "0", "1", "none.bin cannot be read"},
        {"../w.bin", "0", "1", "outside the model's folder"},
        {"a/../../w.bin", "0", "1", "outside the model's folder"},
        {"/etc/hostname", "0", "1", "outside the model's folder"},
        {"", "0", "1", "outside the model's folder"},
    };
    char folder[64], path[128], file[128];
    temp_folder(folder);
    snprintf(path, sizeof(path), "%s/model.onnx", folder);
    snprintf(file, sizeof(file), "%s/w.bin", folder);
    file_put(file, "0123456789");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static const struct build_node nodes[] = {{"Neg", "x", "y"}, {NULL}};
        struct onnx_graph graph;
        struct onnx_weights weights;
        struct sy_error err = {""};
        struct text t, model;
        text_init(&t, NULL, 0);
        build_number(&t, TENSOR_DATA_TYPE, 2);
        build_number(&t, TENSOR_LOCATION, LOCATION_EXTERNAL);
        external_put(&t, "location", cases[i].location);
        if (cases[i].offset)
            external_put(&t, "offset", cases[i].offset);
        if (cases[i].length)
            external_put(&t, "length", cases[i].length);
        build_chain(&model, "x", nodes, "y");
        assert_int_equal(onnx_graph_parse(path, model.data, model.length, &graph, &err), 0);
        int rc = onnx_weights_read(&graph, bytes_of(&t), &weights, &err);
        if (rc == 0) { /* what is done to the file later changes nothing */
            assert_int_equal(truncate(file, 0), 0);
            file_put(file, "abcdefghij");
        }
        if (cases[i].mistake) {
            assert_true(rc < 0);
            if (!strstr(err.text, cases[i].mistake))
                fail_msg("'%s' is not in '%s'", cases[i].mistake, err.text);
        } else {
            assert_int_equal(rc, 0);
            assert_true(weights.external);
            assert_int_equal(weights.bytes, cases[i].length ? 3 : 10);
            assert_memory_equal(weights.data, cases[i].length ? "234" : "0123456789", weights.bytes);
            onnx_weights_free(&weights);
            file_put(file, "0123456789");
        }
        onnx_graph_free(&graph);
        text_free(&model);
        text_free(&t);
    }
    unlink(file);
    rmdir(folder);
}
