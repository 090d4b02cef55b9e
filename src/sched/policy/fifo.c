/* fifo.c - first come, first served: the model whose first request is the oldest runs, with all that it has queued.
 *
 * This is a server that only has queues: it ignores deadlines, refuses nothing, and a batch is what has gathered. */
#include "sched/core/model_view.h"
#include "sched/core/policy.h"

static void fifo_update(struct model_view *m, void *own) {
    (void)own;
    m->batch_best = 1;
    m->target_items = 1;
}

static struct batch_times fifo_times(const struct model_view *m, const void *own, uint32_t type,
                                     const struct batch_view *batch) {
    (void)m, (void)own, (void)type;
    return batch_times_from(0, batch->head_arrival_ns);
}

const struct policy_ops policy_fifo = {
    .name = "fifo",
    .summary = "first come, first served, in batches of what is queued, whatever the deadlines",
    .deadline_blind = true,
    .model_update = fifo_update,
    .batch_times = fifo_times,
};
