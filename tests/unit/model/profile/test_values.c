/* test_values.c - values of inputs: what is given is repeated, and what each step fills otherwise. */
#include "unit/test.h"

#include <stdlib.h>

#include "core/data/floats.h"
#include "core/util/container.h"
#include "core/util/rng.h"
#include "model/profile/measure.h"
#include "specs.h"

/* x: large floats; size: small floats; ids: many integers. */
static const struct signature signature = {
    .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 20}},
                    {.name = "size", .type = DATATYPE_FP16, .dim_count = 2, .dims = {-1, 2}},
                    {.name = "ids", .type = DATATYPE_INT32, .dim_count = 2, .dims = {-1, 40}}),
    .input_count = 3,
    .batched = true,
};

static void fill(const struct input_values *values, struct tensor_view *inputs) {
    int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX] = {{1, 20}, {1, 2}, {1, 40}};
    assert_int_equal(measure_inputs(&signature, dims, 2, values, 1, inputs), 0);
}

TEST(a_step_fills_small_inputs_with_its_number) {
    static const uint16_t halves[] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800}; /* 1 to 8 */
    for (uint32_t step = 2; step < VALUES_UNGIVEN; step++) {
        struct input_values values = {.step = step};
        struct tensor_view inputs[TENSORS_MAX];
        assert_true(values_step_differs(&values, &signature, NULL, step));
        fill(&values, inputs);
        for (uint32_t i = 0; i < 40; i++)
            assert_true(((float *)inputs[0].data)[i] >= 0.5F && ((float *)inputs[0].data)[i] < 1);
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(((uint16_t *)inputs[1].data)[i], halves[step - 2]);
        for (uint32_t i = 0; i < 80; i++)
            assert_int_equal(((int32_t *)inputs[2].data)[i], 1);
        free(inputs[0].data);
    }
}

TEST(what_is_given_is_repeated_and_large_floats_of_further_items_differ) {
    float x[20];
    int32_t ids[] = {7, 8};
    struct input_values values = {.step = 0};
    struct tensor_view inputs[TENSORS_MAX];
    for (uint32_t i = 0; i < ARRAY_COUNT(x); i++)
        x[i] = (float)i;
    values.given[0] = (struct tensor_view){.data = x, .bytes = sizeof(x)};
    values.given[2] = (struct tensor_view){.data = ids, .bytes = sizeof(ids)};
    fill(&values, inputs);
    const float *filled = inputs[0].data;
    assert_memory_equal(filled, x, sizeof(x));
    float factor = filled[39] / 19;
    assert_true(factor >= 0.5F && factor < 1);
    for (uint32_t i = 0; i < 80; i++)
        assert_int_equal(((int32_t *)inputs[2].data)[i], 7 + i % 2);
    free(inputs[0].data);
}

TEST(large_inputs_of_16_bits_differ_too) {
    static const enum datatype types[] = {DATATYPE_FP16, DATATYPE_BF16};
    for (unsigned t = 0; t < ARRAY_COUNT(types); t++) {
        uint16_t given[20], filled[40];
        struct input_values values = {.given[0] = {.data = given, .bytes = sizeof(given)}};
        struct rng rng;
        rng_seed(&rng, 1);
        for (unsigned i = 0; i < ARRAY_COUNT(given); i++)
            float_put(types[t], i, &given[i]);
        values_fill(&values, 0, types[t], 40, 2, &rng, filled);
        assert_memory_equal(filled, given, sizeof(given));
        double last = float_get(types[t], &filled[39]);
        assert_true(last >= 9 && last < 19);
    }
}

TEST(steps_that_change_nothing_are_left_out) {
    struct input_values values = {.step = 0};
    static struct signature_room room;
    struct signature large = *signature_room_fill(&room, &signature);
    large.inputs[1].dims[1] = 17;
    assert_true(values_step_differs(&values, &large, NULL, 0));
    assert_false(values_step_differs(&values, &large, NULL, 1)); /* no zero_data */
    assert_true(values_step_differs(&values, &large, NULL, 2));  /* ids */
    assert_false(values_step_differs(&values, &large, NULL, 3));
    large.input_count = 1;
    assert_false(values_step_differs(&values, &large, NULL, 2));
    values.zeros = 1;
    assert_true(values_step_differs(&values, &large, NULL, 1));
    large.inputs[0].dims[1] = -1; /* small, for all that is known without an item */
    assert_true(values_step_differs(&values, &large, NULL, 3));
    int64_t dims[TENSORS_MAX][TENSOR_DIMS_MAX] = {{1, 17}};
    assert_false(values_step_differs(&values, &large, dims, 3));
    dims[0][1] = 16;
    assert_true(values_step_differs(&values, &large, dims, 3));
}
