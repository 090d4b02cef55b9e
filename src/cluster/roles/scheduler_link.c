/* scheduler_link.c - the link thread: messages between members and the scheduling threads, and who leads.
 *
 * Members come and go in scheduler_members.c; models and accelerators are in scheduler_places.c. */
#include "cluster/roles/scheduler_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster/roles/aside.h"
#include "cluster/roles/scheduler_link_state.h"
#include "core/system/clock.h"
#include "core/system/log.h"

#define TAKE_MOST       1024 /* most messages of one ring in a turn */
#define AHEAD           8    /* distance, in requests, at which `last` is prefetched */
#define ERROR_PART_MOST 8    /* part of a request's time that a clock's error may take at most */
/* Time for members to join a scheduler that begins to lead. At worst a member asks the registry only every two seconds,
 * takes three heartbeats to find another scheduler silent, and leaves that one out for three more. */
#define SETTLE_NS      (3 * NS_PER_S)
#define SETTLE_BEATS   (2 * HEALTH_BEATS + 1)
#define RESIGN_MOST_NS (500 * NS_PER_MS) /* time for another scheduler to take over from one that ends */
#define RESIGN_LOOK_NS (1 * NS_PER_MS)

/* ---- to members ---- */

static struct member *member_of(const struct scheduler_link *l, uint64_t handle) {
    struct member *m = l->by_number[handle_process(handle)];
    return m && m->hello.role == ROLE_FRONTEND && !m->peer.closed ? m : NULL;
}

/* The last request of a handle's slot; NULL: the frontend has no such slot. */
static struct queued_request *last_of(const struct member *m, uint64_t handle) {
    size_t place = handle_place(handle, m->hello.number, m->hello.lanes, m->hello.slots);
    return place == HANDLE_STRANGE ? NULL : &m->last[place];
}

/* A request's frontend is told that it has ended. */
static void request_over(struct member *m, uint64_t handle) {
    struct queued_request *last = last_of(m, handle);
    if (last && last->handle == handle)
        last->handle = 0;
}

void link_lost(struct scheduler_link *l, uint64_t handle, enum lost_reason reason) {
    struct member *m = member_of(l, handle);
    if (!m)
        return; /* the frontend is gone, and its requests with it */
    request_over(m, handle);
    lost_tell(&m->peer, FRAME_RESULTS, handle, reason);
    link_report_count(&l->report, m->peer.tally, LINK_LOST, 1);
    l->counters.lost[reason]++;
}

static void refusal_send(struct scheduler_link *l, const struct refusal_message *message) {
    struct member *m = member_of(l, message->handle);
    if (!m)
        return;
    peer_add(&m->peer, FRAME_REFUSALS, message, sizeof(*message));
    request_over(m, message->handle);
}

static void refuse(struct scheduler_link *l, uint64_t handle, struct place_id id, enum refusal reason) {
    refusal_send(l, &(struct refusal_message){.handle = handle, .place = id, .reason = (uint8_t)reason});
}

/* ---- requests ---- */

static bool request_fits(const struct scheduler_link *l, const struct request_message *message) {
    return message->place.n < l->config.models_max && message->kind <= REQUEST_READY && message->items >= 1 &&
           message->work > 0 && message->work < 1e9F &&
           (message->priority < PRIORITIES_MAX || message->priority == PRIORITY_BEST_EFFORT);
}

/* The slot of a message to its model's thread; push() sends it. NULL: there is no room now. */
static struct request_message *place_for(struct scheduler_link *l, struct place_id id) {
    return ring_reserve(wiring_requests(l->wiring, 0, l->wiring->thread_of_served[id.n]));
}

static void push(struct scheduler_link *l, struct place_id id) {
    uint32_t thread = l->wiring->thread_of_served[id.n];
    ring_push(wiring_requests(l->wiring, 0, thread));
    l->model_rung[thread] = true;
    l->pushed++;
}

/* Tells the model's thread more about a queued request. */
static bool request_tell(struct scheduler_link *l, const struct queued_request *last, enum request_message_kind kind) {
    struct request_message *place = place_for(l, last->place);
    if (!place)
        return false;
    *place = (struct request_message){.handle = last->handle,
                                      .deadline_ns = last->deadline_ns,
                                      .shape_key = last->shape_key,
                                      .place = last->place,
                                      .kind = (uint8_t)kind,
                                      .priority = last->priority};
    push(l, last->place);
    return true;
}

