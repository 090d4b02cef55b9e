/* test_wiring.c - what the rings still hold at the end. */
#include "sched/threads/wiring.h"

#include "core/util/container.h"
#include "model/engine/engine.h"
#include "unit/sched/threads/smallest_wiring.h"
#include "unit/test.h"

struct outputs {
    struct output_block block;
    uint32_t released;
};

static void release(struct output_block *block) {
    container_of(block, struct outputs, block)->released++;
}

static void result_push(struct ring *ring, struct output_block *block) {
    struct result_message *message = ring_reserve(ring);
    assert_non_null(message);
    *message = (struct result_message){.status = block ? REQUEST_OK : REQUEST_LOST, .block = block};
    ring_push(ring);
    ring_publish(ring);
}

/* A batch of three requests of two frontends has ended after these had: one has taken one of its two results, the other
 * none. */
TEST(results_that_nobody_took_give_their_outputs_back) {
    struct wiring wiring = smallest_wiring(2);
    struct outputs outputs = {.block = {.references = 3, .release = release}};
    struct sy_error err;

    assert_int_equal(wiring_init(&wiring, false, &err), 0);
    result_push(&wiring.results[0], &outputs.block);
    result_push(&wiring.results[0], &outputs.block);
    result_push(&wiring.results[1], &outputs.block);
    result_push(&wiring.results[1], NULL);
    const struct result_message *taken = ring_peek(&wiring.results[0]);
    output_block_put(taken->block);
    ring_pop(&wiring.results[0]);
    ring_release(&wiring.results[0]);
    assert_int_equal(outputs.released, 0);
    wiring_destroy(&wiring);
    assert_int_equal(outputs.released, 1);
}
