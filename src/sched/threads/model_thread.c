/* model_thread.c - polls its rings, steps its model cores, and says what they decided. */
#include "sched/threads/model_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/system/clock.h"
#include "core/system/thread.h"
#include "core/util/assert.h"
#include "core/util/counter.h"
#include "sched/core/arrival_rates.h"
#include "sched/core/policy.h"
#include "sched/threads/model_thread_state.h"

#define GRANTS_MAX        32 /* messages taken from one rank thread a turn: batches are published at its end */
#define TIMERS_MAX        64 /* timers of cores that are handled in a turn */
#define SHAPES_MAX        64 /* waiting requests that get a variant, and variants given to them, in a turn */
#define ENOUGH            64 /* requests taken from one ring a turn, if a grant waits */
#define BUSY_EVERY_NS     (5 * NS_PER_MS)
#define BUSY_TURN_NS      (200 * NS_PER_US) /* time of a turn, at most; the thread was interrupted in a longer one */
#define DELAYS_MOST       32                /* models that learn of new delays in a turn */
#define PREFETCH_FROM     64 /* variants from which on lines are prefetched; fewer stay in the cache anyway */
#define PREFETCH_REQUESTS 48 /* requests of a batch that are prefetched */

/* Steps a core and takes in all it says except the batch, which only a grant brings. */
static void variant_step(struct model_thread *t, struct variant *v, int64_t now, const struct model_event *event) {
    struct model_output *out = &t->out;

    model_core_step(v->core, now, event, out);
    if (__builtin_expect(t->log != NULL, 0))
        decision_model_step(t->log, v->id, t->types, now, event, out, &t->rings.pool);
    rings_refuse_list(&t->rings, out->refused);
    if (out->rates_changed) {
        t->rates[v - t->variants] = out->rates;
        v->rates_known = true;
        thread_note_load(t, v, &out->rates);
        thread_note_rates(t, v);
    }
    if (event->kind == MODEL_ARRIVING)
        return;
    if (out->candidate_changed)
        thread_tell_candidate(t, v, event->kind == MODEL_SETTLED ? v->origin_ns : now);
    if (out->wake_ns == TIME_NEVER)
        heap_remove(&t->timers, (uint32_t)(v - t->variants));
    else
        heap_set(&t->timers, (uint32_t)(v - t->variants), out->wake_ns);

    uint32_t queued = model_core_queued(v->core);
    if (queued != v->queued) {
        rings_queued_add(&t->rings, v->model, (int32_t)(queued - v->queued));
        v->queued = queued;
        t->emptied |= queued == 0;
    }
}

/* ---- requests ---- */

/* A thread that has no time left gets further and further behind. Late requests make small batches, which cost the
 * thread more time than large ones, so in the end all batches would have one request. Instead the thread, while it is
 * busy for more than POLICY_FULL of its time, refuses requests that waited for it for more than POLICY_LATELY of their
 * time, that is for longer than a burst lasts (bench/rules.py --stress shows what that brings). Requests that wait
 * after a pause of a less busy thread are served: it has time for them. */
static bool too_late(const struct model_thread *t, int64_t now, const struct request_message *message) {
    double waited_ns = (double)(now - message->arrival_ns),
           time_ns = (double)(message->deadline_ns - message->arrival_ns);
    return t->busy > POLICY_FULL && waited_ns > POLICY_LATELY * time_ns;
}

/* Whether requests that wait for a variant leave no room for one more request within the model's limits. */
static bool shapes_fill(const struct model_thread *t, struct thread_model_id model,
                        const struct request_message *message) {
    return t->shapes.count && shape_queue_is_full(&t->shapes, model.n, message->priority, thread_levels(t, model));
}

/* The batches of a model's variants, but of `except`, wait for no company if their first requests arrived by by_ns. */
static void hurry(struct model_thread *t, int64_t now, struct thread_model_id model, const struct variant *except,
                  int64_t by_ns) {
    struct variant_range range = thread_variants(t, model);

    for (struct variant *v = range.first; v < range.first + range.count; v++)
        if (v != except && v->serving && !(by_ns <= now && model_core_idle(v->core)))
            variant_step(t, v, now, &(struct model_event){.kind = MODEL_HURRIED, .hurried_ns = by_ns});
}