bool request_cancel(struct scheduler_link *l, const struct queued_request *last) {
    return request_tell(l, last, REQUEST_CANCELLED);
}

/* Converts times to our clock. By the possible error the deadline becomes earlier and the promise later, so that the
 * request is not late by its client's clock, and its inputs are not later than promised. */
static void times_convert(const struct health *health, const struct request_message *sent, int64_t *arrival_ns,
                          int64_t *deadline_ns, int64_t *ready_ns) {
    *arrival_ns = health_local(health, sent->arrival_ns);
    *deadline_ns = health_local(health, sent->deadline_ns);
    int64_t error_ns = health->error_ns, most_ns = (*deadline_ns - *arrival_ns) / ERROR_PART_MOST;
    error_ns = time_earlier(error_ns, most_ns);
    *deadline_ns -= error_ns;
    *ready_ns = sent->ready_ns > 0 ? health_local(health, sent->ready_ns) : 0;
    if (*ready_ns > 0) /* beyond the deadline it is all the same: the request is refused */
        *ready_ns = *ready_ns < *deadline_ns - error_ns ? *ready_ns + error_ns : *deadline_ns;
}

/* Whether a request's times, by its frontend's clock, are such that nothing overflows. */
static int times_check(const struct request_message *sent, struct sy_error *err) {
    if (sent->arrival_ns < CLOCK_SYNC_TIME_MIN || sent->arrival_ns > CLOCK_SYNC_TIME_MAX ||
        sent->deadline_ns > CLOCK_SYNC_TIME_MAX || sent->deadline_ns < CLOCK_SYNC_TIME_MIN)
        return error_set(err, -EPROTO, "a request whose arrival or deadline is no time of a clock");
    if (sent->deadline_ns - sent->arrival_ns > WIRE_REQUEST_MOST_NS)
        return error_set(err, -EPROTO, "a request with %lld s from its arrival to its deadline: at most %lld",
                         (long long)((sent->deadline_ns - sent->arrival_ns) / NS_PER_S),
                         (long long)(WIRE_REQUEST_MOST_NS / NS_PER_S));
    return 0;
}

static int take_request(struct scheduler_link *l, struct member *m, const struct request_message *sent,
                        struct sy_error *err) {
    struct queued_request *last = last_of(m, sent->handle);
    if (!last || !request_fits(l, sent))
        return error_set(err, -EPROTO, "a request whose numbers will not do");
    if (sent->kind == REQUEST_CANCELLED) {
        if (last->handle == sent->handle && request_cancel(l, last)) /* if there is no room for that, it runs */
            last->cancelled = true;
        return 0;
    }
    if (sent->kind == REQUEST_READY) {
        if (last->handle == sent->handle && last->promised)
            request_tell(l, last, REQUEST_READY); /* a hint: without room for it, the promise counts */
        return 0;
    }
    if (times_check(sent, err) < 0)
        return -EPROTO;
    struct served_place *place = &l->places[sent->place.n];
    l->counters.requests++;
    if (!place_takes(l, sent)) { /* its frontend does not know yet that the model has moved to another place */
        link_lost(l, sent->handle, LOST_PLACE);
        return 0;
    }
    /* Of a slot that is used again nothing waits here any more: so a frontend has no more requests here than slots. */
    bool waits = last->handle && !last->backend && !last->cancelled;
    bool room = l->in_scheduler < l->wiring->port_requests && (!waits || request_cancel(l, last));
    struct request_message *message = room ? place_for(l, sent->place) : NULL;
    if (!message) {
        refuse(l, sent->handle, sent->place, REFUSAL_POOL_FULL);
        return 0;
    }
    int64_t arrival_ns, deadline_ns, ready_ns;
    times_convert(&m->health, sent, &arrival_ns, &deadline_ns, &ready_ns);
    ready_ns = l->config.central_thread ? 0 : ready_ns; /* central policies know no promises */
    *message = *sent; /* do not read back what was just written: that would stall until it is in the cache */
    message->arrival_ns = arrival_ns;
    message->deadline_ns = deadline_ns;
    message->ready_ns = ready_ns;
    message->port = 0;
    *last = (struct queued_request){.handle = sent->handle,
                                    .deadline_ns = deadline_ns,
                                    .shape_key = sent->shape_key,
                                    .place = sent->place,
                                    .priority = sent->priority,
                                    .promised = ready_ns > 0};
    push(l, sent->place);
    l->in_scheduler++;
    place->queued++;
    return 0;
}

