/* model_thread.c - polls its rings, steps its model cores, and says what they decided. */
#include "sched/model_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/thread.h"
#include "transport/transport.h"

#define POLL_MAX          256               /* messages taken from one ring a turn, so that no ring starves another */
#define DELAYS_EVERY_NS   (100 * NS_PER_MS) /* how often delay(b) follows what was measured */
#define DELAYS_CHANGE_MIN 0.1               /* relative change that is worth telling the cores */
#define DELAYS_PART_MOST  8 /* d_ctrl takes this part of a model's SLO at most; why: reply_margin() in port.c */

/* What the thread measures of one served model. */
struct measured_model {
    struct margin gather;    /* fetching and copying an item's inputs */
    bool any;                /* something was, since delay(b) last followed */
    _Atomic int64_t data_ns; /* as the cores use it; read by the metrics */
};

/* One core and what the thread keeps of it. */
struct variant {
    struct model_core *core;
    uint64_t shape_key;
    int64_t used_ns;     /* last arrival; the least recently used idle one goes to a new shape */
    uint32_t model;      /* within the thread */
    uint32_t rank_index; /* the rank core's */
    uint32_t generation; /* counts the shapes it has served; 0: none yet */
    uint32_t queued;
    bool dirty, candidate_changed, rates_changed; /* dirty: on the list of variants with something to tell */
    struct candidate candidates[ACCELERATOR_TYPES_MAX];
    struct model_rates rates;
};

struct model_thread {
    struct model_thread_config config;
    struct wiring *wiring;
    struct model_thread_model *models;
    struct model_counters *counters;
    struct variant *variants;
    uint32_t variant_count;
    uint32_t *variant_of_rank_index;               /* [wiring->models] */
    uint32_t *model_of_served;                     /* [served models up to the greatest of this thread] */
    struct profile *scaled[ACCELERATOR_TYPES_MAX]; /* scratch for a new shape's tables */
    struct request_pool pool;
    struct request_node *nodes;
    struct heap timers; /* variants by when their core wants to be stepped */
    struct heap_entry *timer_entries;
    uint32_t *timer_positions;
    uint32_t *dirty; /* [variant_count] */
    uint32_t dirty_count;
    struct model_output out;
    struct margin wake, dispatch;
    _Atomic int64_t ctrl_ns;         /* as the cores use it; read by the metrics */
    struct measured_model *measured; /* [model_count] */
    int64_t delays_next_ns;
    bool dispatched;                                /* something was, since delay(b) last followed */
    bool rank_rung, *executor_rung, *frontend_rung; /* who gets the bell at the end of the turn, whatever is free */
    pthread_t thread;
    _Atomic bool stop;
};

static uint64_t counter_get(_Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed); /* statistics: no order needed */
}

static void counter_add(_Atomic uint64_t *counter, uint64_t n) {
    atomic_store_explicit(counter, counter_get(counter) + n, memory_order_relaxed); /* one writer */
}

static void count_refusal(struct model_counters *counters, enum refusal reason) {
    switch (reason) {
    case REFUSAL_DEADLINE:
        counter_add(&counters->refused_deadline, 1);
        break;
    case REFUSAL_QUEUE_FULL:
        counter_add(&counters->refused_queue_full, 1);
        break;
    case REFUSAL_SHAPES:
        counter_add(&counters->refused_shapes, 1);
        break;
    case REFUSAL_CANCELLED:
        counter_add(&counters->cancelled, 1);
        break;
    default:
        break;
    }
}

/* The request goes back to its frontend. */
static void refuse(struct model_thread *t, uint32_t model, uint64_t handle, enum refusal reason) {
    struct wiring *w = t->wiring;
    uint32_t port = transport_local.request(handle)->port;
    struct ring *ring = &w->refusals[t->config.index * w->frontends + port];
    struct refusal_message *message = ring_reserve(ring);

    CHECK(message); /* a port has at most as many requests outstanding as the ring has slots */
    *message = (struct refusal_message){.handle = handle, .reason = reason};
    ring_push(ring);
    t->frontend_rung[port] = true;
    count_refusal(&t->counters[model], reason);
}

static void mark_dirty(struct model_thread *t, struct variant *v) {
    if (!v->dirty) {
        v->dirty = true;
        t->dirty[t->dirty_count++] = (uint32_t)(v - t->variants);
    }
}