/* One request of a model less waits for a variant. While some do, no batch of that model waits for company. */
static void shape_left(struct model_thread *t, int64_t now, struct thread_model_id model) {
    rings_queued_add(&t->rings, model, -1);
    if (shape_queue_count(&t->shapes, model.n) == 0)
        hurry(t, now, model, NULL, now);
}

/* A variant for an arrival whose shape has none. NULL: the request waits for one, or was refused. */
static struct variant *variant_for(struct model_thread *t, int64_t now, struct thread_model_id model,
                                   const struct request_message *message) {
    const struct queue_rules *rules = rings_model(&t->rings, model)->queue;
    int64_t latest_ns = thread_latest_start(t, model, message);
    bool best_effort = message->priority == PRIORITY_BEST_EFFORT;
    bool delayed = !best_effort && rules && queue_rules_delays(rules) >> message->priority & 1;
    enum refusal refusal = REFUSAL_NONE;

    /* no other shape's core, with all that it has learned, is given up for a request that is too late */
    if (now > latest_ns && !best_effort && !delayed)
        refusal = REFUSAL_DEADLINE;
    struct variant *v = !refusal && shape_queue_count(&t->shapes, model.n) == 0
                            ? thread_variant_take(t, model, message->shape_key, message->work)
                            : NULL;
    if (v)
        return v;
    if (!refusal)
        refusal = shape_queue_add(&t->shapes, model.n, message, latest_ns, delayed, thread_levels(t, model));
    if (refusal)
        rings_refuse(&t->rings, model, message->port, message->handle, refusal);
    else
        rings_queued_add(&t->rings, model, 1);
    if (!refusal && shape_queue_count(&t->shapes, model.n) == 1)
        hurry(t, now, model, NULL, TIME_NEVER);
    return NULL;
}

/* A request that waited for a variant is refused. */
static void refuse_waiting(struct model_thread *t, int64_t now, uint32_t node) {
    struct request_node *request = &t->rings.pool.nodes[node];
    struct thread_model_id model = rings_model_of(&t->rings, (struct place_id){request->model});

    if (request->refusal == REFUSAL_DEADLINE && model_core_stranded(thread_variants(t, model).first->core))
        request->refusal = REFUSAL_STRANDED;
    shape_left(t, now, model);
    rings_refuse_list(&t->rings, node);
}

/* Whether a message is about a request that waits for a variant. */
static bool told_of_waiting(struct model_thread *t, int64_t now, struct thread_model_id model,
                            const struct request_message *message) {
    if (message->kind == REQUEST_READY)
        return shape_queue_ready(&t->shapes, model.n, message);
    uint32_t node = shape_queue_cancel(&t->shapes, model.n, message);
    if (node != REQUEST_NONE)
        refuse_waiting(t, now, node);
    return node != REQUEST_NONE;
}

/* settle_arrivals() is to settle a variant's arrivals, the first of which was handed over at origin_ns. */
static void arrival_note(struct model_thread *t, struct variant *v, int64_t origin_ns) {
    if (v->arriving)
        return;
    v->arriving = true;
    v->origin_ns = origin_ns;
    t->arriving[t->arriving_count++] = (uint32_t)(v - t->variants);
}

/* Whether no accelerator has the model, as far as its first variant was told. */
static bool cold(const struct model_thread *t, struct thread_model_id model) {
    return t->memory[thread_variants(t, model).first - t->variants].there_ns != INT64_MIN;
}

