/* eager.c - work-conserving: whatever is queued starts as soon as an accelerator is free.
 *
 * The baseline of Symphony (arXiv 2308.07470), section 4.3. A batch is what has gathered while all accelerators were
 * busy. */
#include "sched/core/model_view.h"
#include "sched/core/policy.h"
#include "sched/policy/window.h"

enum { ORDER, DROP, TARGET_SHARE };

enum order { ORDER_FRONTRUN, ORDER_INVALID_AFTER, ORDER_FIRST_COME, ORDER_LAST_UPDATE };
static const char *const order_words[] = {"frontrun", "invalid_after", "first_come", "last_update", NULL};

static const struct policy_option eager_options[] = {
    {.key = "order",
     .words = order_words,
     .preset = ORDER_FRONTRUN,
     .help = "which of two batches goes first: by the last moment at which one more request could join, by the latest "
             "start, by the arrival of the first request, or by the last arrival or change (the longest unchanged)"},
    {.key = "drop",
     .words = drop_words,
     .preset = DROP_TIMEOUT,
     .help = "drop the head until the target share of the best batch fits, or only what can no longer make it"},
    {.key = "target_share", .preset = 0.7, .least = 0.01, .most = 1, .help = "part of the best batch to aim at"},
    {0},
};

static void eager_update(struct model_view *m, void *own) {
    (void)own;
    window_update(m, (enum drop)m->options->value[DROP], m->options->value[TARGET_SHARE]);
}

static int64_t order_of(const struct model_view *m, const struct batch_view *batch) {
    switch ((enum order)m->options->value[ORDER]) {
    case ORDER_INVALID_AFTER:
        return batch->invalid_after_ns;
    case ORDER_FIRST_COME:
        return batch->head_arrival_ns;
    case ORDER_LAST_UPDATE:
        return model_updated_ns(m, batch);
    case ORDER_FRONTRUN:
        break;
    }
    return batch->due_ns;
}

static struct batch_times eager_times(const struct model_view *m, const void *own, uint32_t type,
                                      const struct batch_view *batch) {
    (void)own, (void)type;
    return batch_times_from(0, order_of(m, batch));
}

const struct policy_ops policy_eager = {
    .name = "eager",
    .summary = "what is queued starts as soon as an accelerator is free (work-conserving)",
    .options = eager_options,
    .model_update = eager_update,
    .batch_times = eager_times,
};
