/* server_load.c - the load since the last look: reads the counters of the scheduling threads and the frontends, without
 * disturbing them. */
#include <errno.h>
#include <stdlib.h>

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

int server_load_init(const struct server *s, struct server_load *l) {
    *l = (struct server_load){.counted = calloc(s->config.model_count + 1, sizeof(*l->counted))};
    return l->counted ? 0 : -ENOMEM;
}

void server_load_free(struct server_load *l) {
    free(l->counted);
    l->counted = NULL;
}

/* Adds what the frontends of this process have counted of a model since the last look. */
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

/* The same for a cluster's scheduler. It does not see when answers arrive; its bad requests are those that it refused
 * for lack of accelerators. */
static void scheduler_counts(const struct model_counters *c, struct model_counted *before,
                             struct autoscale_seen *load) {
    uint64_t refused = 0;
    for (unsigned reason = 0; reason < REFUSAL_COUNT; reason++)
        if (reason != REFUSAL_SHAPES && reason != REFUSAL_CANCELLED && reason != REFUSAL_BEST_EFFORT_FULL)
            refused += counter_get(&c->refused[reason]);
    load->bad += advisor_since(&before->refused, refused);
}

/* Accelerators that the load has needed since the last look: by the rank threads, or by a central policy's plan; if the
 * policy has none, those that were busy. */
static double needed_since(const struct server *s, struct server_load *l, uint64_t ran_ns, int64_t passed_ns) {
    double needed_ns = 0, grown_ns = (double)ran_ns;
    if (s->central_thread) {
        double planned = central_thread_accelerators_needed(s->central_thread);
        if (planned >= 0)
            return planned;
    } else {
        for (uint32_t k = 0; k < s->wiring.rank_threads; k++)
            needed_ns += rank_thread_needed_ns(s->rank_threads[k]);
        grown_ns = needed_ns - l->needed_ns;
        l->needed_ns = needed_ns;
    }
    return passed_ns > 0 ? grown_ns / (double)passed_ns : 0;
}

static uint32_t serving(const struct server *s) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < s->wiring.accelerators; n++)
        count += wiring_accelerator_state(&s->wiring, n) == ACCELERATOR_SERVING;
    return count;
}

struct autoscale_seen server_load_since(struct server *s, struct server_load *l, int64_t now_ns) {
    struct autoscale_seen load = {0};
    uint64_t ran_ns = 0;

    pthread_mutex_lock(&s->models_lock); /* models move, come and go under it */
    for (uint32_t model = 0; model < s->config.model_count; model++) {
        const struct model_counters *c = server_place_counters(s, model);
        struct model_counted *before = &l->counted[model];
        ran_ns += advisor_since(&before->ran_ns, counter_get(&c->run_ns.sum));
        if (s->scheduler_link)
            scheduler_counts(c, before, &load);
        else
            frontends_count(s, model, before, &load);
    }
    pthread_mutex_unlock(&s->models_lock);
    if (s->scheduler_link) {
        struct link_totals totals = link_report_totals(scheduler_link_report(s->scheduler_link));
        load.requests = advisor_since(&l->requests, totals.requests);
        load.present = totals.accelerators;
    } else {
        load.present = serving(s);
    }
    load.needed = needed_since(s, l, ran_ns, now_ns - l->looked_ns);
    l->looked_ns = now_ns;
    return load;
}