static void take_request(struct model_thread *t, int64_t now, const struct request_message *message) {
    struct thread_model_id model = rings_model_of(&t->rings, message->place);
    bool arrived = message->kind == REQUEST_ARRIVED;

    if (arrived)
        recorder_note(&t->rings.recorder, message);
    if (arrived && t->memory && cold(t, model))
        memory_counter_add(&t->rings.wiring->memory_counters[message->place.n].cold);
    enum refusal full = !arrived                                       ? REFUSAL_NONE
                        : t->rings.pool.used == t->rings.pool.capacity ? REFUSAL_POOL_FULL
                        : too_late(t, now, message)                    ? REFUSAL_THREAD_BUSY
                        : shapes_fill(t, model, message)               ? REFUSAL_QUEUE_FULL
                                                                       : REFUSAL_NONE;

    if (full) {
        rings_refuse(&t->rings, model, message->port, message->handle, full);
        return;
    }
    if (!arrived && t->shapes.count && told_of_waiting(t, now, model, message))
        return;
    struct variant *v = thread_variant_find(t, model, message->shape_key);
    if (!v && arrived)
        v = variant_for(t, now, model, message);
    if (!v)
        return;
    if (arrived) {
        v->used_ns = now;
        t->requests++;
        if (message->arrival_ns < t->oldest_ns)
            t->oldest_ns = message->arrival_ns;
        arrival_note(t, v, message->arrival_ns);
    }
    enum model_event_kind kind = arrived                          ? MODEL_ARRIVING
                                 : message->kind == REQUEST_READY ? MODEL_PREPARED
                                                                  : MODEL_CANCELLED;
    variant_step(t, v, now, &(struct model_event){.kind = kind, .request = message});
    if (arrived && __builtin_expect(t->policy->shapes_flush, 0) && shape_queue_count(&t->shapes, model.n) == 0)
        hurry(t, now, model, v, message->arrival_ns > now ? message->arrival_ns : now); /* it may come in mid-turn */
}

/* Takes a group of requests from a ring. A request touches some fifteen cache lines of its model. With many models,
 * most of the time would be spent waiting for these lines one after the other, so they are prefetched for the whole
 * group. */
static uint32_t take_group(struct model_thread *t, int64_t now, struct ring *ring) {
    uint32_t count = ring_ready(ring, RINGS_GROUP), known = 0;

    if (t->active >= PREFETCH_FROM) {
        const struct variant *soon[RINGS_GROUP];
        for (uint32_t i = 0; i < count; i++) {
            const struct request_message *message = ring_peek_ahead(ring, i);
            struct variant_range range = thread_variants(t, rings_model_of(&t->rings, message->place));
            soon[known] = range.first;
            known += range.count > 0; /* a cancellation may be later than its model's end */
            __builtin_prefetch(range.first, 1);
        }
        for (uint32_t i = 0; i < known; i++) {
            model_core_prefetch(soon[i]->core);
            candidate_board_prefetch(&t->rings.wiring->candidates, soon[i]->id);
        }
        for (uint32_t i = 0; i < known; i++)
            model_core_prefetch_arrival(soon[i]->core);
    }
    for (uint32_t i = 0; i < count; i++, ring_pop(ring))
        take_request(t, now, ring_peek_ahead(ring, 0));
    return count;
}

static bool grants_wait(const struct model_thread *t) {
    for (uint32_t k = 0; k < t->rings.wiring->rank_threads; k++)
        if (!t->held_up[k] && ring_pending(thread_grants(t, k)))
            return true;
    return false;
}

static bool poll_requests(struct model_thread *t, int64_t now) {
    struct wiring *w = t->rings.wiring;
    bool any = false;

    for (uint32_t f = 0; f < w->frontends; f++) {
        struct ring *ring = wiring_requests(w, f, t->rings.index);
        uint32_t taken = 0, count;
        for (; taken < RINGS_POLL_MAX && (count = take_group(t, now, ring)); taken += count) {
            any = true;
            if (taken + count >= ENOUGH && grants_wait(t))
                break;
        }
        ring_release(ring);
    }
    return any;
}

/* All arrivals of this turn are taken: each variant that has some settles them once. */
static void settle_arrivals(struct model_thread *t, int64_t now) {
    for (uint32_t i = 0; i < t->arriving_count; i++) {
        struct variant *v = &t->variants[t->arriving[i]];
        v->arriving = false;
        variant_step(t, v, now, &(struct model_event){.kind = MODEL_SETTLED});
    }
    t->arriving_count = 0;
}

/* Gives idle variants of a model to shapes that wait for a variant, and then the shapes' requests to the variants.
 * Takes at most SHAPES_MAX - `done` steps. Returns `done` plus the steps taken. */