/* Wakes the threads that have requests, or takes their turns if there are few (front/request/port.c). */
static void publish_requests(struct scheduler_link *l) {
    struct wiring *w = l->wiring;
    bool help = l->pushed <= WIRING_HELP_MOST;
    for (uint32_t t = 0; t < w->model_threads && l->pushed; t++) {
        if (!l->model_rung[t])
            continue;
        l->model_rung[t] = false;
        if (!ring_publish(wiring_requests(w, 0, t)))
            continue;
        if (wiring_accelerators_free(w))
            doorbell_ring_or_help(&w->model_bells[t], help);
        else
            doorbell_ring_sleeper(&w->model_bells[t], help);
    }
    l->pushed = 0;
}

/* A request was cancelled: because its frontend asked for that, or because its place goes, or because its frontend's
 * connection is lost. In the last case a frontend of the same number may be here again already. It is told nothing: it
 * keeps what was queued when the connection broke, and sends it again, perhaps before this. */
static void take_cancelled(struct scheduler_link *l, const struct refusal_message *message) {
    const struct member *m = member_of(l, message->handle);
    const struct queued_request *last = m ? last_of(m, message->handle) : NULL;
    if (!last || last->handle != message->handle || last->place.n != message->place.n)
        return;
    if (last->cancelled)
        refuse(l, message->handle, message->place, REFUSAL_CANCELLED);
    else if (l->places[message->place.n].recalled)
        link_lost(l, message->handle, LOST_PLACE);
}

/* Whether a best-effort request is refused for want of accelerators while these may just not have joined yet. (Others
 * wait for accelerators until their deadlines.) */
static bool is_early(const struct scheduler_link *l, const struct refusal_message *message) {
    const struct member *m = message->reason == REFUSAL_STRANDED ? member_of(l, message->handle) : NULL;
    const struct queued_request *last = m ? last_of(m, message->handle) : NULL;
    return last && last->handle == message->handle && last->priority == PRIORITY_BEST_EFFORT &&
           clock_now_ns() < l->settled_ns;
}

static bool take_refusals(struct scheduler_link *l) {
    bool more = false;
    for (uint32_t t = 0; t < l->wiring->model_threads; t++) {
        struct ring *ring = wiring_refusals(l->wiring, t, 0);
        const struct refusal_message *message;
        uint32_t n = 0;
        for (; n < TAKE_MOST && (message = ring_peek(ring)); ring_pop(ring), n++) {
            if (message->reason == REFUSAL_CANCELLED)
                take_cancelled(l, message);
            else if (is_early(l, message))
                link_lost(l, message->handle, LOST_PLACE);
            else
                refusal_send(l, message);
            l->in_scheduler--;
            l->places[message->place.n].queued--;
        }
        if (n)
            ring_release(ring);
        more |= n == TAKE_MOST;
    }
    return more;
}

/* ---- plans and their results ---- */

/* What is known of a request's slot; NULL: its frontend is gone. */
static struct queued_request *sent_last(const struct scheduler_link *l, uint64_t handle) {
    const struct member *m = member_of(l, handle);
    return m ? last_of(m, handle) : NULL;
}

/* A backend says that a request is lost. It is believed of the last one to which this scheduler has sent the request;
 * what an earlier scheduler has sent is in a queue here again, or its frontend knows who has it. */
static void take_undelivered(struct scheduler_link *l, const struct member *m, const struct wire_lost *lost) {
    enum lost_reason reason;
    uint64_t handle = lost_read(lost, &reason);
    const struct queued_request *last = sent_last(l, handle);
    if (!last || last->handle != handle || last->backend != m->hello.number)
        return;
    link_lost(l, handle, reason);
    link_report_count(&l->report, m->peer.tally, LINK_LOST, 1);
}