/* Steps a core and takes in all it says except the batch, which only a grant brings. */
static void variant_step(struct model_thread *t, struct variant *v, int64_t now, const struct model_event *event) {
    struct model_output *out = &t->out;

    model_core_step(v->core, now, event, out);
    for (uint32_t node = out->refused; node != REQUEST_NONE;) {
        uint32_t next = t->pool.nodes[node].next;
        refuse(t, v->model, t->pool.nodes[node].handle, t->pool.nodes[node].refusal);
        request_pool_put(&t->pool, node);
        node = next;
    }
    if (out->candidate_changed) {
        memcpy(v->candidates, out->candidates, t->config.types * sizeof(out->candidates[0]));
        v->candidate_changed = true;
        mark_dirty(t, v);
    }
    if (out->rates_changed) {
        v->rates = out->rates;
        v->rates_changed = true;
        mark_dirty(t, v);
    }
    if (out->wake_ns == TIME_NEVER)
        heap_remove(&t->timers, (uint32_t)(v - t->variants));
    else
        heap_set(&t->timers, (uint32_t)(v - t->variants), out->wake_ns);

    uint32_t queued = model_core_queued(v->core);
    if (queued != v->queued) {
        _Atomic uint32_t *total = &t->counters[v->model].queued;
        atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + queued - v->queued,
                              memory_order_relaxed); /* one writer */
        v->queued = queued;
    }
}

static int64_t ctrl_for(const struct model_thread_model *model, int64_t ctrl_ns) {
    return ctrl_ns < model->slo_ns / DELAYS_PART_MOST ? ctrl_ns : model->slo_ns / DELAYS_PART_MOST;
}

/* What a core is told when items cost `work` times the profiled one; its tables may lie in t->scaled. */
static struct model_core_config variant_config(struct model_thread *t, const struct variant *v, float work) {
    const struct model_thread_model *m = &t->models[v->model];
    struct model_core_config config = {
        .model = v->rank_index,
        .types = t->config.types,
        .batch_max = m->batch_max,
        .slo_ns = m->slo_ns,
        .ctrl_ns = ctrl_for(m, atomic_load_explicit(&t->ctrl_ns, memory_order_relaxed)), /* own words */
        .data_ns = atomic_load_explicit(&t->measured[v->model].data_ns, memory_order_relaxed),
        .learn = t->config.learn,
        .policy = t->config.policy,
        .policy_options = t->config.policy_options,
    };

    for (uint32_t type = 0; type < t->config.types; type++) {
        config.profiles[type] = m->profiles[type];
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

    model_core_init(v->core, &config, &t->pool);
    v->shape_key = shape_key;
    v->generation++;
}

/* The core that serves a shape now, or NULL. */
static struct variant *variant_find(struct model_thread *t, uint32_t model, uint64_t shape_key) {
    struct variant *first = &t->variants[t->variant_of_rank_index[t->models[model].first_variant]];

    for (uint32_t i = 0; i < t->models[model].variant_count; i++)
        if (first[i].generation && first[i].shape_key == shape_key)
            return &first[i];
    return NULL;
}

/* A core for a new shape: an unused or the least recently used idle one, or NULL if all are busy. */
static struct variant *variant_take(struct model_thread *t, uint32_t model, const struct request_message *message) {
    struct variant *first = &t->variants[t->variant_of_rank_index[t->models[model].first_variant]], *oldest = NULL;

