/* server_advice.c - how many accelerators there should be, for who starts and stops them: looks at what the scheduler's
 * threads and the frontends count, and disturbs none of them. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counter.h"
#include "cluster/link_report.h"
#include "cluster/scheduler_link.h"
#include "control/server_state.h"
#include "plan/advisor.h"
#include "request/infer_counters.h"

/* What was counted of a served model up to the last look. */
struct model_counted {
    uint64_t answered, in_time, refused, ran_ns;
};

/* owned by the thread that calls server_advise() */
struct server_advisor {
    struct advisor advisor;
    struct model_counted *counted; /* [model_count] */
    uint64_t requests;             /* of a cluster, up to the last look */
    double needed_ns;              /* by the rank threads, up to the last look */
    bool leads;                    /* this process does, since the advisor knows nothing */
};

int server_advice_init(struct server *s) {
    struct server_advisor *a = s->advisor = calloc(1, sizeof(*a));
    if (!a || !(a->counted = calloc(s->config.model_count + 1, sizeof(*a->counted))))
        return -ENOMEM;
    return 0;
}

void server_advice_free(struct server *s) {
    if (s->advisor)
        free(s->advisor->counted);
    free(s->advisor);
}

/* What the load since the last look is, but for what of a model's requests the frontends of this process counted. */
static void frontends_count(const struct server *s, uint32_t model, struct model_counted *before,
                            struct autoscale_seen *load) {
    struct model_counted now = {0};
    for (uint32_t f = 0; f < server_frontends(s); f++) {
        const struct model_infer_counters *c = &server_infer_counters(s, f)->models[model];
        now.answered += counter_get(&c->outcomes[OUTCOME_OK]);
        now.in_time += counter_get(&c->in_time);
        now.refused += counter_get(&c->outcomes[OUTCOME_REFUSED]);
    }
    uint64_t answered = advisor_since(&before->answered, now.answered);
    uint64_t in_time = advisor_since(&before->in_time, now.in_time);
    uint64_t refused = advisor_since(&before->refused, now.refused);
    load->requests += answered + refused;
    load->bad += refused + (answered > in_time ? answered - in_time : 0);
}

/* The same of a cluster's scheduler, which does not see when answers arrive: what it refused for want of accelerators.
 */
static void scheduler_counts(const struct model_counters *c, struct model_counted *before,
                             struct autoscale_seen *load) {
    uint64_t refused = 0;
    for (unsigned reason = 0; reason < REFUSAL_COUNT; reason++)
        if (reason != REFUSAL_SHAPES && reason != REFUSAL_CANCELLED && reason != REFUSAL_BEST_EFFORT_FULL)
            refused += counter_get(&c->refused[reason]);
    load->bad += advisor_since(&before->refused, refused);
}

/* Accelerators that the load has needed since the last look: as the rank threads know, or, without them, as were busy.
 */
static double needed_since(struct server *s, uint64_t ran_ns, int64_t passed_ns) {
    double needed_ns = 0, grown_ns = (double)ran_ns;
    if (!s->central_thread) {
        for (uint32_t k = 0; k < s->wiring.rank_threads; k++)
            needed_ns += rank_thread_needed_ns(s->rank_threads[k]);
        grown_ns = needed_ns - s->advisor->needed_ns;
        s->advisor->needed_ns = needed_ns;
    }
    return passed_ns > 0 ? grown_ns / (double)passed_ns : 0;
}

static uint32_t serving(const struct server *s) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < s->wiring.accelerators; n++)
        count += wiring_accelerator_state(&s->wiring, n) == ACCELERATOR_SERVING;
    return count;
}

static struct autoscale_seen load_since(struct server *s, int64_t now_ns) {
    struct server_advisor *a = s->advisor;
    struct autoscale_seen load = {0};
    uint64_t ran_ns = 0;

    pthread_mutex_lock(&s->models_lock); /* models move, come and go under it */
    for (uint32_t model = 0; model < s->config.model_count; model++) {
        const struct model_counters *c = server_model_counters(s, model);
        struct model_counted *before = &a->counted[model];
        ran_ns += advisor_since(&before->ran_ns, counter_get(&c->run_ns.sum));
        if (s->scheduler_link)
            scheduler_counts(c, before, &load);
        else
            frontends_count(s, model, before, &load);
    }
    pthread_mutex_unlock(&s->models_lock);
    if (s->scheduler_link) {
        struct link_totals totals = link_report_totals(scheduler_link_report(s->scheduler_link));
        load.requests = advisor_since(&a->requests, totals.requests);
        load.present = totals.accelerators;
    } else {
        load.present = serving(s);
    }
    load.needed = needed_since(s, ran_ns, now_ns - a->advisor.looked_ns);
    return load;
}

/* Begins anew: what is counted from now on counts. */
static void begin(struct server *s, int64_t now_ns) {
    s->advisor->leads = true;
    advisor_init(&s->advisor->advisor, &s->config.autoscale, now_ns);
    load_since(s, now_ns);
}

void server_advise(struct server *s) {
    struct server_advisor *a = s->advisor;
    int64_t now_ns = clock_now_ns();

    if (!server_schedules(s) || s->config.autoscale.every_ns == 0)
        return;
    if (s->scheduler_link && !scheduler_link_leads(s->scheduler_link)) { /* it knows of no load */
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
    struct autoscale_seen load = load_since(s, now_ns);
    advisor_look(&a->advisor, now_ns, &load);
    atomic_store_explicit(&s->bad_rate, a->advisor.bad_rate, memory_order_relaxed); /* a gauge */
    advice_set(&s->advice, a->advisor.wanted);
}