static uint32_t serve_shapes(struct model_thread *t, int64_t now, struct thread_model_id model, uint32_t done) {
    struct request_message message;

    for (; done < SHAPES_MAX; done++) {
        if (!shape_queue_take(&t->shapes, model.n, &message)) {
            const struct request_message *next = shape_queue_next(&t->shapes, model.n);
            struct variant *given = next ? thread_variant_take(t, model, next->shape_key, next->work) : NULL;
            if (!given)
                break;
            shape_queue_fill(&t->shapes, model.n, next->shape_key);
            variant_step(t, given, now, &(struct model_event){.kind = MODEL_HURRIED, .hurried_ns = TIME_NEVER});
            continue;
        }
        struct variant *v = thread_variant_find(t, model, message.shape_key);
        CHECK(v); /* requests that wait go to the shape that a variant was given to last */
        v->used_ns = now;
        arrival_note(t, v, now);
        variant_step(t, v, now, &(struct model_event){.kind = MODEL_ARRIVING, .request = &message});
        shape_left(t, now, model);
    }
    t->emptied |= done == SHAPES_MAX;
    return done;
}

/* Refuses late requests that wait for a variant, and gives idle variants to the others. True: there was something to
 * do. */
static bool poll_shapes(struct model_thread *t, int64_t now) {
    uint32_t node, done = 0;

    for (; done < SHAPES_MAX && (node = shape_queue_late(&t->shapes, now)) != REQUEST_NONE; done++)
        refuse_waiting(t, now, node);
    if (t->emptied) {
        t->emptied = false;
        for (uint32_t i = t->shapes.busy_count; i-- > 0;) /* a model that has none left gives its place to the last */
            done = serve_shapes(t, now, (struct thread_model_id){t->shapes.busy[i]}, done);
        settle_arrivals(t, now);
    }
    return done > 0;
}

/* ---- grants ---- */

/* Seals the batch that the core just formed and sends it to the accelerator. */
static void send_plan(struct model_thread *t, const struct variant *v, int64_t now, uint32_t accelerator) {
    const struct model_output *out = &t->out;
    struct sealed_batch batch = {
        .model = v->model,
        .variant = v->id,
        .generation = v->generation,
        .accelerator = accelerator,
        .first = out->batch,
        .requests = out->batch_requests,
        .items = out->batch_items,
        .earliest_ns = INT64_MIN,
        .latest_ns = TIME_NEVER,
        .tag = (uint64_t)out->batch_run_ns,
        .ready_ns = out->batch_ready_ns,
        .run_ns = out->batch_run_ns,
    };

    rings_send(&t->rings, now, &batch); /* poll_grants() made sure that there is room */
}

/* Counts the times that the decisions since the last call took until now. The decisions have been published, unless
 * `answered` was full in the middle of a turn. */
static void take_times(struct model_thread *t) {
    if (!t->requests && !t->answered_count)
        return;
    int64_t now = clock_now_ns();
    if (t->requests) {
        histogram_add_times(&t->times.candidate, now - t->oldest_ns, t->requests);
    }
    for (uint32_t i = 0; i < t->answered_count; i++) {
        histogram_add(&t->times.plan, now - t->answered[i].granted_ns);
        histogram_add(&t->times.decision, now - t->answered[i].due_ns);
    }
    t->requests = t->answered_count = 0;
    t->oldest_ns = TIME_NEVER;
}

static void take_grant(struct model_thread *t, int64_t now, const struct grant_message *grant) {
    struct variant *v = thread_variant_at(t, grant->variant);

    if (grant->kind == GRANT_LEFT) {
        thread_variant_left(t, v);
        return;
    }
    if (grant->kind == GRANT_MEMORY) {
        t->memory[v - t->variants] = (struct variant_memory){.there_ns = grant->there_ns, .load_ns = grant->load_ns};
        if (v->serving)
            variant_step(t, v, now, &(struct model_event){.kind = MODEL_MEMORY, .grant = grant});
        return;
    }
    if (grant->kind == GRANT_PARAMETERS) {
        if (v->serving)
            variant_step(t, v, now, &(struct model_event){.kind = MODEL_PARAMETERS, .grant = grant});
        return;
    }
    variant_step(t, v, now, &(struct model_event){.kind = MODEL_GRANTED, .grant = grant});

    thread_answer(t, v, now, grant);
    if (t->out.batch == REQUEST_NONE)
        return;
    if (t->answered_count == ANSWERED_MAX)
        take_times(t);
    t->answered[t->answered_count].granted_ns = grant->granted_ns;
    t->answered[t->answered_count++].due_ns = grant->due_ns;
    send_plan(t, v, now, grant->accelerator);
}

