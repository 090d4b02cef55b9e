/* model_thread.c - polls its rings, steps its model cores, and says what they decided. */
#include "sched/model_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/heap.h"
#include "base/thread.h"

#define ANSWERED_MAX  64 /* grants whose times are taken together */
#define GRANTS_MAX    32 /* messages taken from one rank thread a turn: batches are published at its end */
#define TIMERS_MAX    64 /* of cores, a turn */
#define ENOUGH        64 /* requests taken from one ring a turn, if a grant waits */
#define BUSY_EVERY_NS (5 * NS_PER_MS)
#define BUSY_GAIN     (1.0 / 8)
#define BUSY_TURN_NS  (200 * NS_PER_US) /* a turn that took longer was interrupted */
/* A thread that has no time left gets further and further behind, and requests that come late make small batches, which
 * cost it more time than large ones: so it would end with batches of one. Instead it refuses those that waited for it
 * for this part of their time. What waits after a pause is served: there is time for that. */
#define SHED_BUSY     0.95
#define SHED_PART     4
#define DELAYS_MOST   32 /* models that learn of new delays in a turn */
#define WARM_FROM     64 /* models; fewer stay in the cache anyway */
#define WARM_REQUESTS 48 /* of a batch */

/* Where a variant is on its way from one rank thread to another. Meanwhile it answers grants, and gets no new ones. */
enum moving {
    SETTLED,
    TO_LEAVE, /* to be told to its rank thread */
    LEAVING,  /* told; until GRANT_LEFT */
    TO_JOIN,  /* to be told to the next one */
};

/* One core and what the thread keeps of it. */
struct variant {
    _Alignas(CACHE_LINE) struct model_core *core;
    uint64_t shape_key;
    int64_t used_ns;     /* last arrival; the least recently used idle one goes to a new shape */
    uint32_t model;      /* within the thread */
    uint32_t rank_index; /* the rank core's */
    uint32_t generation; /* counts what it was given to: shapes, and models that come. What ran for an earlier one may
                          * be told late, and is not of this one */
    uint32_t queued;
    uint32_t part, part_next; /* the rank thread that it belongs to, and the one that it is to */
    enum moving moving;
    bool serving; /* it has been given to a shape */
    bool rates_known;
    bool arriving;      /* on the list of variants whose arrivals of this turn are not settled */
    bool rates_changed; /* on the list of variants with rates to tell */
    int64_t origin_ns;  /* hand-over of the first of these arrivals */
};
_Static_assert(sizeof(struct variant) <= CACHE_LINE, "all that a request needs of it comes at once");

/* Those of a served model. */
struct variant_range {
    struct variant *first;
    uint32_t count;
};

struct model_thread {
    struct thread_rings rings; /* model indexes within the thread are its */
    uint32_t types;
    bool learn;
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
    struct variant *variants; /* its own, then those for model numbers not in use */
    uint32_t variant_count;
    uint32_t active;                               /* of these, the ones with a core */
    struct variant_range *ranges;                  /* [rings.model_count] */
    struct queue_levels *levels;                   /* [rings.model_count] */
    uint32_t *variant_of_rank_index;               /* [wiring->models] */
    struct profile *scaled[ACCELERATOR_TYPES_MAX]; /* scratch for a new shape's tables */
    struct heap timers;                            /* variants by when their core wants to be stepped */
    struct heap_entry *timer_entries;
    uint32_t *timer_positions;
    uint32_t *arriving; /* [variant_count] */
    uint32_t arriving_count;
    struct model_rates *rates; /* [variant_count] the newest of those that changed */
    uint32_t *rates_changed;   /* [variant_count] */
    uint32_t rates_changed_count;
    uint32_t *movers; /* [variant_count] those that have to tell that they leave or join */
    uint32_t mover_count;
    uint64_t *news; /* [rank threads][words of the board] whose candidates this turn changed, not announced yet */
    struct model_output out;
    bool rank_rung[RANK_THREADS_MAX]; /* who gets the bell at the end of the turn, whatever is free */
    bool held_up[RANK_THREADS_MAX];   /* a grant of theirs waits until an executor has room for its batch */
    bool any_held_up;
    uint32_t delays_left; /* models, from the last one, that have not learnt of the newest delays */
    /* this turn's, for the times */
    int64_t oldest_ns; /* hand-over of a request */
    uint32_t requests, answered_count;
    struct {
        int64_t granted_ns, due_ns;
    } answered[ANSWERED_MAX];
    struct model_thread_times times;
    /* how much of its time is used up */
    int64_t turn_ns; /* when the last turn began, if it had something to do */
    int64_t busy_since_ns, busy_ns;
    double busy; /* share, in the mean over some BUSY_EVERY_NS */
    pthread_t thread;
    bool started; /* the thread is */
    _Atomic bool stop;
};

