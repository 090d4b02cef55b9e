/* backend_plans.c - plans: pulls their requests, or reads these in the frontend's memory; then hands the plans to their
 * executors. */
#include <errno.h>
#include <string.h>

#include "cluster/roles/backend_link_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"

/* A pull is given up if it takes longer than PULL_TIMES times the 95th percentile, and longer than PULL_LEAST_NS: the
 * other requests of the batch should not wait for it. Large inputs on a slow link take longer, but they arrive: a
 * frontend that has sent DELIVERS_BYTES in the last PULL_LEAST_NS has until PULL_MOST_NS. */
#define PULL_TIMES     4
#define PULL_LEAST_NS  (20 * NS_PER_MS)
#define PULL_MOST_NS   (1 * NS_PER_S)
#define DELIVERS_BYTES ((uint64_t)64 * 1024)
/* If no request of a batch is left, because its frontends cannot be reached or its inputs find no memory, the batch
 * still occupies its accelerator for as long as it would have run, but no longer than this. If the accelerator were
 * free immediately, the scheduler would send it all requests of those frontends, and the same requests again and again:
 * a single one whose inputs were too large came back 14,000 times a second. */
#define UNREACHED_MOST_NS (100 * NS_PER_MS)
/* And for at least this long, so that a request of a frontend that is cut off from here is sent again elsewhere: its
 * accelerator is asked first, since it was free before the others. */
#define UNREACHED_LEAST_NS (25 * NS_PER_MS)
/* The same where its requests are to be tried at other backends: for at least this long. */
#define AVOIDED_LEAST_NS (5 * NS_PER_MS)
#define GIVEN_UP_LOG_NS  (1 * NS_PER_S) /* time between two lines in the log about given-up pulls of a frontend */

/* A run up to this long may be left to the link's thread. Waking the executor takes 5 to 50 us; for as long as the run
 * takes, the link reads nothing. */
#define BRIEF_US 200

struct frontend_peer *backend_frontend_of(const struct backend_link *l, uint64_t handle) {
    return l->by_number[handle_process(handle)];
}

struct landed *backend_landed_of(const struct backend_link *l, uint64_t handle) {
    struct frontend_peer *f = backend_frontend_of(l, handle);
    struct landed *landed = f && f->landing.cards ? landing_place(&f->landing, handle) : NULL;
    return landed && landed->handle == handle ? landed : NULL;
}

void backend_landed_give(struct landing *landing, struct landed *landed) {
    if (landed->arrives) /* it was left out of its batch; backend_card_over() frees it */
        landed->state = LANDED_GONE;
    else
        landing_give(landing, landed);
}

/* The first plan of an accelerator; NULL: there is none. */
static struct pulled_plan *plan_first(const struct accelerator_queue *q) {
    return list_empty(&q->plans) ? NULL : list_entry(q->plans.next, struct pulled_plan, memory.node);
}

/* Leaves out the requests that are not here. A request that is here for a plan of an earlier scheduler does not belong
 * to this plan. The items are those of the cards, whatever the frontends have told the scheduler; requests beyond what
 * the model takes at once are lost. */
static void plan_tighten(struct backend_link *l, struct pulled_plan *p) {
    uint32_t kept = 0, items = 0, most = l->config.models[p->plan.place.n].batch_max;
    if (p->tight)
        return;
    p->tight = true;
    for (uint32_t i = 0; i < p->plan.request_count; i++) {
        uint64_t handle = p->plan.handles[i];
        struct landed *landed = backend_landed_of(l, handle);
        if (!landed || landed->plan != p)
            continue;
        if (landed->state == LANDED_ALL || landed->state == LANDED_UNREADY) {
            uint32_t own = landing_card(&backend_frontend_of(l, handle)->landing, landed)->items;
            landed->plan = NULL;
            if (own > most - items) {
                backend_tell_undelivered(l, handle, LOST_PLAN);
                backend_landed_give(&backend_frontend_of(l, handle)->landing, landed);
                continue;
            }
            items += own;
            p->plan.handles[kept++] = handle;
        } else if (!landed->arrives) {
            landing_give(&backend_frontend_of(l, handle)->landing, landed);
        } else {
            landed->plan = NULL; /* its memory stays until its body is over */
        }
    }
    if (p->plan.items != ITEMS_OF_REQUEST || kept > 1)
        p->plan.items = (uint16_t)items;
    p->plan.request_count = kept;
}