/* Prefetches what the waiting grants will touch; the walks through their batches go side by side. */
static void prefetch_grants(struct model_thread *t, struct ring *ring) {
    uint32_t count = ring_ready(ring, RINGS_GROUP), nodes[RINGS_GROUP], left = 0;
    const struct variant *soon[RINGS_GROUP];

    for (uint32_t i = 0; i < count; i++) {
        const struct grant_message *message = ring_peek_ahead(ring, i);
        soon[left] = thread_variant_at(t, message->variant);
        left += message->kind == GRANT_ACCELERATOR;
        if (message->kind == GRANT_PARAMETERS && soon[left]->core)
            model_core_prefetch_parameters(soon[left]->core);
    }
    for (uint32_t i = 0; i < left; i++) {
        model_core_prefetch(soon[i]->core);
        nodes[i] = REQUEST_NONE;
    }
    for (uint32_t i = 0; i < left; i++)
        rings_prefetch_send(&t->rings, soon[i]->model, model_core_items(soon[i]->core, 0));
    for (uint32_t step = 0; step < PREFETCH_REQUESTS; step++)
        for (uint32_t i = 0; i < left; i++)
            if (step == 0 || nodes[i] != REQUEST_NONE)
                nodes[i] = model_core_prefetch_batch(soon[i]->core, nodes[i]);
}

static bool poll_grants(struct model_thread *t, int64_t now) {
    bool any = false;

    t->any_held_up = false;
    for (uint32_t k = 0; k < t->rings.wiring->rank_threads; k++) {
        struct ring *ring = thread_grants(t, k);
        const struct grant_message *message;
        t->held_up[k] = false;
        for (uint32_t taken = 0; taken < GRANTS_MAX && (message = ring_peek(ring)); ring_pop(ring), taken++) {
            t->held_up[k] = message->kind == GRANT_ACCELERATOR && !rings_fit(&t->rings, message->accelerator);
            if (t->held_up[k])
                break;
            if (taken % RINGS_GROUP == 0 && t->active >= PREFETCH_FROM)
                prefetch_grants(t, ring);
            take_grant(t, now, message);
            any = true;
        }
        ring_release(ring);
        t->any_held_up |= t->held_up[k];
    }
    return any;
}

/* ---- runs, delays, moves, timers ---- */

static void take_ran(void *thread, int64_t now, const struct ran_message *ran) {
    struct model_thread *t = thread;
    struct variant *v = thread_variant_at(t, ran->variant);

    rings_ran(&t->rings, v->model, ran);
    if (ran->run_ns > 0)
        rings_error_add(&t->rings, CENTRAL_RUN, (int64_t)ran->tag, ran->run_ns); /* the tag that send_plan() gave it */
    if (ran->late == 0 && (ran->run_ns == 0 || !t->learn)) /* the core would learn nothing from it */
        return;
    if (ran->generation != v->generation || !v->serving)
        return;
    variant_step(t, v, now, &(struct model_event){.kind = MODEL_RAN, .ran = ran});
    const struct profile *profile = model_core_profile(v->core, ran->type);
    if (profile)
        atomic_store_explicit(&t->rings.counters[v->model.n].latency_one_ns, profile->latency_ns[1],
                              memory_order_relaxed);
}