/* Sends a plan to its backend, and keeps it in `sent` until it has ended. */
static void take_plan(struct scheduler_link *l, const struct batch_plan *plan, struct sent_plan *sent) {
    struct accelerator_place *a = &l->accelerators[plan->accelerator];
    struct member *m = a->member;

    l->in_scheduler -= plan->request_count;
    l->places[plan->place.n].queued -= plan->request_count;
    l->counters.batches++;
    uint64_t tag = plan_note(l, a, plan, sent);
    if (!m || m->peer.closed) {
        plans_lose(l, plan->accelerator);
        return;
    }
    for (uint32_t i = 0; i < plan->request_count; i++) {
        struct queued_request *last = sent_last(l, plan->handles[i]);
        if (last && last->handle == plan->handles[i])
            last->backend = (uint16_t)m->hello.number;
    }
    uint32_t passes = pass_maker_begin(l->passes, m->hello.incarnation, plan);
    struct batch_plan *out = peer_frame_more(&m->peer, FRAME_PLANS, wire_plan_bytes(plan->request_count, passes));
    if (!out)
        return; /* the connection is about to be closed, and the plan is lost with it */
    memcpy(out, plan, batch_plan_bytes(plan->request_count));
    pass_maker_end(l->passes, wire_plan_passes(out));
    out->accelerator = a->local;
    out->tag = tag;
    out->place.n = m->remote_of_known[l->places[plan->place.n].known].n;
}

static bool take_plans(struct scheduler_link *l) {
    bool more = false;
    for (uint32_t t = 0; t < l->wiring->model_threads; t++) {
        struct ring *ring = wiring_plans(l->wiring, t, 0);
        const struct batch_plan *plan;
        uint32_t n = 0;
        for (; n < TAKE_MOST && (plan = ring_peek(ring)); n++) {
            uint32_t slots = batch_plan_slots(plan->request_count);
            struct sent_plan *sent = plan_memory_take(&l->free_plans, sizeof(*sent), plan->request_count);
            if (!sent) { /* it stays in the ring until there is memory */
                more = true;
                break;
            }
            take_plan(l, plan, sent);
            ring_pop_run(ring, slots);
        }
        if (n)
            ring_release(ring);
        more |= n == TAKE_MOST;
    }
    return more;
}

static int take_freed(struct scheduler_link *l, struct member *m, const struct freed_message *freed,
                      struct sy_error *err) {
    if (!m->told || freed->accelerator >= m->accelerator_count || freed->news > NEWS_JOINS)
        return error_set(err, -EPROTO, "news of an accelerator that it has not");
    struct freed_message local = *freed;
    local.accelerator = m->accelerators[freed->accelerator];
    local.type = l->accelerators[local.accelerator].class;
    local.ended_ns = health_local(&m->health, freed->ended_ns);
    if (freed->news == NEWS_JOINS && !accelerator_may_join(l))
        return error_set(err, -EPROTO, "its accelerators come and go faster than the scheduler can follow");
    if (freed->news != NEWS_ENDED)
        member_accelerator_news(l, local.accelerator, freed->news);
    else if (!plan_ended(l, &local))
        return error_set(err, -EPROTO, "the end of a batch that was not sent");
    return 0;
}

static int take_ran(struct scheduler_link *l, struct member *m, const struct ran_message *as_sent,
                    struct sy_error *err) {
    struct ran_message ran = *as_sent;
    ran.dispatch_ns = ran.dispatch_ns < 0 ? -1 : ran.dispatch_ns; /* the scheduler's clock was ahead */
    if (!m->told || ran.accelerator >= m->accelerator_count || ran.variant.n >= l->wiring->models || ran.items < 1 ||
        ran.items > PROFILE_BATCH_MAX || ran.run_ns < 0 || ran.gather_ns < 0 || ran.news != NEWS_ENDED)
        return error_set(err, -EPROTO, "a run whose numbers will not do");
    ran.accelerator = m->accelerators[ran.accelerator];
    ran.type = l->accelerators[ran.accelerator].class;
    return plan_measured(l, &ran, err);
}

/* ---- frames ---- */

int frontend_frame(struct scheduler_link *l, struct member *m, const struct frame *frame, const void *head,
                   struct sy_error *err) {
    switch (frame->kind) {
    case FRAME_REQUESTS: {
        const struct wire_request *requests = head;
        int rc = 0;
        for (uint32_t i = 0; i < frame->count && rc == 0; i++) {
            if (i + AHEAD < frame->count)
                __builtin_prefetch(last_of(m, requests[i + AHEAD].handle), 1);
            struct request_message message = wire_request_message(&requests[i]);
            rc = take_request(l, m, &message, err);
        }
        return rc;
    }
    case FRAME_ROLLOUTS:
        scheduler_rollouts_heard(l, head, frame->head_bytes, false);
        return 0;
    case FRAME_MODEL_LEFT:
        for (uint32_t i = 0; i < frame->count; i++)
            place_left(l, m, ((const uint32_t *)head)[i]);
        return 0;
    default:
        return error_set(err, -EPROTO, "a frontend does not send frames of kind %u", frame->kind);
    }
}

