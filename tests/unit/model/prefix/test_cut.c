/* test_cut.c - what is common to models, and where they are cut; drawn models against a search through all cuts. */
#include "model/prefix/cut.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/util/rng.h"
#include "histories.h"
#include "model/prefix/extract.h"
#include "model/prefix/groups.h"
#include "unit/model/onnx/onnx_build.h"
#include "unit/test.h"

static void model_of(struct text *bytes, struct cut_model *model) {
    struct sy_error err = {""};
    if (cut_model_parse("m", bytes->data, bytes->length, model, &err))
        fail_msg("%s", err.text);
}

/* Two chains that differ by their last node. */
TEST(chains_share_all_but_the_end) {
    static const struct build_node first[] = {
        {"Neg", "x", "a"}, {"Abs", "a", "b"}, {"Exp", "b", "y"}, {"Sin", "a", "never"}, {NULL}};
    static const struct build_node second[] = {{"Neg", "in", "p"}, {"Abs", "p", "q"}, {"Log", "q", "out"}, {NULL}};
    struct text bytes[2];
    struct cut_model models[2];
    struct cut cuts[CUTS_MAX];
    struct sy_error err;
    uint32_t count, tensors[CUT_TENSORS_MAX];
    build_chain(&bytes[0], "x", first, "y");
    build_chain(&bytes[1], "in", second, "out");
    for (int m = 0; m < 2; m++)
        model_of(&bytes[m], &models[m]);
    assert_int_equal(models[0].node_count, 3); /* what nobody takes is no part of it */
    assert_int_equal(cut_common(&models[0], &models[1]), 2);
    const struct cut_model *const both[] = {&models[0], &models[1]};
    assert_int_equal(cuts_find(both, 2, 4, cuts, &count, &err), 0);
    assert_int_equal(count, 2); /* behind Abs, and behind Neg */
    assert_int_equal(cuts[0].node_count, 2);
    assert_int_equal(cuts[0].tensor_count, 1);
    cut_tensors(&models[1], &cuts[0], tensors);
    assert_int_equal(tensors[0], onnx_tensor_find(&models[1].graph, "q", 1));
    for (int m = 0; m < 2; m++) {
        cut_model_free(&models[m]);
        text_free(&bytes[m]);
    }
}

TEST(weights_tell_nodes_apart) {
    static const struct {
        uint64_t value;
        bool raw;
        uint32_t common;
    } cases[] = {{5, true, 1}, {5, false, 1}, {6, true, 0}, {6, false, 0}};
    struct text bytes[5];
    struct cut_model models[5];
    for (size_t i = 0; i < 5; i++) {
        static const struct build_node node = {"Add", "x w", "y"};
        struct text graph;
        text_init(&graph, NULL, 0);
        build_values(&graph, GRAPH_INPUT, "x");
        build_weight(&graph, "w", i ? cases[i - 1].value : 5, i ? cases[i - 1].raw : true);
        build_node(&graph, &node);
        build_values(&graph, GRAPH_OUTPUT, "y");
        build_model(&bytes[i], &graph);
        model_of(&bytes[i], &models[i]);
        assert_int_equal(models[i].weights_bytes, 8);
        if (i)
            assert_int_equal(cut_common(&models[0], &models[i]), cases[i - 1].common);
    }
    for (size_t i = 0; i < 5; i++) {
        cut_model_free(&models[i]);
        text_free(&bytes[i]);
    }
}

/* ---- drawn models ---- */

#define NODES 9

/* What node i of a model takes: two tensors of lower numbers; 0 is the input, i + 1 node i's output. */
struct drawn {
    uint32_t takes[NODES][2];
    bool output[NODES];
};

/* The first `same` nodes are `like`'s; what others do not take is an output. */
static void draw(struct rng *rng, const struct drawn *like, uint32_t same, struct drawn *drawn) {
    bool taken[NODES + 1] = {false};
    for (uint32_t i = 0; i < NODES; i++)
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t from = i > 3 && rng_below(rng, 3) ? i - 2 : 0; /* mostly from near by, so that there are necks */
            drawn->takes[i][k] = i < same ? like->takes[i][k] : from + (uint32_t)rng_below(rng, i - from + 1);
            taken[drawn->takes[i][k]] = true;
        }
    for (uint32_t i = 0; i < NODES; i++)
        drawn->output[i] = !taken[i + 1];
}

