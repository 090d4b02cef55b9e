/* test_onnxruntime_cuda.c - which models' runs can be recorded. Recording them needs a GPU. */
#include "unit/test.h"

#ifdef SYMPHONY_HAVE_ONNXRUNTIME

#include "back/engine/onnxruntime_cuda.h"

static struct signature images(void) {
    static struct tensor_spec x, y;
    x = (struct tensor_spec){.name = "x", .type = DATATYPE_FP32, .dim_count = 4, .dims = {-1, 3, 224, 224}};
    y = (struct tensor_spec){.name = "y", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 1000}};
    return (struct signature){.inputs = &x, .outputs = &y, .input_count = 1, .output_count = 1, .batched = true};
}

TEST(models_of_fixed_shapes_suit) {
    struct signature s = images();
    assert_true(cuda_graphs_suit(&s));
    s.batched = false; /* then every dimension counts */
    assert_false(cuda_graphs_suit(&s));
    s.inputs[0].dims[0] = s.outputs[0].dims[0] = 1;
    assert_true(cuda_graphs_suit(&s));
}

TEST(models_whose_shapes_or_inputs_vary_do_not) {
    struct signature s = images();
    s.inputs[0].dims[3] = -1;
    assert_false(cuda_graphs_suit(&s));
    s = images();
    s.outputs[0].dims[1] = -1;
    assert_false(cuda_graphs_suit(&s));
    s = images();
    s.variable_shapes = true;
    assert_false(cuda_graphs_suit(&s));
    s = images();
    s.inputs_optional = 1;
    assert_false(cuda_graphs_suit(&s));
}

TEST(neither_strings_nor_empty_tensors_do) {
    struct signature s = images();
    s.outputs[0].type = DATATYPE_BYTES;
    assert_false(cuda_graphs_suit(&s));
    s = images();
    s.inputs[0].dims[1] = 0;
    assert_false(cuda_graphs_suit(&s));
}

#endif
