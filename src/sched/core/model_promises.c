/* model_promises.c - requests whose inputs are still being prepared, with the time for which they are promised.
 *
 * Such a request counts from its arrival: in the rates that the policy plans by, against the limits of its queue, and
 * it is refused at once if it cannot be in time from its promise on. It joins the queue, and so a batch, when its
 * inputs are there: when MODEL_PREPARED says so, or else at the promised time. A batch that is sealed while the
 * accelerator still runs another also takes requests whose inputs are promised for the end of that run (model_seal.c).
 * A promise that is not kept costs nobody else anything: the executor runs the batch without the request, and gives it
 * back.
 *
 * There are few of them (PREPARATIONS_MAX), and most come in the order of their promises, so a list will do. */
#include "sched/core/model_core_state.h"

void model_promise_add(struct model_core *core, uint32_t node, int64_t ready_ns) {
    uint32_t *link = &core->promised;
    model_node(core, node)->ready_ns = ready_ns;
    for (uint32_t left = core->promised_count; left && model_node(core, *link)->ready_ns <= ready_ns; left--)
        link = &model_node(core, *link)->next;
    model_node(core, node)->next = *link;
    *link = node;
    core->promised_count++;
}

void model_promises_join(struct model_core *core, int64_t now_ns, int64_t until_ns, struct model_output *out) {
    while (core->promised_count && model_node(core, core->promised)->ready_ns <= until_ns) {
        uint32_t node = core->promised;
        core->promised = model_node(core, node)->next;
        core->promised_count--;
        model_request_joins(core, now_ns, node, out);
    }
}

uint32_t model_promise_take(struct model_core *core, uint64_t handle) {
    uint32_t *link = &core->promised;
    for (uint32_t left = core->promised_count; left; left--, link = &model_node(core, *link)->next)
        if (model_node(core, *link)->handle == handle) {
            uint32_t node = *link;
            *link = model_node(core, node)->next;
            core->promised_count--;
            return node;
        }
    return REQUEST_NONE;
}

void model_promise_ready(struct model_core *core, int64_t now_ns, uint64_t handle, struct model_output *out) {
    uint32_t node = model_promise_take(core, handle);
    if (node != REQUEST_NONE)
        model_request_joins(core, now_ns, node, out);
}
