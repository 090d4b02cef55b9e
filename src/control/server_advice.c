/* server_advice.c - how many accelerators there should be, for an autoscaler. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cluster/scheduler_link.h"
#include "control/server_state.h"
#include "plan/advisor.h"

/* owned by the thread that calls server_advise() */
struct server_advisor {
    struct advisor advisor;
    struct server_load load; /* up to the last look */
    bool leads;              /* this process leads, and has since the advisor was reset */
};

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
    s->advisor->leads = true;
    advisor_init(&s->advisor->advisor, &s->config.autoscale, now_ns);
    server_load_since(s, &s->advisor->load, now_ns);
}

void server_advise(struct server *s) {
    struct server_advisor *a = s->advisor;
    int64_t now_ns = clock_now_ns();

    if (!server_schedules(s) || s->config.autoscale.every_ns == 0)
        return;
    if (s->scheduler_link && !scheduler_link_leads(s->scheduler_link)) { /* a standby knows no load */
        a->leads = false;
        advice_set(&s->advice, ADVICE_NONE);
        return;
    }
    if (!a->leads) {
        begin(s, now_ns);
        return;
    }
    if (!advisor_due(&a->advisor, now_ns))
        return;
    struct autoscale_seen load = server_load_since(s, &a->load, now_ns);
    advisor_look(&a->advisor, now_ns, &load);
    atomic_store_explicit(&s->bad_rate, a->advisor.bad_rate, memory_order_relaxed); /* a gauge */
    advice_set(&s->advice, a->advisor.wanted);
}