    for (uint32_t i = 0; i < t->models[model].variant_count; i++)
        if (model_core_idle(first[i].core) && (!oldest || first[i].used_ns < oldest->used_ns))
            oldest = &first[i];
    if (oldest)
        variant_reset(t, oldest, message->shape_key, message->work);
    return oldest;
}

static void take_request(struct model_thread *t, int64_t now, const struct request_message *message) {
    uint32_t model = t->model_of_served[message->model];
    bool arrived = message->kind == REQUEST_ARRIVED;

    if (arrived && t->pool.used == t->pool.capacity) {
        refuse(t, model, message->handle, REFUSAL_QUEUE_FULL);
        return;
    }
    struct variant *v = variant_find(t, model, message->shape_key);
    if (!v && arrived) {
        v = variant_take(t, model, message);
        if (!v)
            refuse(t, model, message->handle, REFUSAL_SHAPES);
    }
    if (!v)
        return;
    if (arrived)
        v->used_ns = now;
    variant_step(t, v, now,
                 &(struct model_event){.kind = arrived ? MODEL_ARRIVED : MODEL_CANCELLED, .request = message});
}

/* Seals the batch that the core just formed and sends it to the accelerator. */
static void send_plan(struct model_thread *t, struct variant *v, int64_t now, uint32_t accelerator) {
    const struct model_output *out = &t->out;
    struct wiring *w = t->wiring;
    struct ring *ring = &w->plans[t->config.index * w->executors + accelerator];
    struct batch_plan *plan = ring_reserve(ring);

    CHECK(plan); /* one older plan may be running, and one still being answered */
    CHECK_LE(out->batch_requests, w->batch_max);
    plan->model = v->rank_index;
    plan->generation = v->generation;
    plan->served_model = t->models[v->model].served_model;
    plan->request_count = out->batch_requests;
    plan->items = out->batch_items;
    plan->sealed_ns = now;
    uint32_t i = 0;
    for (uint32_t node = out->batch; node != REQUEST_NONE;) {
        uint32_t next = t->pool.nodes[node].next;
        plan->handles[i++] = t->pool.nodes[node].handle;
        request_pool_put(&t->pool, node);
        node = next;
    }
    CHECK_EQ(i, plan->request_count);
    ring_push(ring);
    t->executor_rung[accelerator] = true;
    histogram_add(&t->counters[v->model].batch_items, out->batch_items);
}

static void take_grant(struct model_thread *t, int64_t now, const struct grant_message *grant) {
    struct variant *v = &t->variants[t->variant_of_rank_index[grant->model]];

    if (grant->kind == GRANT_PARAMETERS) {
        if (v->generation)
            variant_step(t, v, now, &(struct model_event){.kind = MODEL_PARAMETERS, .grant = grant});
        return;
    }
    variant_step(t, v, now, &(struct model_event){.kind = MODEL_GRANTED, .grant = grant});

    struct ring *ring = &t->wiring->to_rank[t->config.index];
    struct rank_message *answer = ring_reserve(ring);
    CHECK(answer); /* tell_rank() keeps room for one answer an accelerator */
    bool used = t->out.batch != REQUEST_NONE;
    answer->kind = RANK_ANSWER;
    answer->model = v->rank_index;
    answer->accelerator = grant->accelerator;
    answer->items = used ? t->out.batch_items : 0;
    answer->sealed_ns = now;
    answer->free_ns = used ? t->out.batch_finish_ns : now;
    answer->run_ns = used ? t->out.batch_run_ns : 0;
    answer->types = t->config.types;
    memcpy(answer->candidates, t->out.candidates, t->config.types * sizeof(answer->candidates[0]));
    ring_push(ring);
    t->rank_rung |= !used;
    v->candidate_changed = false; /* the answer brings it */
    if (used)
        send_plan(t, v, now, grant->accelerator);
}

static void take_ran(struct model_thread *t, int64_t now, const struct ran_message *ran) {
    struct variant *v = &t->variants[t->variant_of_rank_index[ran->model]];

    if (ran->dispatch_ns >= 0) {
        margin_add(&t->dispatch, ran->dispatch_ns);
        t->dispatched = true;
    }
    margin_add(&t->measured[v->model].gather, ran->gather_ns / ran->items);
    t->measured[v->model].any = true;
    if (ran->run_ns == 0)
        return;
    histogram_add(&t->counters[v->model].run_ns, ran->run_ns);
    if (ran->generation != v->generation)
        return;
    variant_step(t, v, now, &(struct model_event){.kind = MODEL_RAN, .ran = ran});
    const struct profile *profile = model_core_profile(v->core, ran->type);
    if (profile)
        atomic_store_explicit(&t->counters[v->model].latency_one_ns, profile->latency_ns[1], memory_order_relaxed);
}

static bool differs(int64_t a, int64_t b) {
    int64_t most = a > b ? a : b, least = a > b ? b : a;
    return (double)(most - least) > DELAYS_CHANGE_MIN * (double)most && most - least > NS_PER_US;
}

/* Lets a delay follow its margin, which relaxes while nothing is measured. True if that is worth telling. */
static bool follow(struct margin *margin, bool *measured, _Atomic int64_t *delay_ns) {
    if (!*measured)
        margin_relax(margin);
    *measured = false;
    if (!differs(margin_ns(margin), atomic_load_explicit(delay_ns, memory_order_relaxed))) /* own word */
        return false;
    atomic_store_explicit(delay_ns, margin_ns(margin), memory_order_relaxed); /* a number on its own */
    return true;
}

/* Lets delay(b) follow the measured dispatch and gathering. */
static void follow_delays(struct model_thread *t, int64_t now) {
    bool changed = follow(&t->dispatch, &t->dispatched, &t->ctrl_ns);

    t->delays_next_ns = now + DELAYS_EVERY_NS;
    for (uint32_t m = 0; m < t->config.model_count; m++)
        changed |= follow(&t->measured[m].gather, &t->measured[m].any, &t->measured[m].data_ns);
    for (uint32_t i = 0; i < t->variant_count && changed; i++) {
        struct variant *v = &t->variants[i];
        struct model_event event = {.kind = MODEL_DELAYS};
        model_thread_delays(t, v->model, &event.delays.ctrl_ns, &event.delays.data_ns);
        if (v->generation)
            variant_step(t, v, now, &event);
    }
}

/* Sends what changed, newest state only: what does not fit waits and is overwritten by newer states meanwhile. */
static void tell_rank(struct model_thread *t) {
    struct ring *ring = &t->wiring->to_rank[t->config.index];

    while (t->dirty_count && ring_fits(ring, 2 + t->wiring->executors)) {
        struct variant *v = &t->variants[t->dirty[--t->dirty_count]];
        v->dirty = false;
        if (v->candidate_changed) {
            struct rank_message *message = ring_reserve(ring);
            message->kind = RANK_CANDIDATE;
            message->model = v->rank_index;
            message->types = t->config.types;
            memcpy(message->candidates, v->candidates, t->config.types * sizeof(v->candidates[0]));
            ring_push(ring);
        }
        if (v->rates_changed) {
            struct rank_message *message = ring_reserve(ring);
            message->kind = RANK_RATES;
            message->model = v->rank_index;
            message->rates = v->rates;
            ring_push(ring);
        }
        v->candidate_changed = v->rates_changed = false;
    }
}

/* Publishes the turn's messages. Answers go before the plans they speak of: an accelerator that is soon free again
 * wakes the rank thread, which must then find its answer. */
static void ring_bells(struct model_thread *t) {
    struct wiring *w = t->wiring;
    uint32_t index = t->config.index;

    if (ring_publish(&w->to_rank[index]) && (t->rank_rung || wiring_accelerators_free(w)))
        doorbell_ring(&w->rank_bell);
    for (uint32_t e = 0; e < w->executors; e++)
        if (t->executor_rung[e] && ring_publish(&w->plans[index * w->executors + e]))
            doorbell_ring(&w->executor_bells[e]);
    for (uint32_t f = 0; f < w->frontends; f++)
        if (t->frontend_rung[f] && ring_publish(&w->refusals[index * w->frontends + f]))
            doorbell_ring(&w->frontend_bells[f]);
    memset(t->executor_rung, 0, w->executors);
    memset(t->frontend_rung, 0, w->frontends);
    t->rank_rung = false;
}

static bool poll_requests(struct model_thread *t, int64_t now) {
    struct wiring *w = t->wiring;
    bool any = false;

    for (uint32_t f = 0; f < w->frontends; f++) {
        struct ring *ring = &w->requests[f * w->model_threads + t->config.index];
        const struct request_message *message;
        for (int n = 0; n < POLL_MAX && (message = ring_peek(ring)); n++, ring_pop(ring)) {
            take_request(t, now, message);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

static bool poll_grants(struct model_thread *t, int64_t now) {
    struct ring *ring = &t->wiring->grants[t->config.index];
    const struct grant_message *message;
    bool any = false;

    for (; (message = ring_peek(ring)); ring_pop(ring)) {
        take_grant(t, now, message);
        any = true;
    }
    ring_release(ring);
    return any;
}

static bool poll_ran(struct model_thread *t, int64_t now) {
    struct wiring *w = t->wiring;
    bool any = false;

    for (uint32_t e = 0; e < w->executors; e++) {
        struct ring *ring = &w->ran[e * w->model_threads + t->config.index];
        const struct ran_message *message;
        for (; (message = ring_peek(ring)); ring_pop(ring)) {
            take_ran(t, now, message);
            any = true;
        }
        ring_release(ring);
    }
    return any;
}

static bool poll_timers(struct model_thread *t, int64_t now) {
    bool any = false;

    while (!heap_empty(&t->timers) && heap_top(&t->timers).key <= now) {
        struct variant *v = &t->variants[heap_top(&t->timers).item];
        heap_remove(&t->timers, heap_top(&t->timers).item);
        variant_step(t, v, now, &(struct model_event){.kind = MODEL_TIMER});
        any = true;
    }
    return any;
}

static bool anything_pending(struct model_thread *t) {
    struct wiring *w = t->wiring;
    uint32_t index = t->config.index;

    if (ring_pending(&w->grants[index]))
        return true;
    for (uint32_t f = 0; f < w->frontends; f++)
        if (ring_pending(&w->requests[f * w->model_threads + index]))
            return true;
    for (uint32_t e = 0; e < w->executors; e++)
        if (ring_pending(&w->ran[e * w->model_threads + index]))
            return true;
    return atomic_load_explicit(&t->stop, memory_order_acquire); /* with model_thread_stop() */
}

static void sleep_until_needed(struct model_thread *t) {
    struct doorbell *bell = &t->wiring->model_bells[t->config.index];
    bool nap = !wiring_accelerators_free(t->wiring); /* what shrinks meanwhile can wait as well */
    int64_t until = heap_empty(&t->timers) ? TIME_NEVER : heap_top(&t->timers).key;

    if (nap)
        until = clock_now_ns() + WIRING_NAP_NS;
    if (t->dirty_count) /* the rank thread's ring is full: it has no bell of ours, so look again soon */
        until = clock_now_ns() + 50 * NS_PER_US;
    doorbell_arm_as(bell, nap ? DOORBELL_NAPPING : DOORBELL_ASLEEP);
    if (anything_pending(t)) {
        doorbell_cancel(bell);
        return;
    }
    doorbell_sleep(bell, until);
    int64_t late = until == TIME_NEVER ? -1 : clock_now_ns() - until;
    if (late >= 0 && !bell->busy_poll)
        margin_add(&t->wake, late);
}

static void *model_thread_main(void *argument) {
    struct model_thread *t = argument;

    thread_begin("model", t->config.index, THREAD_PROMPT);
    while (!atomic_load_explicit(&t->stop, memory_order_acquire)) { /* with model_thread_stop() */
        int64_t now = clock_now_ns();
        bool any = poll_requests(t, now); /* before the grants, whose batches they may join */
        any |= poll_grants(t, now);
        any |= poll_ran(t, now);
        any |= poll_timers(t, now);
        if (now >= t->delays_next_ns && any)
            follow_delays(t, now);
        tell_rank(t);
        ring_bells(t);
        if (!any)
            sleep_until_needed(t);
    }
    return NULL;
}

static int variants_make(struct model_thread *t) {
    for (uint32_t m = 0, at = 0; m < t->config.model_count; m++) {
        const struct model_thread_model *model = &t->models[m];
        t->model_of_served[model->served_model] = m;
        for (uint32_t i = 0; i < model->variant_count; i++, at++) {
            struct variant *v = &t->variants[at];
            *v = (struct variant){.model = m, .rank_index = model->first_variant + i};
            t->variant_of_rank_index[v->rank_index] = at;
            struct model_core_config config = variant_config(t, v, 1.0f);
            v->core = malloc(model_core_bytes(&config));
            if (!v->core)
                return -ENOMEM;
            variant_reset(t, v, 0, 1.0f);
            v->generation = model->variant_count == 1; /* a model of one shape keeps its core for key 0 */
        }
    }
    return 0;
}

static void model_thread_free(struct model_thread *t) {
    for (uint32_t i = 0; t->variants && i < t->variant_count; i++)
        free(t->variants[i].core);
    for (uint32_t type = 0; type < ACCELERATOR_TYPES_MAX; type++)
        free(t->scaled[type]);
    free(t->models);
    free(t->counters);
    free(t->measured);
    free(t->variants);
    free(t->variant_of_rank_index);
    free(t->model_of_served);
    free(t->nodes);
    free(t->timer_entries);
    free(t->timer_positions);
    free(t->dirty);
    free(t->executor_rung);
    free(t->frontend_rung);
    free(t);
}

static int model_thread_allocate(struct model_thread *t) {
    const struct model_thread_config *config = &t->config;
    uint32_t count = config->model_count ? config->model_count : 1, variants, served = 0, batch_max = 1;

    variants = 0;
    for (uint32_t m = 0; m < config->model_count; m++) {
        variants += config->models[m].variant_count;
        served = config->models[m].served_model + 1 > served ? config->models[m].served_model + 1 : served;
        batch_max = config->models[m].batch_max > batch_max ? config->models[m].batch_max : batch_max;
    }
    t->variant_count = variants;
    variants = variants ? variants : 1;
    t->models = calloc(count, sizeof(*t->models));
    t->counters = calloc(count, sizeof(*t->counters));
    t->measured = calloc(count, sizeof(*t->measured));
    t->variants = calloc(variants, sizeof(*t->variants));
    t->variant_of_rank_index = calloc(t->wiring->models + 1, sizeof(uint32_t));
    t->model_of_served = calloc(served + 1, sizeof(uint32_t));
    t->nodes = calloc(config->queue_max, sizeof(*t->nodes));
    t->timer_entries = calloc(variants, sizeof(*t->timer_entries));
    t->timer_positions = calloc(variants, sizeof(*t->timer_positions));
    t->dirty = calloc(variants, sizeof(*t->dirty));
    t->executor_rung = calloc(t->wiring->executors, sizeof(bool));
    t->frontend_rung = calloc(t->wiring->frontends, sizeof(bool));
    if (!t->models || !t->counters || !t->measured || !t->variants || !t->variant_of_rank_index ||
        !t->model_of_served || !t->nodes || !t->timer_entries || !t->timer_positions || !t->dirty ||
        !t->executor_rung || !t->frontend_rung)
        return -ENOMEM;
    for (uint32_t type = 0; type < config->types; type++)
        if (!(t->scaled[type] = malloc(profile_bytes(batch_max))))
            return -ENOMEM;
    memcpy(t->models, config->models, config->model_count * sizeof(*t->models));
    t->config.models = t->models;
    for (uint32_t m = 0; m < config->model_count; m++) {
        margin_init(&t->measured[m].gather, t->models[m].data_ns);
        atomic_init(&t->measured[m].data_ns, t->models[m].data_ns);
    }
    request_pool_init(&t->pool, t->nodes, config->queue_max);
    heap_init(&t->timers, t->timer_entries, t->timer_positions, variants);
    return variants_make(t);
}

int model_thread_start(struct model_thread **thread, const struct model_thread_config *config, struct sy_error *err) {
    struct model_thread *t = calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return error_set(err, -ENOMEM, "no memory for a model thread");
    t->config = *config;
    t->wiring = config->wiring;
    atomic_init(&t->ctrl_ns, config->ctrl_ns);
    margin_init(&t->dispatch, config->ctrl_ns);
    rc = model_thread_allocate(t);
    if (rc < 0) {
        error_set(err, rc, "no memory for the queues of %u models", config->model_count);
        goto err_free;
    }
    rc = -pthread_create(&t->thread, NULL, model_thread_main, t);
    if (rc < 0) {
        error_set(err, rc, "cannot start a model thread: %s", strerror(-rc));
        goto err_free;
    }
    *thread = t;
    return 0;

err_free:
    model_thread_free(t);
    return rc;
}

void model_thread_stop(struct model_thread *t) {
    atomic_store_explicit(&t->stop, true, memory_order_release); /* with the loop's and anything_pending()'s loads */
    doorbell_ring(&t->wiring->model_bells[t->config.index]);
    pthread_join(t->thread, NULL);
    model_thread_free(t);
}

const struct model_counters *model_thread_counters(const struct model_thread *t, uint32_t model) {
    return &t->counters[model];
}

const struct margin *model_thread_wake_margin(const struct model_thread *t) {
    return &t->wake;
}

const struct margin *model_thread_dispatch_margin(const struct model_thread *t) {
    return &t->dispatch;
}

void model_thread_delays(const struct model_thread *t, uint32_t model, int64_t *ctrl_ns, int64_t *data_ns) {
    *ctrl_ns = ctrl_for(&t->models[model], atomic_load_explicit(&t->ctrl_ns, memory_order_relaxed)); /* on their own */
    *data_ns = atomic_load_explicit(&t->measured[model].data_ns, memory_order_relaxed);
}
