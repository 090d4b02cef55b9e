/* scheduler_plans.c - plans at backends, and the messages to scheduling threads about their ends and about
 * accelerators.
 *
 * For each batch that ends, a backend sends two messages: at once that the accelerator is free (FRAME_FREED), and,
 * after the results, the measurement (FRAME_RAN), which may be missing. A plan is kept until both have come, since a
 * backend that dies in between may not have sent the results. FRAME_FREED goes to a rank thread, FRAME_RAN to a model
 * thread. A central thread gets both as one (struct ran_message), exactly once for each batch, in the order in which an
 * accelerator's batches were sent. Plans are sent with a tag of this process, by which a measurement finds its plan. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/roles/scheduler_link_state.h"
#include "core/system/clock.h"
#include "core/util/assert.h"

#define MEASURED_NS (50 * NS_PER_MS) /* longest wait for the measurement of a batch that has ended */

void plans_free(struct scheduler_link *l) {
    for (uint32_t a = 0; l->accelerators && a < l->wiring->accelerators; a++)
        plan_memory_free(&l->accelerators[a].plans);
    plan_memory_free(&l->free_plans);
}

/* ---- messages to scheduling threads ---- */

/* Tells the central thread of an accelerator. */
static void central_tell(struct scheduler_link *l, const struct ran_message *ran) {
    struct ring *ring = wiring_ran(l->wiring, 0, 0);
    struct ran_message *message = ring_reserve(ring);
    CHECK(message); /* the ring has room for all batches that a central policy may have sent, and for messages about
                     * each accelerator */
    *message = *ran;
    ring_push(ring);
    l->report_rung = true;
}

/* Tells a rank thread. */
static void freed_tell(struct scheduler_link *l, const struct freed_message *freed) {
    struct ring *ring = wiring_freed(l->wiring, 0, wiring_subcluster_of_accelerator(l->wiring, freed->accelerator));
    struct freed_message *message = ring_reserve(ring);
    CHECK(message); /* an accelerator has at most three batches under way; see accelerator_may_join() */
    *message = *freed;
    ring_push(ring);
    l->report_rung = true;
}

/* Tells a model thread. */
static void measured_tell(struct scheduler_link *l, const struct ran_message *ran) {
    struct ring *ring = wiring_ran(l->wiring, 0, wiring_thread_of(l->wiring, ran->variant));
    struct ran_message *message = ring_reserve(ring);
    if (!message)
        return; /* the thread is far behind; it can do without the measurement */
    *message = *ran;
    ring_push(ring);
    l->report_rung = true;
}

/* The rings have room for all batches, plus WIRING_NEWS_MAX, plus four messages for each accelerator that joins or
 * leaves. So an accelerator that has joined can always leave. */
bool accelerator_may_join(struct scheduler_link *l) {
    const struct wiring *w = l->wiring;
    bool read = true;
    if (l->news < WIRING_NEWS_MAX + 2 * w->accelerators)
        return true;
    for (uint32_t k = 0; k < w->rank_threads && !w->central; k++)
        read &= ring_drained(wiring_freed(w, 0, k));
    if (w->central)
        read = ring_drained(wiring_ran(w, 0, 0));
    l->news = read ? 0 : l->news;
    return read;
}

void accelerator_news(struct scheduler_link *l, uint32_t accelerator, enum accelerator_news news) {
    struct accelerator_place *a = &l->accelerators[accelerator];
    if (a->up == (news == NEWS_JOINS))
        return;
    if (l->wiring->central)
        central_tell(l, &(struct ran_message){.news = news,
                                              .type = a->class,
                                              .items = loads_page_bytes(l, accelerator),
                                              .accelerator = accelerator,
                                              .tag = loads_memory_bytes(l, accelerator)});
    else
        freed_tell(l, &(struct freed_message){.news = news, .type = a->class, .accelerator = accelerator});
    l->news++;
    a->up = news == NEWS_JOINS;
    a->owes = !a->up;
    if (a->owes)
        accelerator_leaves(l, accelerator);
    if (!a->up)
        memory_left(l, accelerator);
    l->memory_due = true;
    l->accelerators_there += a->up ? 1 : (uint32_t)-1;
}

void publish_reports(struct scheduler_link *l) {
    struct wiring *w = l->wiring;
    if (!l->report_rung)
        return;
    l->report_rung = false;
    for (uint32_t k = 0; k < w->rank_threads; k++) {
        bool some = ring_publish(wiring_freed(w, 0, k));
        some |= !w->central && ring_publish(wiring_moved(w, 0, k)); /* after the news that an accelerator has left:
                                                                     * rank_thread.c */
        if (some)
            doorbell_ring_or_help(&w->rank_bells[k], true);
    }
    for (uint32_t t = 0; t < w->model_threads; t++) {
        bool some = ring_publish(wiring_ran(w, 0, t));
        some |= w->central && ring_publish(wiring_moved(w, 0, 0));
        if (some)
            doorbell_ring_or_help(&w->model_bells[t], true);
    }
}

/* ---- plans ---- */

uint64_t plan_note(struct scheduler_link *l, struct accelerator_place *a, const struct batch_plan *plan,
                   struct sent_plan *p) {
    p->class = a->class;
    p->remote =
        a->member ? a->member->remote_of_known[l->places[plan->place.n].known] : (struct remote_id){CATALOGUE_NONE};
    p->ended = p->unlike = p->measured = false;
    p->tag = l->plan_tag++;
    p->place = plan->place.n;
    memcpy(&p->plan, plan, batch_plan_bytes(plan->request_count));
    l->places[p->place].sent++;
    list_append(&a->plans, &p->memory.node);
    return p->tag;
}