static struct ring *to_rank(const struct model_thread *t, uint32_t part) {
    return &t->rings.wiring->to_rank[t->rings.index * t->rings.wiring->rank_threads + part];
}

static struct ring *grants_of(const struct model_thread *t, uint32_t part) {
    return &t->rings.wiring->grants[t->rings.index * t->rings.wiring->rank_threads + part];
}

/* The word of news that has a variant's bit. */
static uint64_t *news_of(const struct model_thread *t, const struct variant *v) {
    return &t->news[(size_t)v->part * t->rings.wiring->candidates.words + v->rank_index / 64];
}

/* The newest candidate is written at once, and announced at the end of the turn, if it is not part of an answer. */
static void tell_candidate(struct model_thread *t, const struct variant *v, int64_t origin_ns) {
    candidate_board_write(&t->rings.wiring->candidates, v->rank_index, t->out.candidates, origin_ns);
    *news_of(t, v) |= 1ULL << v->rank_index % 64;
}

static void note_rates(struct model_thread *t, struct variant *v) {
    if (!v->rates_changed)
        t->rates_changed[t->rates_changed_count++] = (uint32_t)(v - t->variants);
    v->rates_changed = true;
}

/* Steps a core and takes in all it says except the batch, which only a grant brings. */
static void variant_step(struct model_thread *t, struct variant *v, int64_t now, const struct model_event *event) {
    struct model_output *out = &t->out;

    model_core_step(v->core, now, event, out);
    rings_refuse_list(&t->rings, out->refused);
    if (out->rates_changed) {
        t->rates[v - t->variants] = out->rates;
        v->rates_known = true;
        note_rates(t, v);
    }
    if (event->kind == MODEL_ARRIVING)
        return;
    if (out->candidate_changed)
        tell_candidate(t, v, event->kind == MODEL_SETTLED ? v->origin_ns : now);
    if (out->wake_ns == TIME_NEVER)
        heap_remove(&t->timers, (uint32_t)(v - t->variants));
    else
        heap_set(&t->timers, (uint32_t)(v - t->variants), out->wake_ns);

    uint32_t queued = model_core_queued(v->core);
    if (queued != v->queued) {
        rings_queued_add(&t->rings, v->model, (int32_t)(queued - v->queued));
        v->queued = queued;
    }
}

/* What a core of a model is told, for the profiled item. */
static struct model_core_config core_config(const struct model_thread *t, const struct thread_model *m,
                                            uint32_t rank_index) {
    struct model_core_config config = {
        .model = rank_index,
        .types = t->types,
        .batch_max = m->batch_max,
        .slo_ns = m->slo_ns,
        .weight = m->weight,
        .learn = t->learn,
        .accelerators = t->rings.wiring->accelerators,
        .policy = t->policy,
        .policy_options = t->policy_options,
    };

    memcpy(config.profiles, m->profiles, sizeof(config.profiles));
    if (m->queue) {
        config.delays = queue_rules_delays(m->queue);
        config.wait_ns = m->queue->wait_none ? WAIT_NONE_NS : m->queue->wait_ns;
        config.preferred = m->queue->preferred;
        config.preferred_count = m->queue->preferred_count;
        if (queue_rules_limited(m->queue))
            config.levels = &t->levels[t->rings.model_of_served[m->served_model]];
    }
    return config;
}

/* Before a model's first request. */
static void levels_set(struct queue_levels *levels, const struct queue_rules *rules) {
    for (uint32_t i = 0; rules && i < PRIORITIES_MAX; i++)
        levels->of[i].most = rules->rules[i].queue_max ? rules->rules[i].queue_max : UINT32_MAX;
    for (uint32_t i = 0; i < PRIORITIES_MAX; i++)
        CHECK_EQ(levels->of[i].waiting, 0);
}

/* What a core is told when items cost `work` times the profiled one; its tables may lie in t->scaled. */
static struct model_core_config variant_config(struct model_thread *t, const struct variant *v, float work) {
    const struct thread_model *m = &t->rings.models[v->model];
    struct model_core_config config = core_config(t, m, v->rank_index);

    rings_delays(&t->rings, v->model, &config.ctrl_ns, &config.data_ns);
    for (uint32_t type = 0; type < t->types; type++) {
        if (m->profiles[type] && work != 1.0f) {
            profile_scale(t->scaled[type], m->profiles[type], work);
            config.profiles[type] = t->scaled[type];
        }
    }
    return config;
}

/* Gives the core to a shape. */
static void variant_reset(struct model_thread *t, struct variant *v, uint64_t shape_key, float work) {
    struct model_core_config config = variant_config(t, v, work);

    model_core_init(v->core, &config, &t->rings.pool);
    v->shape_key = shape_key;
    v->generation++;
    v->serving = true;
}

