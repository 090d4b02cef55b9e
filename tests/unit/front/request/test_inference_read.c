/* test_inference_read.c - slots whose inputs a run that hangs may still read, and answers that clients do not take
 * (inference.h). */
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "front/request/inference.h"
#include "unit/test.h"

#define SLOTS 2

static void inferences_start(struct inferences *home) {
    struct inferences_config config = {
        .model_count = 1, .slot_count = SLOTS, .slot_bytes = sizeof(struct inference), .inputs_bytes_max = 16 << 20};
    assert_int_equal(inferences_init(home, &config), 0);
}

static uint32_t held(const struct inferences *home) {
    return atomic_load(&home->counters.models[0].held);
}

TEST(inputs_stay_until_no_run_reads_them) {
    struct inferences home;
    struct served_model model;
    memset(&model, 0, sizeof(model));
    inferences_start(&home);

    struct inference *a = inference_take(&home, 0);
    inference_model(a, &model, 0);
    char *block = inference_block(a, 1000);
    memset(block, 'x', 1000);
    a->request.readers = 1;   /* as port_next() leaves it */
    inference_blocks_give(a); /* the answer is built */
    inference_free(a);        /* and sent */
    assert_int_equal(atomic_load(&home.counters.in_flight), 0);
    assert_int_equal(held(&home), 1);
    assert_true(slab_bytes_taken(home.slab) >= 1000);
    assert_int_equal(block[999], 'x');

    struct inference *b = inference_take(&home, 0);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    assert_ptr_not_equal(inference_block(b, 1000), block);
    assert_null(inference_take(&home, 0)); /* the other slot is not free */
    inferences_trim(&home, clock_now_ns());
    assert_null(inference_take(&home, 0));

    a->request.readers = 0;
    inferences_trim(&home, clock_now_ns());
    assert_int_equal(held(&home), 0);
    assert_ptr_equal(inference_take(&home, 0), a);
    assert_int_equal(a->block_count, 0);
    inference_free(a);
    inference_free(b);
    assert_int_equal(slab_bytes_taken(home.slab), 0);
    inferences_destroy(&home);
}

static int released;

static void released_add(struct output_block *block) {
    released++;
}

/* An answer that its client does not take, of a request that ran with others. */
TEST(a_slow_answer_keeps_its_part_alone) {
    static char outputs[64 * 1024];
    for (int large = 0; large < 2; large++) { /* whether the part is more than half of the batch */
        size_t bytes = large ? sizeof(outputs) / 2 : sizeof(outputs) / 4;
        struct inferences home;
        struct output_block block = {.output_count = 1, .outputs = {{.data = outputs, .bytes = sizeof(outputs)}}};
        atomic_init(&block.references, 2); /* another's, too */
        block.release = released_add;
        inferences_start(&home);
        struct inference *a = inference_take(&home, 0);
        a->request.block = &block;
        text_put(&a->text, "head");
        outputs[bytes] = 'x';
        a->answer = (struct infer_answer){.bytes = 4 + bytes,
                                          .pieces = {{a->text.data, 4}, {outputs + bytes, bytes - 1}, {outputs, 1}},
                                          .piece_count = 3};
        inference_answered(a, 200);
        inference_detach(a);
        inference_detach(a);
        assert_int_equal(atomic_load(&block.references), large ? 2 : 1);
        assert_int_equal(a->answer.pieces[1].iov_base == outputs + bytes, large);
        assert_int_equal(*(char *)a->answer.pieces[1].iov_base, 'x');
        assert_int_equal(*(char *)a->answer.pieces[2].iov_base, 0);
        assert_int_equal(a->answer.pieces[1].iov_len, bytes - 1);
        inference_free(a);
        assert_int_equal(atomic_load(&block.references), 1);
        inferences_destroy(&home);
    }
    assert_int_equal(released, 0);
}

TEST(what_is_read_outlives_its_frontend) {
    struct inferences home;
    inferences_start(&home);
    struct inference *a = inference_take(&home, 0);
    char *block = inference_block(a, 1000);
    a->request.readers = 1; /* as port_next() leaves it */
    inference_free(a);

    struct inferences kept = home; /* for this test to give it back */
    inferences_destroy(&home);
    assert_true(slab_bytes_taken(kept.slab) >= 1000);
    memset(block, 'x', 1000); /* its memory is there: the address sanitizer would tell */
    assert_int_equal(a->request.readers, 1);
    a->request.readers = 0;
    slab_destroy(kept.slab);
    free(kept.slots);
}