/* The oldest plan of an accelerator; NULL: there is none. */
static struct sent_plan *plan_first(struct accelerator_place *a) {
    return list_empty(&a->plans) ? NULL : list_entry(a->plans.next, struct sent_plan, memory.node);
}

static void plan_free(struct scheduler_link *l, struct sent_plan *p) {
    l->places[p->place].sent--;
    plan_memory_give(&l->free_plans, &p->memory);
}

/* The message for a batch without a measurement; if it `runs`, with its model's profiled time. */
static struct ran_message ran_of(const struct scheduler_link *l, const struct sent_plan *p, bool runs) {
    uint32_t items = p->plan.items == ITEMS_OF_REQUEST ? 1 : p->plan.items;
    const struct profile *profile = l->places[p->place].model.profiles[p->class];
    struct ran_message ran = batch_plan_ran(&p->plan);
    ran.type = p->class;
    ran.items = items;
    ran.run_ns = runs && profile ? profile->latency_ns[items] : 0;
    ran.dispatch_ns = -1;
    return ran;
}

/* Frees ended plans, in order, and tells the central thread. */
static void plans_forget(struct scheduler_link *l, struct accelerator_place *a, int64_t now_ns) {
    for (struct sent_plan *p; (p = plan_first(a));) {
        if (!p->ended || (!p->measured && now_ns <= p->ended_ns + MEASURED_NS))
            return;
        plan_free(l, p);
        l->plans_ended--;
        if (!l->wiring->central)
            continue;
        if (!p->measured)
            p->ran = ran_of(l, p, !p->unlike);
        central_tell(l, &p->ran);
    }
}

bool plan_ended(struct scheduler_link *l, const struct freed_message *freed) {
    struct accelerator_place *a = &l->accelerators[freed->accelerator];
    struct sent_plan *p = NULL;
    list_for_each_entry (one, &a->plans, struct sent_plan, memory.node)
        p = !p && !one->ended && one->plan.variant.n == freed->variant.n ? one : p;
    if (!p)
        return false;
    p->ended = true;
    p->unlike = freed->unlike;
    p->ended_ns = clock_now_ns();
    l->plans_ended++;
    struct freed_message ended = *freed;
    ended.ended_ns = time_earlier(freed->ended_ns, p->ended_ns); /* by another clock, so perhaps later */
    if (!l->wiring->central)
        freed_tell(l, &ended);
    plans_forget(l, a, p->ended_ns);
    return true;
}

int plan_measured(struct scheduler_link *l, const struct ran_message *ran, struct sy_error *err) {
    struct accelerator_place *a = &l->accelerators[ran->accelerator];
    struct sent_plan *p = NULL;
    list_for_each_entry (one, &a->plans, struct sent_plan, memory.node)
        p = one->tag == ran->tag ? one : p;
    if (!p || p->measured || p->plan.variant.n != ran->variant.n)
        return 0; /* the plan was another scheduler's, or is no longer kept */
    int64_t now_ns = clock_now_ns(), since_ns = now_ns - p->plan.sealed_ns;
    if (!wire_run_possible(ran->run_ns, since_ns) || !wire_run_possible(ran->dispatch_ns, since_ns) ||
        !wire_run_possible(ran->gather_ns, since_ns))
        return error_set(err, -EPROTO, "a run of %lld ms, %lld ms after its plan was sent",
                         (long long)(ran->run_ns / NS_PER_MS), (long long)(since_ns / NS_PER_MS));
    p->ran = *ran;
    p->ran.type = p->class;
    p->ran.tag = p->plan.tag;
    p->measured = true;
    if (a->member)
        link_report_count(&l->report, a->member->peer.tally, LINK_LATE,
                          ran->late < p->plan.request_count ? ran->late : p->plan.request_count);
    scheduler_speed_run(l, a, p);
    if (!l->wiring->central)
        measured_tell(l, &p->ran);
    plans_forget(l, a, now_ns);
    return 0;
}

bool plans_of(const struct scheduler_link *l, const struct member *m, struct remote_id remote) {
    for (uint32_t i = 0; i < m->accelerator_count; i++)
        list_for_each_entry (p, &l->accelerators[m->accelerators[i]].plans, struct sent_plan, memory.node)
            if (p->remote.n == remote.n)
                return true;
    return false;
}

void plans_look(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns) {
    if (l->plans_ended == 0)
        return;
    if (now_ns >= l->plans_look_ns) {
        l->plans_look_ns = now_ns + MEASURED_NS;
        for (uint32_t a = 0; a < l->accelerators_most; a++)
            plans_forget(l, &l->accelerators[a], now_ns);
    }
    *until_ns = time_earlier(l->plans_look_ns, *until_ns);
}

void plans_lose(struct scheduler_link *l, uint32_t accelerator) {
    struct accelerator_place *a = &l->accelerators[accelerator];
    int64_t now_ns = clock_now_ns();
    for (struct sent_plan *p; (p = plan_first(a));) {
        plan_free(l, p);
        for (uint32_t i = 0; i < p->plan.request_count; i++)
            link_lost(l, p->plan.handles[i], LOST_BACKEND);
        if (a->member)
            link_report_count(&l->report, a->member->peer.tally, LINK_LOST, p->plan.request_count);
        l->plans_ended -= p->ended;
        struct ran_message ran = ran_of(l, p, false);
        if (l->wiring->central) {
            central_tell(l, &ran);
            continue;
        }
        if (!p->ended)
            freed_tell(l, &(struct freed_message){.news = NEWS_ENDED,
                                                  .unlike = true,
                                                  .type = a->class,
                                                  .accelerator = accelerator,
                                                  .variant = p->plan.variant,
                                                  .ended_ns = now_ns});
        if (!p->measured)
            measured_tell(l, &ran);
    }
}
