/* executor_orders.c - takes the orders of rank threads, or of the central thread, to load and unload; answers them. */
#include "back/executor/executor_state.h"
#include "core/util/assert.h"

bool orders_poll(struct executor *x, void (*take)(struct executor *x, const struct move_order *order)) {
    bool any = false;

    for (uint32_t k = 0; k < x->wiring->rank_threads; k++) {
        struct ring *ring = wiring_orders(x->wiring, k, x->config.index);
        const struct move_order *order;
        for (; (order = ring_peek(ring)); ring_pop(ring)) {
            take(x, order);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

void order_answer(struct executor *x, const struct move_order *order, bool done, bool failed, int64_t took_ns) {
    uint32_t subcluster = wiring_subcluster_of_accelerator(x->wiring, order->accelerator);
    struct ring *ring = wiring_moved(x->wiring, x->config.index, subcluster);
    struct memory_moved *moved = ring_reserve(ring);

    CHECK(moved); /* an accelerator has no more orders than the ring has slots for it */
    *moved = (struct memory_moved){
        .kind = order->kind,
        .done = done,
        .failed = failed,
        .accelerator = order->accelerator,
        .epoch = order->epoch,
        .variant = order->variant,
        .took_ns = took_ns,
    };
    ring_push(ring);
}
