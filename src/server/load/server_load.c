/* server_load.c - the load since the last look: reads the counters of the scheduling threads and the frontends, without
 * disturbing them. */
#include "server/load/server_load.h"

#include <errno.h>
#include <stdlib.h>

#include "cluster/peer/link_report.h"
#include "cluster/roles/scheduler_link.h"
#include "core/util/counter.h"
#include "front/request/infer_counters.h"

/* The counts of a served model up to the last look. */
struct model_counted {
    uint64_t answered, in_time, refused, ran_ns, items;
};

int server_load_init(struct server_load *l, const struct scheduling *scheduling, struct model_list *models) {
    *l = (struct server_load){.scheduling = scheduling, .models = models};
    l->counted = calloc(models->count + 1, sizeof(*l->counted));
    return l->counted ? 0 : -ENOMEM;
}

void server_load_free(struct server_load *l) {
    free(l->counted);
    l->counted = NULL;
}

/* The counts of a model by the frontends of this process since the last look. */
static struct autoscale_seen frontends_count(const struct frontends *fs, uint32_t model, struct model_counted *before) {
    struct model_counted now = {0};
    for (uint32_t f = 0; f < fs->count; f++) {
        const struct model_infer_counters *c = &frontends_counters(fs, f)->models[model];
        now.answered += counter_get(&c->outcomes[OUTCOME_OK]);
        now.in_time += counter_get(&c->in_time);
        now.refused += counter_get(&c->outcomes[OUTCOME_REFUSED]);
    }
    uint64_t answered = advisor_since(&before->answered, now.answered);
    uint64_t in_time = advisor_since(&before->in_time, now.in_time);
    uint64_t refused = advisor_since(&before->refused, now.refused);
    return (struct autoscale_seen){.requests = answered + refused,
                                   .bad = refused + (answered > in_time ? answered - in_time : 0)};
}

/* The counts of a model by a cluster's scheduler since the last look. The scheduler does not see when answers arrive:
 * its bad requests are those that it refused for lack of accelerators, and of the other requests it counts the items.
 */
static struct autoscale_seen scheduler_counts(const struct model_counters *c, struct model_counted *before) {
    uint64_t refused = 0;
    for (unsigned reason = 0; reason < REFUSAL_COUNT; reason++)
        if (reason != REFUSAL_CANCELLED && reason != REFUSAL_BEST_EFFORT_FULL)
            refused += counter_get(&c->refused[reason]);
    uint64_t bad = advisor_since(&before->refused, refused);
    return (struct autoscale_seen){.requests = advisor_since(&before->items, counter_get(&c->batch_items.sum)) + bad,
                                   .bad = bad};
}

/* Accelerators that the load has needed since the last look: by the rank threads, or by a central policy's plan; if the
 * policy has none, those that were busy. */
static void needed_since(struct server_load *l, uint64_t ran_ns, int64_t passed_ns, struct advisor_load *seen) {
    const struct scheduling *s = l->scheduling;
    double grown_ns = 0;
    if (s->central_thread) {
        double planned = central_thread_accelerators_needed(s->central_thread);
        seen->all.needed = planned >= 0 ? planned : advisor_needed((double)ran_ns, passed_ns);
        return;
    }
    for (uint32_t k = 0; k < s->wiring->rank_threads; k++) {
        double now_ns = rank_thread_needed_ns(s->rank_threads[k]), subcluster_ns = now_ns - l->needed_ns[k];
        l->needed_ns[k] = now_ns;
        grown_ns += subcluster_ns;
        seen->subclusters[k].needed = advisor_needed(subcluster_ns, passed_ns);
    }
    seen->all.needed = advisor_needed(grown_ns, passed_ns);
}

void server_load_since(struct server_load *l, int64_t now_ns, struct advisor_load *seen) {
    const struct scheduling *s = l->scheduling;
    uint64_t ran_ns = 0;
    *seen = (struct advisor_load){.all = {0}};

    pthread_mutex_lock(&l->models->lock); /* models move, come and go under it */
    for (uint32_t model = 0; model < l->models->count; model++) {
        const struct server_placement *p = &s->placements[model];
        const struct model_counters *c = scheduling_counters(s, model);
        struct model_counted *before = &l->counted[model];
        ran_ns += advisor_since(&before->ran_ns, counter_get(&c->run_ns.sum));
        struct autoscale_seen requests =
            s->link ? scheduler_counts(c, before) : frontends_count(l->models->frontends, model, before);
        seen->all.requests += requests.requests;
        seen->all.bad += requests.bad;
        /* the requests of a model that is in no sub-cluster count only for the whole server */
        uint32_t subcluster =
            p->variant_count && !s->central_thread ? wiring_subcluster(s->wiring, p->first_variant) : SUBCLUSTER_NONE;
        if (subcluster != SUBCLUSTER_NONE) {
            seen->subclusters[subcluster].requests += requests.requests;
            seen->subclusters[subcluster].bad += requests.bad;
        }
    }
    pthread_mutex_unlock(&l->models->lock);
    for (uint32_t n = 0; n < s->wiring->accelerators; n++) {
        bool serves = wiring_accelerator_state(s->wiring, n) == ACCELERATOR_SERVING;
        seen->all.present += serves;
        seen->subclusters[wiring_subcluster_of_accelerator(s->wiring, n)].present += serves;
    }
    if (s->link) {
        struct link_totals totals = link_report_totals(scheduler_link_report(s->link));
        seen->all.requests = advisor_since(&l->requests, totals.requests);
        seen->all.present = totals.accelerators;
    }
    needed_since(l, ran_ns, now_ns - l->looked_ns, seen);
    l->looked_ns = now_ns;
}