int backend_frame(struct scheduler_link *l, struct member *m, const struct frame *frame, const void *head,
                  struct sy_error *err) {
    int rc = 0;
    switch (frame->kind) {
    case FRAME_MODEL:
        return member_model(l, m, head, frame->head_bytes, err);
    case FRAME_MODEL_ENDS:
        for (uint32_t i = 0; i < frame->count && rc == 0; i++)
            rc = member_model_ends(l, m, ((const struct remote_id *)head)[i], err);
        return rc;
    case FRAME_ACCELERATORS:
        return member_accelerators(l, m, head, frame->count, err);
    case FRAME_TOLD:
        l->look_ns = 0;
        if (++l->told == l->config.backends)
            l->settled_ns = clock_now_ns();
        return member_told(l, m, err);
    case FRAME_ROLLOUTS:
        scheduler_rollouts_heard(l, head, frame->head_bytes, false);
        return 0;
    case FRAME_ASIDE:
        json_decref(m->aside);
        m->aside = aside_read(head, frame->head_bytes, err);
        return m->aside ? 0 : -EPROTO;
    case FRAME_FREED:
        for (uint32_t i = 0; i < frame->count && rc == 0; i++)
            rc = take_freed(l, m, &((const struct freed_message *)head)[i], err);
        return rc;
    case FRAME_RAN:
        for (uint32_t i = 0; i < frame->count && rc == 0; i++)
            rc = take_ran(l, m, &((const struct ran_message *)head)[i], err);
        return rc;
    case FRAME_MEMORY:
        return memory_described(l, m, head, err);
    case FRAME_MOVED: {
        int64_t now_ns = clock_now_ns();
        for (uint32_t i = 0; i < frame->count && rc == 0; i++)
            rc = memory_moved(l, m, &((const struct wire_moved *)head)[i], now_ns, err);
        return rc;
    }
    case FRAME_CORDON:
    case FRAME_UNCORDON:
        m->cordoned = frame->kind == FRAME_CORDON;
        return 0;
    case FRAME_UNDELIVERED:
        for (uint32_t i = 0; i < frame->count; i++)
            take_undelivered(l, m, &((const struct wire_lost *)head)[i]);
        return 0;
    default:
        return error_set(err, -EPROTO, "a backend does not send frames of kind %u", frame->kind);
    }
}

/* ---- leading ---- */

static void beat(void *context, const struct wire_heartbeat *heartbeat) {
    struct scheduler_link *l = context;
    list_for_each_entry (m, &l->members, struct member, node)
        if (m->known && m->hello.role == ROLE_SCHEDULER && !m->peer.closed)
            peer_send(&m->peer, FRAME_HEARTBEAT, 1, heartbeat, sizeof(*heartbeat));
}

static void lead(void *context, uint64_t term) {
    struct scheduler_link *l = context;
    l->config.self.term = term;
    int64_t beats_ns = SETTLE_BEATS * l->config.beat_ns;
    l->settled_ns = l->config.backends ? TIME_NEVER : clock_now_ns() + (beats_ns > SETTLE_NS ? beats_ns : SETTLE_NS);
    l->look_ns = 0;
    atomic_store_explicit(&l->leads, true, memory_order_relaxed); /* other threads read it now and then */
    log_info("leads", "term=%llu", (unsigned long long)term);
}

/* Whether members show a token or a certificate. */
static bool trusts(const struct scheduler_link *l) {
    return l->config.auth || l->config.tls;
}

void link_term_told(struct scheduler_link *l, uint64_t term) {
    if (l->standby)
        standby_told(l->standby, term);
    else if (term > l->config.self.term && term < ELECTION_TERM_MAX &&
             (trusts(l) || term - l->config.self.term <= ELECTION_NEAR))
        lead(l, term + 1);
}

/* Another scheduler leads, or may lead: drops all members, which find it. Our state is lost; the members know what to
 * send again. */
static void stand_down(void *context) {
    struct scheduler_link *l = context;
    atomic_store_explicit(&l->leads, false, memory_order_relaxed); /* as above */
    log_warn("leads no more", "term=%llu", (unsigned long long)l->config.self.term);
    list_for_each_safe (node, &l->members) {
        struct member *m = list_entry(node, struct member, node);
        if (m->known && m->hello.role != ROLE_SCHEDULER)
            member_drop(l, m, "this scheduler leads no more");
    }
}

