/* plain_policy.h - a policy for tests of model cores: batches wait until `due`; what the window drop aims at and who is
 * admitted are the test's to set. */
#pragma once

#include "sched/core/model_view.h"
#include "sched/core/policy.h"

static uint32_t target; /* of the window drop */
static bool admit;

static void plain_update(struct model_view *m, void *own) {
    (void)own;
    m->batch_best = 1;
    m->target_items = target;
}

static bool plain_admit(struct model_view *m, void *own, const struct request_node *request) {
    (void)m, (void)own, (void)request;
    return admit;
}

static struct batch_times plain_times(const struct model_view *m, const void *own, uint32_t type,
                                      const struct batch_view *batch) {
    (void)m, (void)own, (void)type;
    return batch_times_from(batch->due_ns, batch->invalid_after_ns);
}

static const struct policy_ops policy_plain = {
    .name = "plain",
    .model_update = plain_update,
    .model_admit = plain_admit,
    .batch_times = plain_times,
};
