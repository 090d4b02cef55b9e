/* window.c - the batch size that a policy aims at, and the window drop. */
#include "sched/policy/window.h"

const char *const drop_words[] = {"window", "timeout", NULL};

/* If an item comes every 1/lambda: (b - 1)/lambda + l(b) = SLO. Solved with both sides times lambda, so that a silent
 * model gives 1. */
double batch_best(const struct model_view *m) {
    double alpha = m->alpha_ns + (double)m->data_ns, room = m->slo_ns - m->beta_ns - (double)m->ctrl_ns;
    double best = (m->rate_per_ns * room + 1) / (m->rate_per_ns * alpha + 1);
    double most = room / alpha < m->items_worth ? room / alpha : m->items_worth;
    return clip(best, 1, most);
}

void window_update(struct model_view *m, enum drop drop, double share) {
    m->batch_best = batch_best(m);
    m->target_items = drop == DROP_TIMEOUT ? 1 : (uint32_t)clip(share * m->batch_best + 0.5, 1, m->items_worth);
}