/* The time until which a plan without requests occupies its accelerator. */
static int64_t plan_unreached_ns(const struct backend_link *l, const struct pulled_plan *p) {
    const struct backend_link_config *c = &l->config;
    const struct profile *profile = c->profiles[c->accelerator_type[p->plan.accelerator]][p->plan.place.n];
    int64_t run_ns = profile ? profile->latency_ns[1] : 0;
    int64_t least_ns = p->avoided ? AVOIDED_LEAST_NS : UNREACHED_LEAST_NS;
    run_ns = time_later(run_ns, least_ns);
    return p->begun_ns + (run_ns < UNREACHED_MOST_NS ? run_ns : UNREACHED_MOST_NS);
}

/* Whether a run takes less time than waking its thread is worth. A request that is to run alone may have ended or
 * stopped a run before: that does not happen in this thread again. */
static bool plan_is_brief(const struct backend_link *l, const struct batch_plan *plan) {
    if (plan->predicted_us == 0 || plan->predicted_us > BRIEF_US || plan->request_count > WIRING_HELP_MOST)
        return false;
    for (uint32_t i = 0; i < plan->request_count; i++)
        if (wiring_card(l->wiring, plan->handles[i])->alone)
            return false;
    return true;
}

/* Hands complete plans to the executor, in order, as far as there is room. */
static void queue_go_on(struct backend_link *l, uint32_t accelerator, int64_t now_ns) {
    struct accelerator_queue *q = &l->queues[accelerator];
    struct wiring *w = l->wiring;
    uint32_t executor = w->executor_of[accelerator];
    struct ring *ring = wiring_plans(w, 0, executor);

    for (struct pulled_plan *p; (p = plan_first(q)) && p->missing == 0;) {
        plan_tighten(l, p);
        uint32_t requests = p->plan.request_count, slots = batch_plan_slots(requests);
        const struct served_model *model = &l->config.models[p->plan.place.n];
        bool runs =
            requests > 0 && requests <= l->wiring->batch_max && p->plan.items <= model->batch_max && !model->ensemble;
        if (requests == 0 && p->unreached && now_ns < plan_unreached_ns(l, p))
            return;
        /* The executor's ring must have room for the results: no port bounds how many requests an executor has here,
         * since they come from frontends of the whole cluster. One place is kept for a request whose run was given up,
         * which has its result already, and is released later. */
        struct batch_plan *plan =
            runs && l->running[executor] + requests <= wiring_results(l->wiring, executor, 0)->mask
                ? ring_reserve_run(ring, slots)
                : NULL;
        if (runs && !plan)
            return; /* the executor is behind, or its results are: again in the next turn */
        list_remove(&p->memory.node);
        if (plan) {
            memcpy(plan, &p->plan, batch_plan_bytes(requests));
            ring_push_run(ring, slots);
            q->out++;
            l->running[executor] += requests;
            l->plans_rung++;
            l->plan_brief = q->out == 1 && plan_is_brief(l, &p->plan);
        } else {
            for (uint32_t i = 0; i < requests; i++) {
                backend_tell_undelivered(l, p->plan.handles[i], LOST_PLAN);
                backend_landed_give(&backend_frontend_of(l, p->plan.handles[i])->landing,
                                    backend_landed_of(l, p->plan.handles[i]));
            }
            backend_tell_not_run(l, &p->plan, now_ns);
        }
        l->pulling--;
        plan_memory_give(&l->free_plans, &p->memory);
    }
    backend_tell_joins(l, accelerator);
}

/* A request of a plan is here, or is known to be gone. */
void backend_landed_settle(struct backend_link *l, struct landed *landed) {
    struct pulled_plan *p = landed->plan;
    if (!p)
        return;
    if (--p->missing == 0)
        queue_go_on(l, p->plan.accelerator, clock_now_ns());
}

/* A request cannot be pulled: leaves it out of its plan, and tells its frontend. */
void backend_landed_lose(struct backend_link *l, struct landed *landed, enum lost_reason reason) {
    landed->state = LANDED_GONE;
    if (!backend_frontend_of(l, landed->handle)->heir.number)
        backend_tell_undelivered(l, landed->handle, reason);
    backend_landed_settle(l, landed);
}

/* Whether a frontend is connected and its clock known, or a plan may wait for that. */
static bool is_reached(const struct frontend_peer *f, int64_t now_ns) {
    if (backend_can_pull(f))
        return !f->peer.closed;
    return !f->leaving && now_ns < f->await_ns;
}

