/* server_advice.c - looks at the load, lets sched/plan/advisor.h decide, and logs it. */
#include "server/load/server_advice.h"

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "sched/core/decision_log.h"

_Static_assert(AUTOSCALE_SUBCLUSTERS_MAX == RANK_THREADS_MAX, "a sub-cluster for each rank thread");

int server_advice_init(struct server_advice *a, const struct autoscale_config *config,
                       const struct scheduling *scheduling, struct model_list *models) {
    a->config = config;
    return server_load_init(&a->load, scheduling, models);
}

void server_advice_free(struct server_advice *a) {
    server_load_free(&a->load);
}

static void advise(struct server_advice *a, int64_t wanted) {
    uint32_t subclusters = scheduling_subclusters(a->load.scheduling);
    advice_set(&a->wanted, wanted);
    for (uint32_t k = 0; k < subclusters && subclusters > 1; k++)
        advice_set(&a->wanted_of[k], wanted == ADVICE_NONE ? ADVICE_NONE : a->advisor.wanted_of[k]);
}

void server_advice_look(struct server_advice *a) {
    const struct scheduling *s = a->load.scheduling;
    struct advisor_load load;
    int64_t now_ns = clock_now_ns();

    if (!a->config)
        return;
    const struct wiring *w = s->wiring;
    struct decision_log *log = w->decisions ? &w->decisions[w->model_threads + w->rank_threads] : NULL;
    if (s->link && !scheduler_link_leads(s->link)) { /* a standby knows no load */
        a->leads = false;
        advise(a, ADVICE_NONE);
        return;
    }
    if (!a->leads) { /* only later counts have an effect */
        a->leads = true;
        advisor_init(&a->advisor, a->config, scheduling_subclusters(s), now_ns);
        server_load_since(&a->load, now_ns, &load);
        if (log)
            decision_advice_init(log, now_ns, a->config, scheduling_subclusters(s), a->load.needed_ns);
        return;
    }
    if (!advisor_due(&a->advisor, now_ns))
        return;
    server_load_since(&a->load, now_ns, &load);
    advisor_look(&a->advisor, now_ns, &load);
    if (log)
        decision_advice_look(log, now_ns, &load, a->load.needed_ns, &a->advisor);
    atomic_store_explicit(&a->bad_rate, a->advisor.bad_rate, memory_order_relaxed); /* a gauge */
    advise(a, a->advisor.wanted);
}