/* The core that serves a shape now, or NULL. */
static struct variant *variant_find(struct model_thread *t, uint32_t model, uint64_t shape_key) {
    struct variant_range range = t->ranges[model];

    for (struct variant *v = range.first; v < range.first + range.count; v++)
        if (v->serving && v->shape_key == shape_key)
            return v;
    return NULL;
}

/* A core for a new shape: an unused or the least recently used idle one, or NULL if all are busy. */
static struct variant *variant_take(struct model_thread *t, uint32_t model, const struct request_message *message) {
    struct variant_range range = t->ranges[model];
    struct variant *oldest = NULL;

    for (struct variant *v = range.first; v < range.first + range.count; v++)
        if (model_core_idle(v->core) && (!oldest || v->used_ns < oldest->used_ns))
            oldest = v;
    if (oldest)
        variant_reset(t, oldest, message->shape_key, message->work);
    return oldest;
}

static bool too_late(const struct model_thread *t, int64_t now, const struct request_message *message) {
    return t->busy > SHED_BUSY && SHED_PART * (now - message->arrival_ns) > message->deadline_ns - message->arrival_ns;
}

/* Whether a new shape's request could be in time alone on a free accelerator. If not, no other shape's core, with all
 * that it has learned, is given up for it. */
static bool is_possible(const struct model_thread *t, int64_t now, uint32_t model,
                        const struct request_message *message) {
    const struct thread_model *m = &t->rings.models[model];
    int64_t ctrl_ns, data_ns;

    if (message->priority == PRIORITY_BEST_EFFORT || t->policy->deadline_blind)
        return true;
    if (message->items < 1 || message->items > m->batch_max)
        return false;
    rings_delays(&t->rings, model, &ctrl_ns, &data_ns);
    int64_t left_ns = message->deadline_ns - now - ctrl_ns - data_ns * message->items;
    for (uint32_t type = 0; type < t->types; type++)
        if (m->profiles[type] && profile_scaled_ns(m->profiles[type], message->items, message->work) <= left_ns)
            return true;
    return m->queue && queue_rules_delays(m->queue) >> message->priority & 1;
}

static void take_request(struct model_thread *t, int64_t now, const struct request_message *message) {
    uint32_t model = t->rings.model_of_served[message->model];
    bool arrived = message->kind == REQUEST_ARRIVED;

    enum refusal full = !arrived                                       ? REFUSAL_NONE
                        : t->rings.pool.used == t->rings.pool.capacity ? REFUSAL_POOL_FULL
                        : too_late(t, now, message)                    ? REFUSAL_THREAD_BUSY
                                                                       : REFUSAL_NONE;

    if (full) {
        rings_refuse(&t->rings, model, message->port, message->handle, full);
        return;
    }
    struct variant *v = variant_find(t, model, message->shape_key);
    if (!v && arrived) {
        bool possible = is_possible(t, now, model, message);
        v = possible ? variant_take(t, model, message) : NULL;
        if (!v)
            rings_refuse(&t->rings, model, message->port, message->handle,
                         possible ? REFUSAL_SHAPES : REFUSAL_DEADLINE);
    }
    if (!v)
        return;
    if (arrived) {
        v->used_ns = now;
        t->requests++;
        if (message->arrival_ns < t->oldest_ns)
            t->oldest_ns = message->arrival_ns;
        if (!v->arriving) {
            v->arriving = true;
            v->origin_ns = message->arrival_ns;
            t->arriving[t->arriving_count++] = (uint32_t)(v - t->variants);
        }
    }
    variant_step(t, v, now,
                 &(struct model_event){.kind = arrived ? MODEL_ARRIVING : MODEL_CANCELLED, .request = message});
}

/* Takes a group of requests from a ring. A request touches some fifteen cache lines of its model, so with many models
 * most of the time would go by waiting for them one after the other; so they are asked for beforehand, for the whole
 * group. */
static uint32_t take_group(struct model_thread *t, int64_t now, struct ring *ring) {
    uint32_t count = ring_ready(ring, RINGS_GROUP), known = 0;

    if (t->active >= WARM_FROM) {
        const struct variant *soon[RINGS_GROUP];
        for (uint32_t i = 0; i < count; i++) {
            const struct request_message *message = ring_peek_ahead(ring, i);
            const struct variant_range *range = &t->ranges[t->rings.model_of_served[message->model]];
            soon[known] = range->first;
            known += range->count > 0; /* a cancellation may be later than its model's end */
            __builtin_prefetch(range->first, 1);
        }
        for (uint32_t i = 0; i < known; i++) {
            model_core_warm(soon[i]->core);
            candidate_board_warm(&t->rings.wiring->candidates, soon[i]->rank_index);
        }
        for (uint32_t i = 0; i < known; i++)
            model_core_warm_arrival(soon[i]->core);
    }
    for (uint32_t i = 0; i < count; i++, ring_pop(ring))
        take_request(t, now, ring_peek_ahead(ring, 0));
    return count;
}