/* Shows a frontend the plan's pass for its requests, before it is asked for any. The plan is as it came. */
static void plan_show(const struct pulled_plan *p, struct frontend_peer *f) {
    const struct wire_plan_pass *pass = wire_plan_passes(&p->plan);
    uint32_t i = 0, count = 0;
    while (i < p->passes && pass[i].frontend != f->hello.number)
        i++;
    if (i == p->passes)
        return;
    size_t bytes = sizeof(struct wire_pass) + pass[i].requests * sizeof(uint64_t);
    struct wire_pass *out = peer_frame_more(&f->peer, FRAME_PASS, bytes);
    if (!out)
        return;
    memset(out, 0, bytes);
    memcpy(out->pass, pass[i].pass, sizeof(out->pass));
    out->count = pass[i].requests;
    for (uint32_t k = 0; k < p->plan.request_count && count < out->count; k++)
        if (handle_process(p->plan.handles[k]) == f->hello.number)
            out->handles[count++] = p->plan.handles[k];
}

/* Begins to pull the requests of a plan; those of a frontend that is not connected are lost. */
static void plan_pull(struct backend_link *l, struct pulled_plan *p) {
    for (uint32_t i = 0; i < p->passes; i++) {
        uint32_t number = wire_plan_passes(&p->plan)[i].frontend;
        struct frontend_peer *f = number < HELLO_NUMBERS ? l->by_number[number] : NULL;
        if (f && backend_can_pull(f))
            plan_show(p, f);
    }
    for (uint32_t i = 0; i < p->plan.request_count; i++) {
        uint64_t handle = p->plan.handles[i];
        struct frontend_peer *f = backend_frontend_of(l, handle);
        struct landed *landed = f && f->landing.cards ? landing_place(&f->landing, handle) : NULL;
        if (!landed || landed->handle || !is_reached(f, p->begun_ns)) {
            p->unreached = true;
            backend_tell_undelivered(l, handle, LOST_INPUTS);
            continue;
        }
        *landed = (struct landed){
            .handle = handle, .plan = p, .model = p->plan.place.n, .state = LANDED_PULLING, .begun_ns = p->begun_ns};
        enum pull_state state = backend_can_pull(f) ? f->transport->pull(l, f, landed) : PULL_UNDER_WAY;
        p->missing += state == PULL_UNDER_WAY;
        if (state == PULL_NONE)
            backend_tell_undelivered(l, handle, LOST_INPUTS);
        if (state == PULL_NONE || state == PULL_REFUSED)
            landing_give(&f->landing, landed);
    }
}

void backend_pulls_begin(struct backend_link *l, struct frontend_peer *f) {
    for (uint32_t a = 0; l->pulling > 0 && a < l->wiring->accelerators; a++)
        list_for_each_entry (p, &l->queues[a].plans, struct pulled_plan, memory.node)
            if (!p->tight)
                plan_show(p, f);
    for (size_t i = 0; i < (size_t)f->landing.lanes * f->landing.slots; i++) {
        struct landed *landed = &f->landing.landed[i];
        if (!landed->handle || landed->state != LANDED_PULLING)
            continue;
        enum pull_state state = f->transport->pull(l, f, landed);
        if (state == PULL_HERE)
            backend_landed_settle(l, landed);
        if (state == PULL_NONE)
            backend_landed_lose(l, landed, LOST_INPUTS);
        if (state == PULL_REFUSED) { /* the transport has told its frontend */
            landed->state = LANDED_GONE;
            backend_landed_settle(l, landed);
        }
    }
}

