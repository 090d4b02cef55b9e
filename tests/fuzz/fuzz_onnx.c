/* fuzz_onnx.c - two ONNX models from anywhere: what is common to them, and the parts of what can be cut. A part that is
 * written can be read, and has the nodes that the cut says. The first two bytes are the length of the first model. */
/* runs: 50000 */
#include <stdint.h>

#include "core/util/assert.h"
#include "model/prefix/extract.h"
#include "model/prefix/groups.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each input of the fuzzer's own folder, so that no file of weights is found. */
#define PATH "/nonexistent/model.onnx"

static void prefix_see(struct cut_model *model, const struct cut *cut) {
    struct extract_end ends[CUT_TENSORS_MAX];
    uint32_t tensors[CUT_TENSORS_MAX];
    struct cut_model again;
    struct sy_error err;
    struct text text;
    cut_tensors(model, cut, tensors);
    for (uint32_t i = 0; i < cut->tensor_count; i++) {
        CHECK_LT(tensors[i], model->graph.tensor_count);
        ends[i] = (struct extract_end){tensors[i], NULL};
    }
    struct extract_part part = {.name = "p", .to = ends, .to_count = cut->tensor_count};
    text_init(&text, NULL, 0);
    if (extract_write(&model->graph, &part, &text, &err) == 0) {
        CHECK_EQ(cut_model_parse(PATH, text.data, text.length, &again, &err), 0);
        CHECK_EQ(again.node_count, cut->node_count);
        cut_model_free(&again);
    }
    text_free(&text);
}

static void both_see(struct cut_model *a, struct cut_model *b) {
    const struct cut_model *const both[] = {a, b};
    static const char *const names[] = {"a", "b"};
    struct group_rules rules = {.tensors_max = 2, .share = 0.1};
    struct cut cuts[CUTS_MAX];
    struct sy_error err;
    uint32_t count;
    char reason[256];
    CHECK_EQ(cuts_find(both, 2, CUT_TENSORS_MAX, cuts, &count, &err), 0);
    CHECK_LE(count, CUTS_MAX);
    for (uint32_t c = 0; c < count; c++) {
        CHECK(cuts[c].tensor_count >= 1 && cuts[c].tensor_count <= CUT_TENSORS_MAX);
        CHECK(cuts[c].node_count >= 1 && cuts[c].node_count <= a->node_count && cuts[c].node_count <= b->node_count);
        prefix_see(a, &cuts[c]);
    }
    group_reason(both, names, 2, &rules, 0, reason, sizeof(reason));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cut_model a, b;
    struct sy_error err;
    if (size < 2)
        return 0;
    size_t first = (size_t)(data[0] | data[1] << 8), rest = size - 2;
    if (first > rest)
        first = rest;
    if (cut_model_parse(PATH, data + 2, first, &a, &err))
        return 0;
    if (cut_model_parse(PATH, data + 2 + first, rest - first, &b, &err) == 0) {
        both_see(&a, &b);
        cut_model_free(&b);
    }
    cut_model_free(&a);
    return 0;
}