/* Prefetches the counters that a group of runs will change. */
static void prefetch_ran(void *thread, struct ring *ring) {
    struct model_thread *t = thread;
    uint32_t count = t->active >= PREFETCH_FROM ? ring_ready(ring, RINGS_GROUP) : 0;
    const struct variant *soon[RINGS_GROUP];

    for (uint32_t i = 0; i < count; i++) {
        const struct ran_message *ran = ring_peek_ahead(ring, i);
        soon[i] = thread_variant_at(t, ran->variant);
        __builtin_prefetch(soon[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        rings_prefetch_ran(&t->rings, soon[i]->model, ring_peek_ahead(ring, i));
}

/* Lets the cores' delay(b) follow the measured dispatch and gathering, some models a turn. True if it did. */
static bool follow_delays(struct model_thread *t, int64_t now) {
    uint32_t models = t->rings.model_count, told = 0;

    if (rings_follow_delays(&t->rings, now))
        t->delays_left = models;
    for (; t->delays_left && told < DELAYS_MOST; t->delays_left--, told++) {
        struct thread_model_id model = {models - t->delays_left};
        struct variant_range range = thread_variants(t, model);
        struct model_event event = {.kind = MODEL_DELAYS};
        if (range.count > 0)
            rings_delays(&t->rings, model, &event.delays.ctrl_ns, &event.delays.data_ns);
        for (struct variant *v = range.first; v < range.first + range.count; v++)
            if (v->serving)
                variant_step(t, v, now, &event);
    }
    return told > 0;
}

static bool poll_moves(struct model_thread *t) {
    struct ring *ring = &t->rings.wiring->moves[t->rings.index];
    const struct model_move *move;
    bool any = false;

    for (; (move = ring_peek(ring)); ring_pop(ring)) {
        thread_take_move(t, move);
        any = true;
    }
    if (any)
        ring_release(ring);
    return any;
}

static bool poll_timers(struct model_thread *t, int64_t now) {
    bool any = false;

    for (uint32_t n = 0; n < TIMERS_MAX && !heap_empty(&t->timers) && heap_top(&t->timers).key <= now; n++) {
        struct variant *v = &t->variants[heap_top(&t->timers).item];
        heap_remove(&t->timers, heap_top(&t->timers).item);
        variant_step(t, v, now, &(struct model_event){.kind = MODEL_TIMER});
        any = true;
    }
    return any;
}

/* ---- the loop ---- */

/* Publishes the turn's messages. Answers go before the plans they speak of: an accelerator that is soon free again
 * wakes the rank thread, which must then find its answer. */
static void ring_bells(struct model_thread *t) {
    struct wiring *w = t->rings.wiring;

    for (uint32_t k = 0; k < w->rank_threads; k++) {
        bool news = thread_announce(t, k);
        news |= ring_publish(thread_to_rank(t, k));
        if (news && (t->rank_rung[k] || wiring_subcluster_free(w, k)))
            doorbell_ring_or_help(&w->rank_bells[k], t->requests + t->answered_count <= WIRING_HELP_MOST);
        t->rank_rung[k] = false;
    }
    rings_publish(&t->rings);
}

static bool stops(const struct model_thread *t) {
    return atomic_load_explicit(&t->stop, memory_order_acquire); /* with model_thread_stop() */
}

static bool anything_pending(struct model_thread *t) {
    return grants_wait(t) || rings_pending(&t->rings) || ring_pending(&t->rings.wiring->moves[t->rings.index]) ||
           stops(t);
}

/* Until when requests need not wake the thread; if that is not after now_ns, they must wake it. */
static int64_t nap_end(struct wiring *w, int64_t now_ns) {
    int64_t up_ns = now_ns + WIRING_NAP_NS;

    if (wiring_accelerators_free(w))
        return now_ns;
    for (uint32_t k = 0; k < w->rank_threads; k++) {
        int64_t offer_ns = atomic_load_explicit(&w->hints[k].offer_ns, memory_order_relaxed); /* a hint */
        up_ns = offer_ns - WIRING_UP_NS < up_ns ? offer_ns - WIRING_UP_NS : up_ns;
    }
    return up_ns;
}

/* Whether messages wait for room in a ring that this thread writes: nobody rings its bell when there is room. */
static bool waits_for_room(const struct model_thread *t) {
    return t->rates_changed_count || t->mover_count || t->any_held_up;
}

/* A turn that had something to do lasted until the next one began. */
static void count_busy(struct model_thread *t, int64_t now) {
    int64_t took_ns = t->turn_ns ? now - t->turn_ns : 0;

    t->busy_ns += took_ns < BUSY_TURN_NS ? took_ns : BUSY_TURN_NS;
    if (now - t->busy_since_ns < BUSY_EVERY_NS)
        return;
    double passed_ns = (double)(now - t->busy_since_ns), weight = passed_ns / (RATE_FAST_S * NS_PER_S);
    t->busy += (weight < 1 ? weight : 1) * ((double)t->busy_ns / passed_ns - t->busy);
    t->busy_since_ns = now;
    t->busy_ns = 0;
}

int64_t model_thread_turn(void *thread) {
    struct model_thread *t = thread;
    int64_t now = clock_now_ns();

    count_busy(t, now);
    bool any = poll_requests(t, now); /* before the grants, whose batches they may join */
    settle_arrivals(t, now);
    any |= poll_moves(t);
    any |= poll_grants(t, now);
    any |= rings_poll_ran(&t->rings, now, t, take_ran, prefetch_ran);
    any |= poll_timers(t, now);
    any |= t->shapes.count && poll_shapes(t, now);
    if (any || t->delays_left)
        any |= follow_delays(t, now);
    thread_tell_moves(t);
    thread_tell_rates(t);
    ring_bells(t);
    take_times(t);
    t->turn_ns = any ? now : 0;
    if (any)
        return 0;
    if (stops(t))
        return INT64_MIN;
    if (waits_for_room(t))
        return now + 50 * NS_PER_US;
    int64_t timer_ns = heap_empty(&t->timers) ? TIME_NEVER : heap_top(&t->timers).key;
    int64_t late_ns = shape_queue_wake_ns(&t->shapes);
    return timer_ns < late_ns ? timer_ns : late_ns;
}

static void sleep_until(struct model_thread *t, int64_t until_ns) {
    struct doorbell *bell = &t->rings.wiring->model_bells[t->rings.index];
    if (doorbell_keeps_awake(bell))
        return;
    int64_t now = clock_now_ns(), up_ns = nap_end(t->rings.wiring, now);
    bool nap = up_ns > now;

    if (nap && !waits_for_room(t))
        until_ns = up_ns; /* timers of batches that shrink meanwhile can wait as well */
    doorbell_arm_as(bell, nap ? DOORBELL_NAPPING : DOORBELL_ASLEEP);
    if (anything_pending(t))
        doorbell_cancel(bell);
    else
        doorbell_sleep_timed(bell, until_ns, &t->rings.wake);
}

static void *model_thread_main(void *argument) {
    struct model_thread *t = argument;

    thread_begin("model", t->rings.index, THREAD_PROMPT);
    while (!stops(t)) {
        int64_t until_ns = model_thread_turn(t);
        if (until_ns)
            sleep_until(t, until_ns);
    }
    return NULL;
}

/* ---- start and stop ---- */

static void model_thread_free(struct model_thread *t) {
    thread_variants_free(t);
    thread_rings_free(&t->rings);
    free(t);
}

int model_thread_make(struct model_thread **thread, const struct model_thread_config *config, struct sy_error *err) {
    struct model_thread *t = calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return error_set(err, -ENOMEM, "no memory for a model thread");
    t->types = config->types;
    t->oldest_ns = TIME_NEVER;
    t->learn = config->learn;
    t->policy = config->policy;
    t->policy_options = config->policy_options;
    rc = thread_rings_init(&t->rings, &config->rings, err);
    if (rc < 0)
        goto err_free;
    if (t->rings.wiring->decisions) {
        t->log = &t->rings.wiring->decisions[t->rings.index];
        decision_model_thread(t->log, t->policy, t->policy_options, t->types, config->rings.queue_max);
    }
    rc = thread_variants_allocate(t);
    if (rc < 0) {
        error_set(err, rc, "no memory for the queues of %u models", config->rings.model_count);
        goto err_free;
    }
    *thread = t;
    return 0;

err_free:
    model_thread_free(t);
    return rc;
}

int model_thread_start(struct model_thread **thread, const struct model_thread_config *config, struct sy_error *err) {
    struct model_thread *t;
    int rc = model_thread_make(&t, config, err);

    if (rc < 0)
        return rc;
    doorbell_lend(&t->rings.wiring->model_bells[t->rings.index], model_thread_turn, t);
    rc = -pthread_create(&t->thread, NULL, model_thread_main, t);
    if (rc < 0) {
        model_thread_free(t);
        return error_set(err, rc, "cannot start a model thread: %s", strerror(-rc));
    }
    t->started = true;
    *thread = t;
    return 0;
}

void model_thread_stop(struct model_thread *t) {
    if (t->started) {
        atomic_store_explicit(&t->stop, true,
                              memory_order_release); /* with the loop's and anything_pending()'s loads */
        doorbell_ring(&t->rings.wiring->model_bells[t->rings.index]);
        pthread_join(t->thread, NULL);
    }
    model_thread_free(t);
}

const struct thread_rings *model_thread_rings(const struct model_thread *t) {
    return &t->rings;
}

const struct model_thread_times *model_thread_times(const struct model_thread *t) {
    return &t->times;
}

int64_t model_thread_cpu_ns(const struct model_thread *t) {
    return thread_cpu_ns(t->thread);
}