/* Takes a plan from the scheduler; its times are already converted to our clock. */
static int take_plan(struct backend_link *l, const struct batch_plan *plan, int64_t now_ns, struct sy_error *err) {
    if (plan->accelerator >= l->wiring->accelerators || plan->place.n >= l->config.model_count ||
        plan->request_count > l->wiring->batch_max)
        return error_set(err, -EPROTO,
                         "a plan for an accelerator or a model that is not here, or for too many requests");
    if (l->config.told_of_models && !backend_model_runs(l, plan->place.n))
        return error_set(err, -EPROTO, "a plan for a model that is not here any more");
    struct accelerator_queue *q = &l->queues[plan->accelerator];
    uint32_t passes = wire_plan_frontends(plan, UINT32_MAX);
    size_t bytes = wire_plan_bytes(plan->request_count, passes), handles = bytes - sizeof(*plan);
    struct pulled_plan *p =
        plan_memory_take(&l->free_plans, sizeof(*p), (uint32_t)(handles / sizeof(plan->handles[0])));
    if (!p)
        return error_set(err, -ENOMEM, "no memory for a plan");
    p->missing = 0;
    p->tight = p->unreached = p->avoided = false;
    p->begun_ns = now_ns;
    p->passes = passes;
    memcpy(&p->plan, plan, bytes);
    list_append(&q->plans, &p->memory.node);
    l->pulling++;
    plan_pull(l, p);
    int64_t most_ns = PULL_LEAST_NS;
    for (uint32_t i = 0; i < p->plan.request_count; i++) {
        const struct frontend_peer *f = backend_frontend_of(l, p->plan.handles[i]);
        int64_t usual_ns = f ? PULL_TIMES * margin_ns(&f->pulls) : 0;
        most_ns = time_later(usual_ns, most_ns);
    }
    p->over_ns = now_ns + most_ns;
    queue_go_on(l, p->plan.accelerator, now_ns);
    return 0;
}

int backend_take_plans(struct backend_link *l, const struct frame *frame, const char *head, struct sy_error *err) {
    int64_t now_ns = clock_now_ns();
    int rc = 0;

    for (uint32_t at = 0; at < frame->head_bytes && rc == 0;) {
        struct batch_plan *plan = (struct batch_plan *)(uintptr_t)(head + at);
        at += wire_plan_length(plan);
        plan->sealed_ns = health_local(&l->uplink.health, plan->sealed_ns);
        plan->earliest_ns = health_local(&l->uplink.health, plan->earliest_ns);
        plan->latest_ns = health_local(&l->uplink.health, plan->latest_ns);
        rc = take_plan(l, plan, now_ns, err);
    }
    return rc;
}

/* Whether a frontend has sent DELIVERS_BYTES lately. */
static bool delivers(struct frontend_peer *f, int64_t now_ns) {
    uint64_t bytes = f->peer.bytes_in + f->fabric_bytes;
    if (bytes - f->mark_bytes >= DELIVERS_BYTES) {
        f->mark_bytes = bytes;
        f->mark_ns = now_ns;
    }
    return now_ns - f->mark_ns <= PULL_LEAST_NS;
}

/* The time for a plan's pulls is over: gives up the missing requests, except those of frontends that deliver. */
static void plan_give_up(struct backend_link *l, struct pulled_plan *p, int64_t now_ns) {
    bool last = now_ns - p->begun_ns >= PULL_MOST_NS;
    for (uint32_t i = 0; i < p->plan.request_count && p->missing > 0; i++) {
        struct landed *landed = backend_landed_of(l, p->plan.handles[i]);
        if (!landed || landed->state != LANDED_PULLING || landed->plan != p)
            continue;
        struct frontend_peer *f = backend_frontend_of(l, landed->handle);
        if (!last && backend_can_pull(f) && delivers(f, now_ns))
            continue;
        l->given_up++;
        f->given_up++;
        link_report_count(&l->report, f->peer.tally, LINK_LATE, 1);
        if (now_ns >= f->given_up_at_ns) {
            log_warn("pulls given up", "frontend=%s count=%llu", f->peer.name, (unsigned long long)f->given_up);
            f->given_up_at_ns = now_ns + GIVEN_UP_LOG_NS;
        }
        landed->state = LANDED_GONE;
        backend_tell_undelivered(l, landed->handle, LOST_INPUTS);
        p->unreached = true;
        p->missing--;
    }
    p->over_ns = now_ns + PULL_LEAST_NS;
}

/* Gives up pulls that take too long, and hands over plans that waited for room. Lowers *until_ns to when to call it
 * again. */
void backend_queues_look(struct backend_link *l, int64_t now_ns, int64_t *until_ns) {
    for (uint32_t a = 0; l->pulling > 0 && a < l->wiring->accelerators; a++) {
        struct pulled_plan *p = plan_first(&l->queues[a]);
        if (p && p->missing > 0 && now_ns > p->over_ns)
            plan_give_up(l, p, now_ns);
        queue_go_on(l, a, now_ns);
        p = plan_first(&l->queues[a]);
        int64_t at_ns = !p                                           ? TIME_NEVER
                        : p->missing                                 ? p->over_ns
                        : p->unreached && p->plan.request_count == 0 ? plan_unreached_ns(l, p)
                                                                     : now_ns + NS_PER_MS / 10;
        *until_ns = time_earlier(at_ns, *until_ns);
    }
}
