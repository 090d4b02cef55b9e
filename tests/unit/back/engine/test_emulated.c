/* test_emulated.c - runs take what the profile says and give zeros of the right shapes. */
#include "unit/test.h"

#include <errno.h>
#include <stdlib.h>

#include "core/system/clock.h"
#include "model/engine/engine.h"
#include "specs.h"

static const struct signature signature = {
    .inputs = SPECS({.name = "x", .type = DATATYPE_FP32, .dim_count = 2, .dims = {-1, 4}}),
    .outputs = SPECS({.name = "y", .type = DATATYPE_INT64, .dim_count = 3, .dims = {-1, 3, -1}},
                     {.name = "z", .type = DATATYPE_UINT8, .dim_count = 1, .dims = {-1}}),
    .input_count = 1,
    .output_count = 2,
    .batched = true,
};

struct fixture {
    struct engine *engine;
    struct engine_model *model;
    struct profile *profile;
};

static void set_up(struct fixture *f, bool busy_poll) {
    f->profile = calloc(1, sizeof(*f->profile) + 6 * sizeof(int64_t));
    f->profile->batch_max = 4;
    for (int b = 1; b <= 5; b++)
        f->profile->latency_ns[b] = (1 + b) * NS_PER_MS;
    struct engine_options options = {.busy_poll = busy_poll};
    struct engine_model_source source = {.name = "m", .signature = &signature, .profile = f->profile, .batch_max = 4};
    assert_int_equal(engine_emulated.open(&f->engine, &options, NULL), 0);
    assert_int_equal(engine_emulated.load(f->engine, &source, &f->model, NULL), 0);
}

static void tear_down(struct fixture *f) {
    engine_emulated.unload(f->model);
    engine_emulated.close(f->engine);
    free(f->profile);
}

TEST(a_run_lasts_as_long_as_the_profile_says) {
    for (int busy_poll = 0; busy_poll < 2; busy_poll++) {
        struct fixture f;
        set_up(&f, busy_poll);
        f.profile->latency_ns[4] = NS_PER_S; /* corrections of the table do not reach the emulated truth */
        /* Never less; more only as long as the machine is busy. Or the test's time is over. */
        for (int64_t took_ns = INT64_MAX; took_ns >= 10 * NS_PER_MS;) {
            struct output_block *block;
            int64_t start_ns = clock_now_ns();
            assert_int_equal(engine_emulated.run(f.model, NULL, 4, &block, NULL), 0);
            took_ns = clock_now_ns() - start_ns;
            output_block_put(block);
            assert_true(took_ns >= 5 * NS_PER_MS);
        }
        tear_down(&f);
    }
}

TEST(outputs_are_zeros_of_the_batch) {
    struct fixture f;
    set_up(&f, false);
    struct output_block *block, *other;
    assert_int_equal(engine_emulated.run(f.model, NULL, 3, &block, NULL), 0);
    assert_int_equal(block->output_count, 2);
    assert_int_equal(block->outputs[0].dim_count, 3);
    assert_int_equal(block->outputs[0].dims[0], 3);
    assert_int_equal(block->outputs[0].dims[1], 3);
    assert_int_equal(block->outputs[0].dims[2], 1);
    assert_int_equal(block->outputs[0].bytes, 3 * 3 * 8);
    assert_int_equal(block->outputs[1].bytes, 3);
    for (size_t i = 0; i < block->outputs[0].bytes; i++)
        assert_int_equal(((char *)block->outputs[0].data)[i], 0);
    assert_int_equal(engine_emulated.run(f.model, NULL, 1, &other, NULL), 0);
    assert_ptr_not_equal(block, other);
    tear_down(&f);
    assert_int_equal(((char *)block->outputs[0].data)[71], 0); /* still there after the model */
    output_block_put(other);
    output_block_put(block);
}

TEST(a_batch_too_large_is_an_error) {
    struct fixture f;
    struct output_block *block;
    struct sy_error err;
    set_up(&f, false);
    assert_int_equal(engine_emulated.run(f.model, NULL, 5, &block, &err), -EINVAL);
    assert_string_equal(err.text, "a batch of 5 does not fit the model's 4");
    assert_int_equal(engine_emulated.run(f.model, NULL, 0, &block, &err), -EINVAL);
    struct engine_model *model;
    struct engine_model_source source = {.name = "m", .signature = &signature, .profile = f.profile, .batch_max = 5};
    assert_int_equal(engine_emulated.load(f.engine, &source, &model, &err), -EINVAL);
    assert_string_equal(err.text, "model 'm': the emulated engine needs a profile up to a batch of 5");
    tear_down(&f);
}
