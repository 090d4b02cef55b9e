/* symphony.c - the published policy: a batch waits for the last moment at which one more request could join it.
 *
 *                                  alpha
 *   ---- the batch grows ---- due  <--->  invalid_after ---- l(b) ---- deadline of the head
 *                             schedulable
 *
 * Symphony (arXiv 2308.07470), section 4.3 and Appendix C. In a few points the pseudo-code is unclear or wrong. The
 * cores decide most of them for all policies (docs/scheduling.md lists them). Two are options of this policy. One is
 * the condition that makes a batch schedulable: the code overwrites its condition of beta*lambda. The other is which
 * requests are dropped: the text drops only those that can no longer be in time, but then goodput falls above the
 * peak. */
#include "sched/core/model_view.h"
#include "sched/core/policy.h"
#include "sched/policy/window.h"

enum { SCHEDULABLE, DROP, TARGET_SHARE, ORDER };

enum schedulable { FRONTRUN, IMMEDIATELY, BETA_LAMBDA, TARGET_BATCH };
static const char *const schedulable_words[] = {"frontrun", "immediately", "beta_lambda", "target_batch", NULL};

enum order { ORDER_FRONTRUN, ORDER_INVALID_AFTER, ORDER_EXEC_AT };
static const char *const order_words[] = {"frontrun", "invalid_after", "exec_at", NULL};

static const struct policy_option symphony_options[] = {
    {.key = "schedulable",
     .words = schedulable_words,
     .preset = FRONTRUN,
     .help = "when a batch may start: when one more request could no longer join; at once; with more than beta*lambda "
             "requests; with the target share of the best batch (the last two at the latest at frontrun)"},
    {.key = "drop",
     .words = drop_words,
     .preset = DROP_WINDOW,
     .help = "drop the head until the target share of the best batch fits, or only what can no longer make it"},
    {.key = "target_share", .preset = 0.7, .least = 0.01, .most = 1, .help = "part of the best batch to aim at"},
    {.key = "order",
     .words = order_words,
     .preset = ORDER_FRONTRUN,
     .help = "which of two batches goes first: by the last moment at which one more request could join (as the text "
             "says), by the latest start, or by when it was to start when it last changed or a request came (as the "
             "code says)"},
    {0},
};

struct symphony_model {
    uint32_t enough; /* items from which on a batch is schedulable */
};

static uint32_t items_enough(const struct model_view *m) {
    switch ((enum schedulable)m->options->value[SCHEDULABLE]) {
    case IMMEDIATELY:
        return 1;
    case BETA_LAMBDA: /* b > beta*lambda */
        return (uint32_t)clip(m->beta_ns * m->rate_per_ns, 0, PROFILE_BATCH_MAX) + 1;
    case TARGET_BATCH:
        return (uint32_t)clip(m->options->value[TARGET_SHARE] * m->batch_best + 0.5, 1, PROFILE_BATCH_MAX);
    case FRONTRUN:
        break;
    }
    return UINT32_MAX;
}

static void symphony_update(struct model_view *m, void *own) {
    struct symphony_model *s = own;
    window_update(m, (enum drop)m->options->value[DROP], m->options->value[TARGET_SHARE]);
    s->enough = items_enough(m);
}

/* exec_at is a variable of the pseudo-code: when the batch is to start. The code sets it at every arrival, even of a
 * request that cannot join. For batches that may start at once it does not say which is more urgent. */
static int64_t order_of(const struct model_view *m, int64_t from_ns, const struct batch_view *batch) {
    switch ((enum order)m->options->value[ORDER]) {
    case ORDER_INVALID_AFTER:
        return batch->invalid_after_ns;
    case ORDER_EXEC_AT:
        return from_ns > model_updated_ns(m, batch) ? from_ns : model_updated_ns(m, batch);
    case ORDER_FRONTRUN:
        break;
    }
    return batch->due_ns;
}

static struct batch_times symphony_times(const struct model_view *m, const void *own, uint32_t type,
                                         const struct batch_view *batch) {
    const struct symphony_model *s = own;
    (void)type;
    bool large = batch->full || batch->items >= batch->items_most || batch->items >= s->enough;
    int64_t from_ns = large ? 0 : batch->due_ns;
    return batch_times_from(from_ns, order_of(m, from_ns, batch));
}

const struct policy_ops policy_symphony = {
    .name = "symphony",
    .summary = "batches wait until one more request could no longer join (after Symphony, with a window drop)",
    .options = symphony_options,
    .model_bytes = sizeof(struct symphony_model),
    .model_update = symphony_update,
    .batch_times = symphony_times,
};
