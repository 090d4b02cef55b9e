/* server_advice.c - computes the number of accelerators that there should be, for an autoscaler. */
#include <errno.h>
#include <stdlib.h>

#include "cluster/roles/scheduler_link.h"
#include "core/system/clock.h"
#include "sched/core/decision_log.h"
#include "sched/plan/advisor.h"
#include "server/process/server_state.h"

/* owned by the thread that calls server_advise() */
struct server_advisor {
    struct advisor advisor;
    struct server_load load; /* counts up to the last look */
    bool leads;              /* whether this process leads, and has led since the advisor was reset */
};

_Static_assert(AUTOSCALE_PARTS_MAX == RANK_THREADS_MAX, "a part for each rank thread");

/* The log of the advice; NULL: it is not logged. */
static struct decision_log *log_of(const struct server *s) {
    return s->wiring.decisions ? &s->wiring.decisions[s->wiring.model_threads + s->wiring.rank_threads] : NULL;
}

int server_advice_init(struct server *s) {
    struct server_advisor *a = s->advisor = calloc(1, sizeof(*a));
    return a ? server_load_init(s, &a->load) : -ENOMEM;
}

void server_advice_free(struct server *s) {
    if (s->advisor)
        server_load_free(&s->advisor->load);
    free(s->advisor);
}

/* Resets the advisor: only later counts have an effect. */
static void begin(struct server *s, int64_t now_ns) {
    struct advisor_load before;
    s->advisor->leads = true;
    advisor_init(&s->advisor->advisor, &s->config.autoscale, scheduling_parts(&s->scheduling), now_ns);
    server_load_since(s, &s->advisor->load, now_ns, &before);
    if (log_of(s))
        decision_advice_init(log_of(s), now_ns, &s->config.autoscale, scheduling_parts(&s->scheduling),
                             s->advisor->load.needed_ns);
}

static void advise(struct server *s, int64_t wanted) {
    advice_set(&s->advice, wanted);
    for (uint32_t k = 0; k < scheduling_parts(&s->scheduling) && scheduling_parts(&s->scheduling) > 1; k++)
        advice_set(&s->advice_of[k], wanted == ADVICE_NONE ? ADVICE_NONE : s->advisor->advisor.wanted_of[k]);
}

void server_advise(struct server *s) {
    struct server_advisor *a = s->advisor;
    int64_t now_ns = clock_now_ns();

    if (!server_schedules(&s->config) || s->config.autoscale.every_ns == 0)
        return;
    if (s->scheduling.link && !scheduler_link_leads(s->scheduling.link)) { /* a standby knows no load */
        a->leads = false;
        advise(s, ADVICE_NONE);
        return;
    }
    if (!a->leads) {
        begin(s, now_ns);
        return;
    }
    if (!advisor_due(&a->advisor, now_ns))
        return;
    struct advisor_load load;
    server_load_since(s, &a->load, now_ns, &load);
    advisor_look(&a->advisor, now_ns, &load);
    if (log_of(s))
        decision_advice_look(log_of(s), now_ns, &load, a->load.needed_ns, &a->advisor);
    atomic_store_explicit(&s->bad_rate, a->advisor.bad_rate, memory_order_relaxed); /* a gauge */
    advise(s, a->advisor.wanted);
}
