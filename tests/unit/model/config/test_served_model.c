/* test_served_model.c - models completed by signatures that a letter in their file stands for. */
#include "unit/test.h"

#include <errno.h>

#include "core/util/container.h"
#include "specs.h"
#include "unit/model/repository/world.h"

/* Batched; 'u': without a batch dimension; 'v': with a variable shape. */
static int apply(struct served_model *model, char kind, struct sy_error *err) {
    struct signature signature = {
        .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 3, .dims = {-1, 3, 5}}),
        .outputs = SPECS({.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 10}}),
        .input_count = 1,
        .output_count = 1,
        .batched = true};
    if (kind == 'u') {
        signature.batched = false;
        signature.inputs[0].dims[0] = signature.outputs[0].dims[0] = 1;
    } else if (kind == 'v') {
        signature.inputs[0].dims[2] = -1;
        signature.variable_shapes = true;
    }
    return served_model_apply(model, &signature, err);
}

static int complete(struct world *w, const char *name) {
    struct served_model *model = find(w, name);
    FILE *file = fopen(model->path, "r");
    assert_non_null(file);
    char kind = (char)fgetc(file);
    fclose(file);
    return apply(model, kind, &w->err);
}

TEST_WITH(completion_fills_what_is_left_out, world_make, world_remove) {
    struct world *w = *state;
    put(w, "flat.onnx", "b");
    put(w, "single.onnx", "u");
    put(w, "open.onnx", "v");
    put(w, "triton/1/model.onnx", "b");
    put(w, "triton/config.pbtxt", "max_batch_size: 4");
    put(w, "both/1/model.onnx", "b");
    put(w, "both/config.pbtxt", "max_batch_size: 4");
    put(w, "both/symphony.yaml", "max_batch: 7\nslo_ms: 20\nprofile: p.json");
    put(w, "both/p.json", "{}");
    put(w, "huge/1/model.onnx", "b");
    put(w, "huge/config.pbtxt", "max_batch_size: 100000");
    put(w, "off/1/model.onnx", "b");
    put(w, "off/config.pbtxt", "max_batch_size: 0");
    put(w, "shaped/1/model.onnx", "v");
    put(w, "shaped/symphony.yaml", "shapes: {x: [3, 20]}");
    assert_int_equal(scan(w, ""), 0);
    static const struct {
        const char *name;
        uint32_t batch_max;
        int64_t elements, dims[3];
        bool batched, variable;
    } cases[] = {
        {"flat", 64, 15, {1, 3, 5}, true, false}, {"single", 1, 15, {1, 3, 5}, false, false},
        {"open", 64, 0, {1, 3, 0}, true, true},   {"triton", 4, 15, {1, 3, 5}, true, false},
        {"both", 7, 15, {1, 3, 5}, true, false},  {"huge", 1024, 15, {1, 3, 5}, true, false},
        {"off", 1, 0, {0, 3, 5}, false, true},    {"shaped", 64, 60, {1, 3, 20}, true, true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(complete(w, cases[i].name), 0);
        const struct served_model *model = find(w, cases[i].name);
        assert_int_equal(model->batch_max, cases[i].batch_max);
        assert_int_equal(model->item_elements, cases[i].elements);
        assert_memory_equal(model->reference_dims[0], cases[i].dims, sizeof(cases[i].dims));
        assert_int_equal(model->signature.batched, cases[i].batched);
        assert_int_equal(model->signature.variable_shapes, cases[i].variable);
    }
    assert_int_equal(find(w, "both")->slo_ns, 20000000);
    assert_text(w, find(w, "both")->profile_path, "@/both/p.json");
}

TEST_WITH(completion_refuses_what_does_not_fit, world_make, world_remove) {
    struct world *w = *state;
    static const struct {
        const char *name, *kind, *config, *yaml, *want;
    } cases[] = {
        {"batch", "u", "max_batch_size: 4", "",
         "@/batch/config.pbtxt:1:1: max_batch_size is 4, but the model's inputs and outputs have no common batch "
         "dimension; without one it must be 0"},
        {"yaml", "u", "", "max_batch: 4",
         "@/yaml/symphony.yaml: max_batch is 4, but the model has no batch dimension, so that its batches are of 1"},
        {"dims", "b", "max_batch_size: 4 input { name: 'x' dims: [3, 6] }", "",
         "@/dims/config.pbtxt:1:19: input 'x': dims are [3,6], but the model's are [3,5] behind the batch dimension"},
        {"shape", "b", "", "shapes: {x: [3, 6]}",
         "@/shape/symphony.yaml: shapes.x is [3,6], but the model's input is [3,5] behind the batch dimension"},
        {"input", "b", "", "shapes: {z: [3]}", "@/input/symphony.yaml: shapes: the model has no input 'z'"},
    };
    char path[256];
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        snprintf(path, sizeof(path), "%s/1/model.onnx", cases[i].name);
        put(w, path, cases[i].kind);
        snprintf(path, sizeof(path), "%s/config.pbtxt", cases[i].name);
        put(w, path, cases[i].config);
        snprintf(path, sizeof(path), "%s/symphony.yaml", cases[i].name);
        put(w, path, cases[i].yaml);
    }
    assert_int_equal(scan(w, ""), 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(complete(w, cases[i].name), -EINVAL);
        assert_text(w, w->err.text, cases[i].want);
        assert_int_equal(find(w, cases[i].name)->signature.input_count, 0); /* as it was */
    }
}

TEST(each_name_and_version_has_a_key_of_its_own) {
    static struct served_model a = {.name = "m", .version = 1}, b = {.name = "m", .version = 1};
    b.batch_max = 7;
    assert_true(served_model_key(&a) == served_model_key(&b));
    assert_true(served_model_key(&a) != 0);
    b.version = 2;
    assert_true(served_model_key(&a) != served_model_key(&b));
    b = (struct served_model){.name = "mm", .version = 1};
    assert_true(served_model_key(&a) != served_model_key(&b));
}