bool scheduler_link_leads(const struct scheduler_link *l) {
    return atomic_load_explicit(&l->leads, memory_order_relaxed); /* as above */
}

static void rollouts_heard(void *context, const char *text) {
    scheduler_rollouts_heard(context, text, strlen(text), true);
}

static void rollouts_recorded(void *context, bool done) {
    scheduler_rollouts_recorded(context, done);
}

static const struct standby_ops standby_ops = {lead, beat, stand_down, rollouts_heard, rollouts_recorded};

/* ---- turns ---- */

/* The classes of which an accelerator is in service, or soon will be, a bit each. */
static uint64_t classes_serving(const struct scheduler_link *l) {
    uint64_t serving = 0;
    for (uint32_t a = 0; a < l->accelerators_most; a++) {
        const struct accelerator_place *place = &l->accelerators[a];
        const struct member *m = place->member;
        if (!place->up && !(m && place->joined))
            continue;
        serving |= 1ULL << place->class;
        for (uint32_t i = 0; m && i < m->class_count; i++)
            serving |= m->classes[i] == place->class ? 1ULL << m->targets[i] : 0;
    }
    return serving;
}

/* Copies the models that are served. False: no memory. */
static bool report_models(struct scheduler_link *l, uint64_t serving) {
    if (!link_report_models_begin(&l->report, l->catalogue->known_count))
        return false;
    for (uint32_t i = 0; i < l->catalogue->known_count; i++) {
        const struct known_model *known = &l->catalogue->known[i];
        if (known->model && known->place != CATALOGUE_NONE)
            link_report_add_model(&l->report, known->place, known->model,
                                  (catalogue_runs_on(l->catalogue, i) & serving) == 0);
    }
    link_report_models_end(&l->report);
    return true;
}

static void report(struct scheduler_link *l, int64_t now_ns, int64_t *until_ns) {
    if (!link_report_begin(&l->report, now_ns, until_ns))
        return;
    uint64_t serving = classes_serving(l);
    list_for_each_entry (m, &l->members, const struct member, node) {
        if (m->known)
            link_report_add(&l->report, m->hello.name, m->hello.role, m->hello.number, &m->peer, &m->health, now_ns);
        if (m->known)
            link_report_add_peer(&l->report, m->metrics, scheduler_speed_of(m));
    }
    l->models_moved |= serving != l->serving_told;
    l->serving_told = serving;
    if (l->models_moved)
        l->models_moved = !report_models(l, serving);
    link_report_end(&l->report, &(struct link_totals){.role = ROLE_SCHEDULER,
                                                      .ready = scheduler_link_leads(l),
                                                      .term = l->config.self.term,
                                                      .lost = l->counters.lost,
                                                      .requests = l->counters.requests,
                                                      .batches = l->counters.batches,
                                                      .requests_now = l->in_scheduler,
                                                      .models = l->report.model_count,
                                                      .accelerators = l->accelerators_there});
}

static int64_t turn(void *owner, int64_t now_ns) {
    struct scheduler_link *l = owner;
    int64_t until_ns = TIME_NEVER;

    if (l->standby)
        standby_look(l->standby, now_ns, &until_ns);
    if (l->standby && atomic_load_explicit(&l->resigns, memory_order_relaxed)) { /* with scheduler_link_stop() */
        bool waits = l->resigning ? scheduler_link_leads(l) : standby_resign(l->standby);
        l->resigning = true;
        if (!waits)
            atomic_store_explicit(&l->resigned, true, memory_order_relaxed); /* who waits looks again */
    }
    members_look(l, now_ns, &until_ns);
    scheduler_rollouts_look(l, now_ns, &until_ns);
    scheduler_speed_look(l, now_ns, &until_ns);
    ghosts_look(l);
    plans_look(l, now_ns, &until_ns);
    publish_reports(l);
    publish_requests(l);
    bool more = take_refusals(l);
    more |= take_plans(l);
    memory_take_orders(l);
    loads_take_orders(l);
    bool busy = places_look(l, now_ns, &until_ns); /* places may go whose last requests and plans these were */
    memory_look(l, now_ns, &until_ns);
    publish_reports(l);
    publish_requests(l);
    report(l, now_ns, &until_ns);
    description_look(l);
    if (busy || l->ghosts)
        until_ns = time_earlier(now_ns + SCHEDULER_LOOK_NS, until_ns);
    return more ? 0 : until_ns;
}