/* Node i is an operator of its own, so that the same numbers are the same nodes; behind `same` the model's. */
static void drawn_write(const struct drawn *drawn, uint32_t same, const char *of, struct text *bytes) {
    struct text graph;
    text_init(&graph, NULL, 0);
    build_values(&graph, GRAPH_INPUT, "t0");
    for (uint32_t i = 0; i < NODES; i++) {
        char op[32], inputs[32], output[32];
        snprintf(op, sizeof(op), "Op%u%s", i, i < same ? "" : of);
        snprintf(inputs, sizeof(inputs), "t%u t%u", drawn->takes[i][0], drawn->takes[i][1]);
        snprintf(output, sizeof(output), "t%u", i + 1);
        build_node(&graph, &(struct build_node){op, inputs, output});
        if (drawn->output[i])
            build_values(&graph, GRAPH_OUTPUT, output);
    }
    build_model(bytes, &graph);
}

/* The most nodes of a prefix that is closed and has at most `most` tensors at its end; 0: there is none. */
static uint32_t best_of_all(const struct drawn *drawn, uint32_t same, uint32_t most) {
    uint32_t best = 0;
    for (uint32_t set = 1; set < 1u << same; set++) {
        bool closed = true;
        uint32_t ends = 0;
        for (uint32_t i = 0; i < same; i++) {
            if (!(set >> i & 1))
                continue;
            for (uint32_t k = 0; k < 2; k++)
                closed &= drawn[0].takes[i][k] == 0 || (set >> (drawn[0].takes[i][k] - 1) & 1);
            bool open = drawn[0].output[i] || drawn[1].output[i];
            for (uint32_t m = 0; m < 2; m++)
                for (uint32_t j = 0; j < NODES; j++)
                    for (uint32_t k = 0; k < 2; k++)
                        open |= drawn[m].takes[j][k] == i + 1 && (j >= same || !(set >> j & 1));
            ends += open;
        }
        uint32_t nodes = (uint32_t)__builtin_popcount(set);
        if (closed && ends >= 1 && ends <= most && nodes > best)
            best = nodes;
    }
    return best;
}

/* The part of a model that computes a cut is a model of its own, which has the nodes that the cut says. */
static void prefix_check(struct cut_model *model, const struct cut *cut) {
    struct extract_end ends[CUT_TENSORS_MAX];
    uint32_t tensors[CUT_TENSORS_MAX];
    struct sy_error err;
    struct text text;
    cut_tensors(model, cut, tensors);
    for (uint32_t i = 0; i < cut->tensor_count; i++)
        ends[i] = (struct extract_end){tensors[i], NULL};
    struct extract_part part = {.name = "p", .to = ends, .to_count = cut->tensor_count};
    text_init(&text, NULL, 0);
    assert_int_equal(extract_write(&model->graph, &part, &text, &err), 0);
    struct cut_model again;
    model_of(&text, &again);
    assert_int_equal(again.node_count, cut->node_count);
    assert_int_equal(cut_common(model, &again), cut->node_count);
    cut_model_free(&again);
    text_free(&text);
}