static bool grants_wait(const struct model_thread *t) {
    for (uint32_t k = 0; k < t->rings.wiring->rank_threads; k++)
        if (!t->held_up[k] && ring_pending(grants_of(t, k)))
            return true;
    return false;
}

static bool poll_requests(struct model_thread *t, int64_t now) {
    struct wiring *w = t->rings.wiring;
    bool any = false;

    for (uint32_t f = 0; f < w->frontends; f++) {
        struct ring *ring = &w->requests[f * w->model_threads + t->rings.index];
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

/* All that arrived in this turn is in: what follows from it is derived once a model. */
static void settle_arrivals(struct model_thread *t, int64_t now) {
    for (uint32_t i = 0; i < t->arriving_count; i++) {
        struct variant *v = &t->variants[t->arriving[i]];
        v->arriving = false;
        variant_step(t, v, now, &(struct model_event){.kind = MODEL_SETTLED});
    }
    t->arriving_count = 0;
}

/* Seals the batch that the core just formed and sends it to the accelerator. */
static void send_plan(struct model_thread *t, const struct variant *v, int64_t now, uint32_t accelerator) {
    const struct model_output *out = &t->out;
    struct sealed_batch batch = {
        .model = v->model,
        .plan_model = v->rank_index,
        .generation = v->generation,
        .accelerator = accelerator,
        .first = out->batch,
        .requests = out->batch_requests,
        .items = out->batch_items,
        .earliest_ns = INT64_MIN,
        .latest_ns = TIME_NEVER,
    };

    rings_send(&t->rings, now, &batch); /* poll_grants() saw to room */
}

/* What was decided since the last time is said by now. */
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

/* To be told by tell_moves(). */
static void set_moving(struct model_thread *t, struct variant *v, enum moving moving) {
    v->moving = moving;
    t->movers[t->mover_count++] = (uint32_t)(v - t->variants);
}

static void set_part(struct model_thread *t, struct variant *v) {
    v->part = v->part_next;
    /* release: with wiring_part(); who sees PART_NOBODY may free the core */
    atomic_store_explicit(&t->rings.wiring->parts[v->rank_index], (uint8_t)v->part, memory_order_release);
}

static void variant_move(struct model_thread *t, struct variant *v, uint32_t part) {
    v->part_next = part;
    if (v->moving == TO_JOIN && part != PART_NOBODY) /* nobody there knows of it yet */
        set_part(t, v);
    else if (v->moving == SETTLED && v->part != v->part_next)
        set_moving(t, v, TO_LEAVE);
    /* else it goes where it was told to last */
}

/* No rank thread knows the variant any more, nor does anybody ask for it. */
static void variant_end(struct model_thread *t, struct variant *v) {
    CHECK(model_core_idle(v->core));
    heap_remove(&t->timers, (uint32_t)(v - t->variants));
    v->core = NULL;
    v->serving = false;
    v->moving = SETTLED;
    t->active--;
    set_part(t, v);
}

/* The old rank thread knows nothing of the variant any more. */
static void has_left(struct model_thread *t, struct variant *v) {
    CHECK_EQ(v->moving, LEAVING);
    if (v->part_next == PART_NOBODY) {
        variant_end(t, v);
        return;
    }
    set_part(t, v);
    set_moving(t, v, TO_JOIN);
}

static void model_comes(struct model_thread *t, uint32_t served_model, uint32_t part, struct model_cores *cores) {
    const struct thread_model *model = &cores->model;
    uint32_t m = t->rings.model_of_served[served_model];
    struct candidate none[ACCELERATOR_TYPES_MAX];

    CHECK_EQ(t->ranges[m].count, 0);
    rings_model_set(&t->rings, m, model);
    levels_set(&t->levels[m], model->queue);
    for (uint32_t type = 0; type < t->types; type++)
        none[type] = candidate_none();
    t->ranges[m] =
        (struct variant_range){&t->variants[t->variant_of_rank_index[model->first_variant]], model->variant_count};
    for (uint32_t i = 0; i < model->variant_count; i++) {
        struct variant *v = t->ranges[m].first + i;
        CHECK(!v->core);
        v->core = cores->cores[i];
        v->model = m;
        v->shape_key = 0;
        v->generation++;
        v->serving = model->variant_count == 1; /* as in variants_make() */
        v->queued = 0;
        v->rates_known = false;
        v->part_next = part;
        candidate_board_write(&t->rings.wiring->candidates, v->rank_index, none, 0);
        t->active++;
        set_part(t, v);
        set_moving(t, v, TO_JOIN);
    }
}

static void model_goes(struct model_thread *t, uint32_t served_model) {
    struct variant_range *range = &t->ranges[t->rings.model_of_served[served_model]];

    for (struct variant *v = range->first; v < range->first + range->count; v++)
        variant_move(t, v, PART_NOBODY);
    range->count = 0;
}

static void take_move(struct model_thread *t, const struct model_move *move) {
    switch (move->kind) {
    case MODEL_MOVES:
        CHECK_LT(move->part, t->rings.wiring->rank_threads);
        variant_move(t, &t->variants[t->variant_of_rank_index[move->model]], move->part);
        break;
    case MODEL_COMES:
        CHECK_LT(move->part, t->rings.wiring->rank_threads);
        model_comes(t, move->model, move->part, move->cores);
        break;
    case MODEL_GOES:
        model_goes(t, move->model);
        break;
    }
}

static void take_grant(struct model_thread *t, int64_t now, const struct grant_message *grant) {
    struct variant *v = &t->variants[t->variant_of_rank_index[grant->model]];

    if (grant->kind == GRANT_LEFT) {
        has_left(t, v);
        return;
    }
    if (grant->kind == GRANT_PARAMETERS) {
        if (v->serving)
            variant_step(t, v, now, &(struct model_event){.kind = MODEL_PARAMETERS, .grant = grant});
        return;
    }
    variant_step(t, v, now, &(struct model_event){.kind = MODEL_GRANTED, .grant = grant});

    struct ring *ring = to_rank(t, v->part);
    struct rank_message *answer = ring_reserve(ring);
    CHECK(answer); /* tell_rates() keeps room for one answer an accelerator */
    bool used = t->out.batch != REQUEST_NONE;
    answer->kind = RANK_ANSWER;
    answer->model = v->rank_index;
    answer->types = t->types;
    answer->answer = (struct rank_answer){
        .accelerator = grant->accelerator,
        .items = used ? t->out.batch_items : 0,
        .sealed_ns = now,
        .end_ns = used ? t->out.batch_finish_ns : now,
        .run_ns = used ? t->out.batch_run_ns : 0,
    };
    answer->origin_ns = now;
    memcpy(answer->candidates, t->out.candidates, t->types * sizeof(answer->candidates[0]));
    ring_push(ring);
    t->rank_rung[v->part] |= !used;
    *news_of(t, v) &= ~(1ULL << v->rank_index % 64); /* the answer brings it */
    if (used) {
        if (t->answered_count == ANSWERED_MAX)
            take_times(t);
        t->answered[t->answered_count].granted_ns = grant->granted_ns;
        t->answered[t->answered_count++].due_ns = grant->due_ns;
        send_plan(t, v, now, grant->accelerator);
    }
}

static void take_ran(void *thread, int64_t now, const struct ran_message *ran) {
    struct model_thread *t = thread;
    struct variant *v = &t->variants[t->variant_of_rank_index[ran->model]];

    rings_ran(&t->rings, v->model, ran);
    if (ran->late == 0 && (ran->run_ns == 0 || !t->learn)) /* nothing that the core did not expect */
        return;
    if (ran->generation != v->generation || !v->serving)
        return;
    variant_step(t, v, now, &(struct model_event){.kind = MODEL_RAN, .ran = ran});
    const struct profile *profile = model_core_profile(v->core, ran->type);
    if (profile)
        atomic_store_explicit(&t->rings.counters[v->model].latency_one_ns, profile->latency_ns[1],
                              memory_order_relaxed);
}

/* Asks for what a group of runs will be counted in. */
static void warm_ran(void *thread, struct ring *ring) {
    struct model_thread *t = thread;
    uint32_t count = t->active >= WARM_FROM ? ring_ready(ring, RINGS_GROUP) : 0;
    const struct variant *soon[RINGS_GROUP];

    for (uint32_t i = 0; i < count; i++) {
        const struct ran_message *ran = ring_peek_ahead(ring, i);
        soon[i] = &t->variants[t->variant_of_rank_index[ran->model]];
        __builtin_prefetch(soon[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        rings_warm_ran(&t->rings, soon[i]->model, ring_peek_ahead(ring, i));
}

/* Lets the cores' delay(b) follow the measured dispatch and gathering, some models a turn. True if it did. */
static bool follow_delays(struct model_thread *t, int64_t now) {
    uint32_t models = t->rings.model_count, told = 0;

    if (rings_follow_delays(&t->rings, now))
        t->delays_left = models;
    for (; t->delays_left && told < DELAYS_MOST; t->delays_left--, told++) {
        struct variant_range range = t->ranges[models - t->delays_left];
        struct model_event event = {.kind = MODEL_DELAYS};
        if (range.count > 0)
            rings_delays(&t->rings, models - t->delays_left, &event.delays.ctrl_ns, &event.delays.data_ns);
        for (struct variant *v = range.first; v < range.first + range.count; v++)
            if (v->serving)
                variant_step(t, v, now, &event);
    }
    return told > 0;
}

/* What is not an answer leaves room for them. */
static bool may_say(const struct model_thread *t, const struct variant *v) {
    return ring_fits(to_rank(t, v->part), 1 + t->rings.wiring->part_accelerators);
}

static struct rank_message *say(const struct model_thread *t, const struct variant *v, enum rank_message_kind kind) {
    struct rank_message *message = ring_reserve(to_rank(t, v->part));

    CHECK(message); /* may_say() */
    message->kind = kind;
    message->model = v->rank_index;
    message->types = 0;
    ring_push(to_rank(t, v->part));
    return message;
}

/* Joining brings the candidate; the rank thread may have passed over what was announced before it knew the variant. */
static void say_join(struct model_thread *t, struct variant *v) {
    struct rank_message *message = say(t, v, RANK_JOIN);

    message->types = t->types;
    CHECK(candidate_board_read(&t->rings.wiring->candidates, v->rank_index, message->candidates, &message->origin_ns));
    v->moving = SETTLED;
    if (v->rates_known)
        note_rates(t, v);
}

/* Tells of those who leave or join, as far as there is room: the others wait. */
static void tell_moves(struct model_thread *t) {
    uint32_t count = t->mover_count;

    t->mover_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct variant *v = &t->variants[t->movers[i]];
        if (v->moving == TO_JOIN && v->part_next == PART_NOBODY) {
            variant_end(t, v);
        } else if (!may_say(t, v)) {
            t->movers[t->mover_count++] = t->movers[i];
        } else if (v->moving == TO_LEAVE) {
            say(t, v, RANK_LEAVE);
            v->moving = LEAVING;
            t->rank_rung[v->part] = true; /* it does not wait for a free accelerator */
        } else {
            say_join(t, v);
        }
    }
}

/* Sends the rates that changed, newest only: what does not fit waits and is overwritten by newer ones meanwhile. */
static void tell_rates(struct model_thread *t) {
    uint32_t waiting = 0;

    for (uint32_t i = 0; i < t->rates_changed_count; i++) {
        struct variant *v = &t->variants[t->rates_changed[i]];
        if (!v->core) {
            v->rates_changed = false;
            continue;
        }
        if (!may_say(t, v)) {
            t->rates_changed[waiting++] = t->rates_changed[i];
            continue;
        }
        struct rank_message *message = say(t, v, RANK_RATES);
        message->rates = t->rates[v - t->variants];
        message->rates.thread_busy = t->busy;
        v->rates_changed = false;
    }
    t->rates_changed_count = waiting;
}

/* True if there was news for the rank thread of a part. */
static bool announce_candidates(struct model_thread *t, uint32_t part) {
    struct candidate_board *board = &t->rings.wiring->candidates;
    uint64_t *news = &t->news[(size_t)part * board->words];
    bool any = false;

    for (uint32_t word = 0; word < board->words; word++)
        if (news[word]) {
            candidate_board_announce(board, t->rings.index * t->rings.wiring->rank_threads + part, word, news[word]);
            news[word] = 0;
            any = true;
        }
    return any;
}

/* Publishes the turn's messages. Answers go before the plans they speak of: an accelerator that is soon free again
 * wakes the rank thread, which must then find its answer. */
static void ring_bells(struct model_thread *t) {
    struct wiring *w = t->rings.wiring;

    for (uint32_t k = 0; k < w->rank_threads; k++) {
        bool news = announce_candidates(t, k);
        news |= ring_publish(to_rank(t, k));
        if (news && (t->rank_rung[k] || wiring_part_free(w, k)))
            doorbell_ring_or_help(&w->rank_bells[k], t->requests + t->answered_count <= WIRING_HELP_MOST);
        t->rank_rung[k] = false;
    }
    rings_publish(&t->rings);
}

/* Asks for what the grants that wait will touch: the walks through their batches go side by side. */
static void warm_grants(struct model_thread *t, struct ring *ring) {
    uint32_t count = ring_ready(ring, RINGS_GROUP), nodes[RINGS_GROUP], left = 0;
    const struct variant *soon[RINGS_GROUP];

    for (uint32_t i = 0; i < count; i++) {
        const struct grant_message *message = ring_peek_ahead(ring, i);
        soon[left] = &t->variants[t->variant_of_rank_index[message->model]];
        left += message->kind == GRANT_ACCELERATOR;
        if (message->kind == GRANT_PARAMETERS && soon[left]->core)
            model_core_warm_parameters(soon[left]->core);
    }
    for (uint32_t i = 0; i < left; i++) {
        model_core_warm(soon[i]->core);
        nodes[i] = REQUEST_NONE;
    }
    for (uint32_t i = 0; i < left; i++)
        rings_warm_send(&t->rings, soon[i]->model, model_core_items(soon[i]->core, 0));
    for (uint32_t step = 0; step < WARM_REQUESTS; step++)
        for (uint32_t i = 0; i < left; i++)
            if (step == 0 || nodes[i] != REQUEST_NONE)
                nodes[i] = model_core_warm_batch(soon[i]->core, nodes[i]);
}

static bool poll_grants(struct model_thread *t, int64_t now) {
    bool any = false;

    t->any_held_up = false;
    for (uint32_t k = 0; k < t->rings.wiring->rank_threads; k++) {
        struct ring *ring = grants_of(t, k);
        const struct grant_message *message;
        t->held_up[k] = false;
        for (uint32_t taken = 0; taken < GRANTS_MAX && (message = ring_peek(ring)); ring_pop(ring), taken++) {
            t->held_up[k] = message->kind == GRANT_ACCELERATOR && !rings_fit(&t->rings, message->accelerator);
            if (t->held_up[k])
                break;
            if (taken % RINGS_GROUP == 0 && t->active >= WARM_FROM)
                warm_grants(t, ring);
            take_grant(t, now, message);
            any = true;
        }
        ring_release(ring);
        t->any_held_up |= t->held_up[k];
    }
    return any;
}

static bool poll_moves(struct model_thread *t) {
    struct ring *ring = &t->rings.wiring->moves[t->rings.index];
    const struct model_move *move;
    bool any = false;

    for (; (move = ring_peek(ring)); ring_pop(ring)) {
        take_move(t, move);
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

static bool stops(const struct model_thread *t) {
    return atomic_load_explicit(&t->stop, memory_order_acquire); /* with model_thread_stop() */
}

static bool anything_pending(struct model_thread *t) {
    return grants_wait(t) || rings_pending(&t->rings) || ring_pending(&t->rings.wiring->moves[t->rings.index]) ||
           stops(t);
}

/* Until when requests need not wake the thread; not after now_ns: they must. */
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

/* For room in a ring of ours, which has no bell of ours. */
static bool waits_for_room(const struct model_thread *t) {
    return t->rates_changed_count || t->mover_count || t->any_held_up;
}

/* A turn that had something to do lasted until the next one began. */
static void count_busy(struct model_thread *t, int64_t now) {
    int64_t took_ns = t->turn_ns ? now - t->turn_ns : 0;

    t->busy_ns += took_ns < BUSY_TURN_NS ? took_ns : BUSY_TURN_NS;
    if (now - t->busy_since_ns < BUSY_EVERY_NS)
        return;
    t->busy += BUSY_GAIN * ((double)t->busy_ns / (double)(now - t->busy_since_ns) - t->busy);
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
    any |= rings_poll_ran(&t->rings, now, t, take_ran, warm_ran);
    any |= poll_timers(t, now);
    if (any || t->delays_left)
        any |= follow_delays(t, now);
    tell_moves(t);
    tell_rates(t);
    ring_bells(t);
    take_times(t);
    t->turn_ns = any ? now : 0;
    if (any)
        return 0;
    if (stops(t))
        return INT64_MIN;
    if (waits_for_room(t))
        return now + 50 * NS_PER_US;
    return heap_empty(&t->timers) ? TIME_NEVER : heap_top(&t->timers).key;
}

static void sleep_until(struct model_thread *t, int64_t until_ns) {
    struct doorbell *bell = &t->rings.wiring->model_bells[t->rings.index];
    if (doorbell_keeps_awake(bell))
        return;
    int64_t now = clock_now_ns(), up_ns = nap_end(t->rings.wiring, now);
    bool nap = up_ns > now;

    if (nap && !waits_for_room(t))
        until_ns = up_ns; /* what shrinks meanwhile can wait as well */
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

static size_t core_room(const struct model_core_config *config) {
    return (model_core_bytes(config) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static int variants_make(struct model_thread *t) {
    const struct wiring *w = t->rings.wiring;
    uint32_t at = 0;

    for (uint32_t m = 0; m < t->rings.model_count; m++) {
        const struct thread_model *model = &t->rings.models[m];
        t->ranges[m] = (struct variant_range){&t->variants[at], model->variant_count};
        levels_set(&t->levels[m], model->queue);
        for (uint32_t i = 0; i < model->variant_count; i++, at++) {
            struct variant *v = &t->variants[at];
            *v = (struct variant){.model = m, .rank_index = model->first_variant + i};
            v->part = v->part_next = wiring_part(t->rings.wiring, v->rank_index);
            t->variant_of_rank_index[v->rank_index] = at;
            struct model_core_config config = variant_config(t, v, 1.0f);
            v->core = aligned_alloc(CACHE_LINE, core_room(&config));
            if (!v->core)
                return -ENOMEM;
            variant_reset(t, v, 0, 1.0f);
            v->serving = model->variant_count == 1; /* a model of one shape keeps its core for key 0 */
        }
    }
    t->active = at;
    for (uint32_t r = w->models - w->models_unused; r < w->models; r++, at++) {
        t->variants[at] = (struct variant){.rank_index = r, .part = PART_NOBODY, .part_next = PART_NOBODY};
        t->variant_of_rank_index[r] = at;
    }
    return 0;
}

struct model_cores *model_thread_prepare(const struct model_thread *t, const struct thread_model *model) {
    struct model_cores *cores = calloc(1, sizeof(*cores));

    if (!cores)
        return NULL;
    cores->model = *model;
    for (uint32_t i = 0; i < model->variant_count; i++) {
        struct model_core_config config = core_config(t, model, model->first_variant + i);
        config.ctrl_ns = rings_ctrl_ns(&t->rings, model->slo_ns);
        config.data_ns = model->data_ns;
        cores->cores[i] = aligned_alloc(CACHE_LINE, core_room(&config));
        if (!cores->cores[i]) {
            model_cores_free(cores);
            return NULL;
        }
        model_core_init(cores->cores[i], &config, (struct request_pool *)&t->rings.pool);
    }
    return cores;
}

void model_cores_free(struct model_cores *cores) {
    for (uint32_t i = 0; cores && i < VARIANTS_MAX; i++)
        free(cores->cores[i]);
    free(cores);
}

static void model_thread_free(struct model_thread *t) {
    uint32_t own = t->variant_count - t->rings.wiring->models_unused; /* the other cores belong to whom made them */

    for (uint32_t i = 0; t->variants && i < own; i++)
        free(t->variants[i].core);
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++)
        free(t->scaled[type]);
    free(t->variants);
    free(t->ranges);
    free(t->levels);
    free(t->variant_of_rank_index);
    free(t->timer_entries);
    free(t->timer_positions);
    free(t->arriving);
    free(t->rates);
    free(t->rates_changed);
    free(t->movers);
    free(t->news);
    thread_rings_free(&t->rings);
    free(t);
}

static int variants_allocate(struct model_thread *t) {
    uint32_t variants = 0, batch_max = 1;

    for (uint32_t m = 0; m < t->rings.model_count; m++) {
        const struct thread_model *model = &t->rings.models[m];
        variants += model->variant_count;
        batch_max = model->batch_max > batch_max ? model->batch_max : batch_max;
    }
    variants += t->rings.wiring->models_unused;
    t->variant_count = variants;
    variants = variants ? variants : 1;
    if (t->rings.wiring->models_unused)
        batch_max = PROFILE_BATCH_MAX;
    t->variants = aligned_alloc(CACHE_LINE, variants * sizeof(*t->variants));
    t->ranges = calloc(t->rings.model_count + 1, sizeof(*t->ranges));
    t->levels = calloc(t->rings.model_count + 1, sizeof(*t->levels));
    t->variant_of_rank_index = calloc(t->rings.wiring->models + 1, sizeof(uint32_t));
    t->timer_entries = calloc(variants, sizeof(*t->timer_entries));
    t->timer_positions = calloc(variants, sizeof(*t->timer_positions));
    t->arriving = calloc(variants, sizeof(*t->arriving));
    t->rates = calloc(variants, sizeof(*t->rates));
    t->rates_changed = calloc(variants, sizeof(*t->rates_changed));
    t->movers = calloc(variants, sizeof(*t->movers));
    t->news = calloc((size_t)t->rings.wiring->rank_threads * t->rings.wiring->candidates.words, sizeof(*t->news));
    if (t->variants)
        memset(t->variants, 0, variants * sizeof(*t->variants));
    if (!t->variants || !t->ranges || !t->levels || !t->variant_of_rank_index || !t->timer_entries ||
        !t->timer_positions || !t->arriving || !t->rates || !t->rates_changed || !t->movers || !t->news)
        return -ENOMEM;
    for (uint32_t type = 0; type < t->types; type++)
        if (!(t->scaled[type] = malloc(profile_bytes(batch_max))))
            return -ENOMEM;
    heap_init(&t->timers, t->timer_entries, t->timer_positions, variants);
    return variants_make(t);
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
    rc = variants_allocate(t);
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