static bool pending(void *owner) {
    struct scheduler_link *l = owner;
    if ((l->standby && standby_pending(l->standby)) || places_pending(l) || memory_pending(l) || loads_pending(l))
        return true;
    for (uint32_t t = 0; t < l->wiring->model_threads; t++)
        if (ring_pending(wiring_refusals(l->wiring, t, 0)) || ring_pending(wiring_plans(l->wiring, t, 0)))
            return true;
    return false;
}

static const struct link_loop_ops loop_ops = {turn, pending, members_accept, members_bury};

/* ---- start and end ---- */

void scheduler_link_free(struct scheduler_link *l) {
    if (!l)
        return;
    for (struct member *m = l->ghosts, *next; m; m = next) {
        next = m->next;
        member_free(m);
    }
    standby_destroy(l->standby);
    scheduler_rollouts_free(l);
    places_free(l);
    link_report_free(&l->report);
    free(l->model_rung);
    free(l->by_number);
    free(l->passes);
    free(l);
}

int scheduler_link_start(struct scheduler_link **link, const struct scheduler_link_config *config,
                         struct sy_error *err) {
    struct scheduler_link *l = calloc(1, sizeof(*l));
    int rc = -ENOMEM;

    if (!l)
        return error_set(err, rc, "no memory for the cluster's members");
    l->config = *config;
    l->wiring = config->wiring;
    list_init(&l->members);
    list_init(&l->strangers);
    list_init(&l->free_plans);
    link_report_init(&l->report);
    l->started_ns = clock_now_ns();
    l->plan_tag = config->self.incarnation; /* so that tags of other schedulers are not mistaken for ours */
    hello_formats(&l->config.self);
    l->config.self.role = ROLE_SCHEDULER;
    l->config.self.promises = !config->central_thread;
    l->memory_ns = TIME_NEVER;
    l->by_number = calloc(HELLO_NUMBERS, sizeof(*l->by_number));
    l->passes = calloc(1, sizeof(*l->passes));
    l->model_rung = calloc(l->wiring->model_threads, sizeof(bool));
    if (!l->by_number || !l->passes || !l->model_rung || places_init(l) < 0 || scheduler_rollouts_init(l) < 0) {
        error_set(err, rc, "no memory for the cluster's members");
        goto err_free;
    }
    rc = link_loop_init(&l->loop, &loop_ops, l, wiring_link_bell(l->wiring), config->listen_fd, config->tls, err);
    if (rc < 0)
        goto err_free;
    if (config->local && (rc = link_loop_listen_local(&l->loop, config->local)) < 0) {
        error_set(err, rc, "no Unix socket for the cluster's members: %s", strerror(-rc));
        goto err_free;
    }
    const struct standby_config standby = {
        .peers = config->peers,
        .peer_count = config->peer_count,
        .seniority = config->seniority,
        .registry = config->registry,
        .self = l->config.self,
        .trusts = trusts(l),
    };
    if (config->peer_count == 0 && !config->registry)
        lead(l, 1);
    else if ((rc = standby_create(&l->standby, &standby, &l->loop, &standby_ops, l, err)) < 0)
        goto err_free;
    if ((rc = link_loop_start(&l->loop, "link", err)) < 0)
        goto err_free;
    *link = l;
    return 0;

err_free:
    link_loop_stop(&l->loop);
    scheduler_link_free(l);
    return rc;
}

void scheduler_link_stop(struct scheduler_link *l) {
    if (!l)
        return;
    int64_t until_ns = clock_now_ns() + RESIGN_MOST_NS;
    atomic_store_explicit(&l->resigns, true, memory_order_relaxed); /* a lone flag */
    while (l->standby && !atomic_load_explicit(&l->resigned, memory_order_relaxed) && clock_now_ns() < until_ns) {
        doorbell_ring(l->loop.bell);
        clock_sleep(RESIGN_LOOK_NS);
    }
    link_loop_stop(&l->loop);
}

struct link_report *scheduler_link_report(struct scheduler_link *l) {
    return &l->report;
}

struct link_loop *scheduler_link_loop(struct scheduler_link *l) {
    return &l->loop;
}
