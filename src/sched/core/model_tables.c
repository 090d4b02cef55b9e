/* model_tables.c - the latency tables in force, what follows from them, and how measured runs correct them. */
#include <string.h>

#include "core/util/assert.h"
#include "sched/core/model_core_state.h"

#define RELAX_MOST_NS (8 * RELAX_NS) /* greatest wait before corrections are halved for the first time */

void model_profile_copy(struct profile *to, const struct profile *from, uint32_t batch_max) {
    CHECK_LE(batch_max, from->batch_max);
    memcpy(to, from, profile_bytes(batch_max));
    if (to->batch_max != batch_max) {
        to->batch_max = batch_max;
        profile_fit(to);
    }
}

static uint32_t at_most(uint32_t items, uint32_t most) {
    return items < most ? items : most;
}

void model_batch_limits_set(struct model_core *core) {
    struct model_view *m = &core->view;
    m->items_worth = 1;
    for (uint32_t t = 0; t < m->types; t++) {
        if (!m->profiles[t])
            continue;
        uint32_t most = model_sizes_given(core) ? core->batch_max : core->cheapest[t];
        uint32_t worth = at_most(core->best[t], core->asked);
        m->items_most[t] = at_most(most, core->asked);
        if (worth > m->items_worth)
            m->items_worth = worth;
    }
}

/* A type with no accelerator in service does not count. If that leaves no type, all count, since accelerators may come
 * back in time. Types count by the items that their accelerators run in a time, so the load that follows from the line
 * is that of accelerators which are all busy. */
void model_tables_changed(struct model_core *core) {
    struct model_view *m = &core->view;
    double share[ACCELERATOR_TYPES_MAX], shares = 0, alpha_ns = 0, beta_ns = 0;
    for (uint32_t t = 0; t < m->types; t++) {
        share[t] = m->profiles[t] ? (double)m->parameters.type_share[t] : 0;
        shares += share[t];
    }
    core->stranded = core->told && shares <= 0;
    for (uint32_t t = 0; t < m->types; t++) {
        if (shares <= 0)
            share[t] = m->profiles[t] ? 1 : 0;
        m->used[t] = share[t] > 0;
    }
    double total = 0, first = 0;
    for (uint32_t t = 0; t < m->types; t++) {
        if (!m->used[t])
            continue;
        double speed = core->best[t] / (double)m->profiles[t]->latency_ns[core->best[t]];
        first = first > 0 ? first : speed;
        speed = speed / first * share[t]; /* with one type, exactly its share */
        total += speed;
        alpha_ns += speed * m->profiles[t]->alpha_ns;
        beta_ns += speed * m->profiles[t]->beta_ns;
    }
    m->alpha_ns = alpha_ns / total;
    m->beta_ns = beta_ns / total;
}

/* If corrections are too large, no batch runs, and so nothing is measured again. While requests are refused for their
 * deadline and no batch runs, the tables go back towards the profiles. A model whose runs really take that long would
 * so be tried every few seconds, late each time, and delay the other models: after each such try the next is further
 * off. */
void model_tables_relax(struct model_core *core, int64_t now_ns, struct model_output *out) {
    if (core->ran_ns == TIME_NEVER)
        core->ran_ns = now_ns;
    if (now_ns - core->ran_ns < (core->relaxed ? RELAX_NS : core->relax_ns))
        return;
    core->ran_ns = now_ns;
    bool any = false;
    for (uint32_t t = 0; t < core->view.types; t++)
        any |= core->rolling[t] && rolling_relax(core->rolling[t], core->view.profiles[t]);
    if (!any)
        return;
    core->relaxed = true;
    model_tables_changed(core);
    model_policy_update(core);
    model_refresh(core, now_ns, out);
}

void model_batch_ran(struct model_core *core, int64_t now_ns, const struct ran_message *ran, struct model_output *out) {
    core->late_rate += ran->late * core->bad_weight; /* the requests were counted when their batch was sealed */
    if (ran->run_ns == 0)
        return;
    core->ran_ns = now_ns;
    if (!ran->late)
        core->relax_ns = RELAX_NS;
    else if (core->relaxed && core->relax_ns < RELAX_MOST_NS)
        core->relax_ns *= 2;
    core->relaxed = false;
    CHECK(ran->type < core->view.types && core->view.profiles[ran->type]);
    if (!core->rolling[ran->type] || !rolling_add(core->rolling[ran->type], ran->accelerator, ran->items, ran->run_ns,
                                                  core->view.profiles[ran->type]))
        return;
    model_tables_changed(core);
    model_policy_update(core);
    model_refresh(core, now_ns, out);
}
