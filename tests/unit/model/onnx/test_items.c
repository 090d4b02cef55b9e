/* test_items.c - whether items stay apart, by small graphs; tests/e2e/test_batching.py draws larger ones. */
#include "model/onnx/items.h"

#include <string.h>

#include "core/util/container.h"
#include "unit/model/onnx/onnx_build.h"
#include "unit/test.h"

/* An input or output of floats: its dimensions as words, numbers or names; "?" is one without a name. */
static void value_build(struct text *graph, uint32_t number, const char *name, const char *dims) {
    struct text value, type, tensor, shape, dim;
    text_init(&shape, NULL, 0);
    for (const char *at = dims; *at;) {
        size_t length = strcspn(at, " ");
        text_init(&dim, NULL, 0);
        if (*at >= '0' && *at <= '9')
            build_number(&dim, DIM_VALUE, (uint64_t)(*at - '0'));
        else if (*at != '?')
            protobuf_put_bytes(&dim, DIM_PARAM, at, length);
        build_message(&shape, SHAPE_DIM, &dim);
        at += length + (at[length] == ' ');
    }
    text_init(&tensor, NULL, 0);
    build_number(&tensor, TENSOR_TYPE_ELEM, 1);
    build_message(&tensor, TENSOR_TYPE_SHAPE, &shape);
    text_init(&type, NULL, 0);
    build_message(&type, TYPE_TENSOR, &tensor);
    text_init(&value, NULL, 0);
    protobuf_put_bytes(&value, VALUE_NAME, name, strlen(name));
    build_message(&value, VALUE_TYPE, &type);
    build_message(graph, number, &value);
}

static const struct graph {
    const char *x, *z, *y; /* dimensions; z "": there is no such input */
    struct build_node nodes[4];
    enum items_verdict verdict;
    const char *why;
} graphs[] = {
    {"N 4", "", "N 4", {{"Relu", "x", "y"}}, ITEMS_APART, ""},
    {"N 4", "", "N 4", {{"Softmax", "x", "y"}}, ITEMS_APART, ""},
    {"N 4", "", "M 4", {{"Relu", "x", "y"}}, ITEMS_APART, ""}, /* one row an item, by whatever name */
    {"N 4", "N 4", "N 4", {{"Add", "x z", "y"}}, ITEMS_APART, ""},
    {"unk__1 4", "unk__2 4", "unk__3 4", {{"Add", "x z", "y"}}, ITEMS_APART, ""},
    {"N 4", "", "N 4", {{"Transpose", "x", "t"}, {"Transpose", "t", "y"}}, ITEMS_APART, ""},
    {"N 4", "", "N 4", {{"Shape", "x", "s"}, {"Reshape", "x s", "y"}}, ITEMS_APART, ""},
    {"N 4", "", "N 4", {{"Add", "x seven", "y"}, {"NonZero", "x", "unused"}}, ITEMS_APART, ""},
    {"N 4",
     "M 4",
     "N 4",
     {{"Add", "x z", "y"}},
     ITEMS_UNKNOWN,
     "its inputs have first dimensions of different names, N and M"},
    {"2 4", "", "N 4", {{"Relu", "x", "y"}}, ITEMS_UNKNOWN, "input 'x' has no first dimension of any size"},
    {"N 4",
     "",
     "N 4",
     {{"Mystery", "x", "y"}},
     ITEMS_UNKNOWN,
     "Mystery, which gives 'y', is no operator whose effect on items is known"},
    {"N 4",
     "",
     "N 4",
     {{"Mystery", "seven", "t"}, {"Add", "x t", "y"}},
     ITEMS_UNKNOWN,
     "Add, which gives 'y', takes a tensor whose dimensions are not known"},
    {"N", "", "T", {{"Unique", "x", "y"}}, ITEMS_JOINED, "Unique, which gives 'y', looks at all items together"},
    {"N 4",
     "",
     "N 4",
     {{"ReduceSum", "x", "t"}, {"Add", "x t", "y"}},
     ITEMS_JOINED,
     "ReduceSum, which gives 't', reduces over the items"},
    {"N 4",
     "",
     "N 4",
     {{"Dropout", "x", "t y"}},
     ITEMS_JOINED,
     "Dropout, which gives 't', has a mask or means that are given on"},
    {"N 4",
     "",
     "N 4",
     {{"ArgMax", "x", "t"}, {"Relu", "t", "y"}},
     ITEMS_JOINED,
     "ArgMax, which gives 't', reduces over the items"},
    {"N 4",
     "",
     "N N",
     {{"Transpose", "x", "t"}, {"MatMul", "x t", "y"}},
     ITEMS_JOINED,
     "MatMul, which gives 'y', takes tensors whose items lie along different dimensions"},
    {"N 4",
     "",
     "4 4",
     {{"Transpose", "x", "t"}, {"MatMul", "t x", "y"}},
     ITEMS_JOINED,
     "MatMul, which gives 'y', sums products over the items"},
    {"N 4",
     "",
     "4 N",
     {{"Transpose", "x", "y"}},
     ITEMS_JOINED,
     "the first dimension of output 'y' does not count the items"},
    {"N 4",
     "",
     "N 4",
     {{"Size", "x", "t"}, {"Mul", "x t", "y"}},
     ITEMS_JOINED,
     "Mul, which gives 'y', computes with how many items there are"},
    {"N 4",
     "",
     "7",
     {{"Reshape", "x seven", "y"}},
     ITEMS_JOINED,
     "Reshape, which gives 'y', puts all items into a fixed shape"},
    {"N 4",
     "",
     "N",
     {{"Squeeze", "x", "y"}},
     ITEMS_JOINED,
     "Squeeze, which gives 'y', drops the items' dimension when there is one"},
    {"N 4",
     "",
     "N 4",
     {{"Gather", "x seven", "t"}, {"Add", "x t", "y"}},
     ITEMS_JOINED,
     "Gather, which gives 't', takes some of the items"},
    {"N 4",
     "",
     "N 4",
     {{"DynamicQuantizeLinear", "x", "q s n"}, {"DequantizeLinear", "q s n", "y"}},
     ITEMS_JOINED,
     "DynamicQuantizeLinear, which gives 'q', quantises by the range of the whole batch (dynamic quantisation)"},
};

TEST(what_joins_items_is_found) {
    for (size_t i = 0; i < ARRAY_COUNT(graphs); i++) {
        struct text graph, model;
        struct onnx_graph read;
        struct sy_error err, why = {""};
        text_init(&graph, NULL, 0);
        for (const struct build_node *node = graphs[i].nodes; node->op; node++)
            build_node(&graph, node);
        build_weight(&graph, "seven", 7, true);
        value_build(&graph, GRAPH_INPUT, "x", graphs[i].x);
        if (*graphs[i].z)
            value_build(&graph, GRAPH_INPUT, "z", graphs[i].z);
        value_build(&graph, GRAPH_OUTPUT, "y", graphs[i].y);
        build_model(&model, &graph);
        assert_int_equal(onnx_graph_parse("/nonexistent/m.onnx", model.data, model.length, &read, &err), 0);
        enum items_verdict verdict = items_walk(&read, &why);
        if (verdict != graphs[i].verdict || strcmp(why.text, graphs[i].why) != 0)
            fail_msg("graph %zu: %d, \"%s\"", i, verdict, why.text);
        onnx_graph_free(&read);
        text_free(&model);
    }
}
