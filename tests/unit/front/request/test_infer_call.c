/* test_infer_call.c - which shapes are taken, and which requests may share a batch. */
#include <stdlib.h>
#include <string.h>

#include "core/util/container.h"
#include "front/request/infer_call.h"
#include "specs.h"
#include "unit/test.h"

/* Two inputs of any length, and one of any width and height. */
static const struct served_model pairs = {
    .name = "pairs",
    .batch_max = 8,
    .item_elements = 2,
    .signature = {.input_count = 2,
                  .batched = true,
                  .variable_shapes = true,
                  .inputs = SPECS({.name = "a", .type = DATATYPE_UINT8, .dim_count = 2, .dims = {-1, -1}},
                                  {.name = "b", .type = DATATYPE_UINT8, .dim_count = 2, .dims = {-1, -1}})},
};
static const struct served_model planes = {
    .name = "planes",
    .batch_max = 8,
    .item_elements = 1,
    .signature = {.input_count = 1,
                  .batched = true,
                  .variable_shapes = true,
                  .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 3, .dims = {-1, -1, -1}})},
};

/* The key of a call with these shapes; with `secret` instead of the model's own. */
static uint64_t key_of(const struct served_model *model, const struct siphash_key *secret, const int64_t (*dims)[3]) {
    struct served_model *own = malloc(sizeof(*own));
    struct infer_call *call = malloc(sizeof(*call));
    struct sy_error err;
    memcpy(own, model, sizeof(*own));
    if (secret)
        own->shape_secret = *secret;
    assert_int_equal(infer_call_begin(call, own, (struct infer_memory){0}, NULL), 0);
    for (uint32_t i = 0; i < own->signature.input_count; i++) {
        const struct tensor_spec *spec = &own->signature.inputs[i];
        uint32_t index;
        assert_int_equal(infer_call_input(call, own, spec->name, strlen(spec->name), &index, &err), 0);
        if (infer_call_shape(call, own, index, spec->type, dims[i], spec->dim_count, &err))
            fail_msg("%s", err.text);
    }
    assert_int_equal(infer_call_finish(call, own, &err), 0);
    uint64_t key = call->shape_key;
    free(call);
    free(own);
    return key;
}

/* Those of the hash that there was before, FNV-1a: a stranger could compute them. */
TEST(test_shapes_that_collided_have_keys_of_their_own) {
    static const int64_t one[][3] = {{1, 2214860636}, {1, 1}}, other[][3] = {{1, 319035231}, {1, 2499805908}};
    assert_true(key_of(&pairs, NULL, one) != key_of(&pairs, NULL, other));
    static const int64_t few[][3] = {{1, 7}, {1, 1}}, more[][3] = {{5, 7}, {5, 1}}; /* items do not matter */
    assert_true(key_of(&pairs, NULL, few) == key_of(&pairs, NULL, more));
}

TEST(test_keys_are_the_servers_secret) {
    static const struct siphash_key secrets[] = {{{1, 2}}, {{1, 3}}};
    static const int64_t dims[][3] = {{1, 224, 224}};
    assert_true(key_of(&planes, &secrets[0], dims) == key_of(&planes, &secrets[0], dims));
    assert_true(key_of(&planes, &secrets[0], dims) != key_of(&planes, &secrets[1], dims));
}

TEST(test_a_dimension_beside_a_zero_is_bounded_too) {
    static const struct {
        int64_t dims[3];
        bool fits;
    } cases[] = {
        {{1, 0, 2216615441821888}, false}, /* its key was that of [1,224,224] */
        {{1, 2216615441821888, 0}, false},
        {{1, 0, (int64_t)1 << 30}, true}, /* FP32: 4 GiB, as without the zero */
        {{1, 0, ((int64_t)1 << 30) + 1}, false},
        {{2, 0, (int64_t)1 << 30}, false},
        {{1, 0, 0}, true},
        {{1, 0, INT64_MAX}, false},
        {{1, (int64_t)1 << 32, (int64_t)1 << 32}, false}, /* 2^64 */
        {{1, (int64_t)1 << 62, 4}, false},
        {{1, INT64_MAX, INT64_MAX}, false},
        {{1, 0, -1}, false},
        {{1, INT64_MIN, 0}, false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct infer_call *call = malloc(sizeof(*call));
        struct sy_error err;
        uint32_t index;
        assert_int_equal(infer_call_begin(call, &planes, (struct infer_memory){0}, NULL), 0);
        assert_int_equal(infer_call_input(call, &planes, "x", 1, &index, &err), 0);
        int status = infer_call_shape(call, &planes, index, DATATYPE_FP32, cases[i].dims, 3, &err);
        if (status != (cases[i].fits ? 0 : 400))
            fail_msg("case %zu: %d", i, status);
        if (status)
            assert_non_null(strstr(err.text, "unexpected shape for input 'x' for model 'planes'. Expected [-1,-1,-1]"));
        free(call);
    }
}