/* Cuts through one tensor are always the deepest there are; through more they are never deeper than that, nor wrong. */
TEST(drawn_models_are_cut_as_deep_as_can_be) {
    struct rng rng;
    uint32_t with_neck = 0, several = 0, deepest = 0;
    rng_seed(&rng, 3);
    const uint64_t rounds = histories_count(2000);
    for (uint64_t round = 0; round < rounds; round++) {
        struct drawn drawn[2];
        struct text bytes[2];
        struct cut_model models[2];
        uint32_t same = 1 + (uint32_t)rng_below(&rng, NODES);
        draw(&rng, NULL, 0, &drawn[0]);
        draw(&rng, &drawn[0], same, &drawn[1]);
        for (int m = 0; m < 2; m++) {
            drawn_write(&drawn[m], same, m ? "b" : "a", &bytes[m]);
            model_of(&bytes[m], &models[m]);
        }
        const struct cut_model *const both[] = {&models[0], &models[1]};
        for (uint32_t most = 1; most <= 3; most++) {
            struct cut cuts[CUTS_MAX];
            struct sy_error err;
            uint32_t count, best = best_of_all(drawn, same, most);
            assert_int_equal(cuts_find(both, 2, most, cuts, &count, &err), 0);
            uint32_t found = count ? cuts[0].node_count : 0;
            if (most == 1) {
                assert_int_equal(found, best);
                with_neck += best > 0;
            }
            assert_true(found <= best);
            several += most > 1;
            deepest += most > 1 && found == best;
            for (uint32_t c = 0; c < count; c++) {
                assert_true(cuts[c].tensor_count >= 1 && cuts[c].tensor_count <= most);
                assert_true(c == 0 || cuts[c].node_count <= cuts[c - 1].node_count);
                prefix_check(&models[0], &cuts[c]);
                prefix_check(&models[1], &cuts[c]);
            }
        }
        for (int m = 0; m < 2; m++) {
            cut_model_free(&models[m]);
            text_free(&bytes[m]);
        }
    }
    assert_true(with_neck > rounds / 4);
    print_message("cuts through 2 or 3 tensors: %u of %u are the deepest\n", deepest, several);
    assert_true(deepest > several * 8 / 10);
}

TEST(groups_join_what_saves_most) {
    /* a0 and a1 share three nodes, b0 and b1 two, all four the first one; c has none of them. */
    static const struct build_node a0[] = {
        {"Neg", "x", "p"}, {"Abs", "p", "q"}, {"Exp", "q", "r"}, {"Sin", "r", "y"}, {NULL}};
    static const struct build_node a1[] = {
        {"Neg", "x", "p"}, {"Abs", "p", "q"}, {"Exp", "q", "r"}, {"Cos", "r", "y"}, {NULL}};
    static const struct build_node b0[] = {{"Neg", "x", "p"}, {"Log", "p", "q"}, {"Sin", "q", "y"}, {NULL}};
    static const struct build_node b1[] = {{"Neg", "x", "p"}, {"Log", "p", "q"}, {"Cos", "q", "y"}, {NULL}};
    static const struct build_node c[] = {{"Tan", "x", "p"}, {"Abs", "p", "y"}, {NULL}};
    static const struct build_node *const nodes[] = {b0, a0, c, a1, b1};
    static const char *const names[] = {"b0", "a0", "c", "a1", "b1"};
    struct text bytes[5];
    struct cut_model models[5];
    const struct cut_model *pointers[5];
    struct group *groups = calloc(5, sizeof(*groups));
    struct group_rules rules = {.tensors_max = 1, .share = 0.1};
    struct sy_error err;
    uint32_t count;
    for (int m = 0; m < 5; m++) {
        build_chain(&bytes[m], "x", nodes[m], "y");
        model_of(&bytes[m], &models[m]);
        pointers[m] = &models[m];
    }
    assert_int_equal(groups_find(pointers, 5, &rules, groups, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(groups[0].members[0], 0);
    assert_int_equal(groups[0].members[1], 4);
    assert_int_equal(groups[0].cuts[0].node_count, 2);
    assert_int_equal(groups[1].members[0], 1);
    assert_int_equal(groups[1].members[1], 3);
    assert_int_equal(groups[1].cuts[0].node_count, 3);
    char reason[256];
    group_reason(pointers, names, 5, &rules, 2, reason, sizeof(reason));
    assert_non_null(strstr(reason, "no other model begins with the same nodes"));
    rules.share = 0.7; /* two of three nodes are not enough any more */
    assert_int_equal(groups_find(pointers, 5, &rules, groups, &count, &err), 0);
    assert_int_equal(count, 1);
    group_reason(pointers, names, 5, &rules, 0, reason, sizeof(reason));
    assert_non_null(strstr(reason, "only 2 of its 3 nodes in common"));
    for (int m = 0; m < 5; m++) {
        cut_model_free(&models[m]);
        text_free(&bytes[m]);
    }
    free(groups);
}
