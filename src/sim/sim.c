/* sim.c - the event loop around the cores.
 *
 * Every source of events (an accelerator, a model's arrivals, a model core's timer, ...) has one place in the heap, at
 * its next time. Messages between the cores go through three queues that keep their order, as the rings of the live
 * threads do; without delays they are drained before time moves on. */
#include "sim/sim.h"

#include <string.h>

#include "base/assert.h"
#include "base/fmath.h"
#include "base/heap.h"
#include "sched/model_core.h"
#include "sched/rank_core.h"
#include "sim/workload.h"

#define BUS_DELAYED 16384 /* messages that may be on their way at once; when full, the oldest arrives early */
#define NOISE_MOST  5.0

/* Messages in order, each with its time of arrival. */
struct bus {
    char *slots;
    size_t slot_bytes;
    uint32_t capacity, head, count;
    int64_t last_ns; /* the newest one's time: none may overtake it */
};

struct sim_grant { /* rank core, or an executor -> model core */
    int64_t at_ns;
    enum model_event_kind kind;
    uint32_t model;
    union {
        struct grant_message grant;
        struct ran_message ran;
    };
};

struct sim_message { /* model core -> rank core */
    int64_t at_ns;
    struct rank_message message;
};

struct sim_notice { /* accelerator -> rank core */
    int64_t at_ns;
    enum rank_event_kind kind; /* RANK_MESSAGE: RANK_FREE */
    uint32_t accelerator;
};

struct sim_accelerator {
    bool running, down, lost; /* lost: went down with its batch */
    bool used;
    struct ran_message ran;
};

struct sim_stream {
    struct workload_stream arrivals;
    struct workload_request next;
    int64_t timer_ns;              /* the model core's; the heap may still hold an earlier time */
    struct request_message cancel; /* the one client that will leave */
    bool cancelling;
};

struct sim {
    const struct sim_config *config;
    struct sim_result *result;
    int64_t now_ns, count_from_ns, count_until_ns;
    struct heap events;
    struct bus to_model, to_rank, notices;
    struct model_core **cores;
    struct rank_core *rank;
    struct request_pool pool;
    struct sim_stream *streams;
    struct sim_accelerator *accelerators;
    struct rank_output rank_out;
    struct model_output model_out;
    int64_t rank_timer_ns;
    struct rng rng; /* noise, faults, jitter, cancellations */
    uint64_t next_handle;
    uint32_t fault_accelerator;
    bool fault_on;
    int64_t busy_ns;
};

/* Sources of events, in the order in which equal times are handled. */
struct sources {
    uint32_t ends, arrivals, cancels, timers, to_model, to_rank, notices, rank_timer, fault, count;
};

static struct sources sources_of(const struct sim_config *c) {
    struct sources s = {.ends = 0};
    s.arrivals = s.ends + c->accelerators;
    s.cancels = s.arrivals + c->model_count;
    s.timers = s.cancels + c->model_count;
    s.to_model = s.timers + c->model_count;
    s.to_rank = s.to_model + 1;
    s.notices = s.to_rank + 1;
    s.rank_timer = s.notices + 1;
    s.fault = s.rank_timer + 1;
    s.count = s.fault + 1;
    return s;
}

/* ---- memory ---- */

struct arena {
    char *base;
    size_t used;
};

static void *arena_take(struct arena *arena, size_t bytes) {
    void *piece = arena->base ? arena->base + arena->used : NULL;
    arena->used += (bytes + 63) & ~(size_t)63;
    return piece;
}

static uint32_t queue_capacity(const struct sim_config *c) {
    if (c->queue_capacity)
        return c->queue_capacity;
    double rate = 0, slo_s = 0, surge = 1;
    for (uint32_t i = 0; i < c->step_count; i++)
        rate = c->steps[i].rate_rps > rate ? c->steps[i].rate_rps : rate;
    for (uint32_t m = 0; m < c->model_count; m++) {
        double model_slo_s = (double)c->models[m].slo_ns / (double)NS_PER_S * (1 + c->models[m].slo_spread);
        slo_s = model_slo_s > slo_s ? model_slo_s : slo_s;
        surge = c->models[m].surge_factor > surge ? c->models[m].surge_factor : surge;
    }
    return (uint32_t)(2 * rate * surge * slo_s) + 65536;
}

static struct model_core_config core_config(const struct sim_config *c, uint32_t m) {
    struct model_core_config config = {
        .model = m,
        .types = c->types,
        .batch_max = c->models[m].batch_max,
        .slo_ns = c->models[m].slo_ns - c->reply_margin_ns,
        .ctrl_ns = c->ctrl_ns,
        .data_ns = c->data_ns,
        .learn = c->learn,
        .policy = c->policy,
        .policy_options = &c->options,
    };
    memcpy(config.profiles, c->models[m].profiles, sizeof(config.profiles));
    return config;
}

static struct rank_core_config rank_config(const struct sim_config *c) {
    return (struct rank_core_config){
        .models = c->model_count,
        .accelerators = c->accelerators,
        .accelerator_type = c->accelerator_type,
        .types = c->types,
        .policy = c->policy,
        .policy_options = &c->options,
    };
}

static void bus_take(struct arena *arena, struct bus *bus, size_t slot_bytes, uint32_t capacity) {
    *bus = (struct bus){.slot_bytes = slot_bytes, .capacity = capacity, .last_ns = INT64_MIN};
    bus->slots = arena_take(arena, slot_bytes * capacity);
}

static void sim_layout(struct sim *sim, struct arena *arena, const struct sim_config *c) {
    uint32_t sources = sources_of(c).count, instant = 4 * (c->model_count + c->accelerators) + 256;
    uint32_t capacity = c->message_ns || c->message_jitter_ns ? instant + BUS_DELAYED : instant;
    struct heap_entry *entries = arena_take(arena, sources * sizeof(*entries));
    uint32_t *position = arena_take(arena, sources * sizeof(*position));
    struct request_node *nodes = arena_take(arena, (size_t)queue_capacity(c) * sizeof(*nodes));
    bus_take(arena, &sim->to_model, sizeof(struct sim_grant), capacity);
    bus_take(arena, &sim->to_rank, sizeof(struct sim_message), capacity);
    bus_take(arena, &sim->notices, sizeof(struct sim_notice), capacity);
    sim->streams = arena_take(arena, c->model_count * sizeof(*sim->streams));
    sim->accelerators = arena_take(arena, c->accelerators * sizeof(*sim->accelerators));
    sim->cores = arena_take(arena, c->model_count * sizeof(*sim->cores));
    struct rank_core_config rank = rank_config(c);
    sim->rank = arena_take(arena, rank_core_bytes(&rank));
    struct sim_model_result *results = arena_take(arena, c->model_count * sizeof(*results));
    if (arena->base) {
        heap_init(&sim->events, entries, position, sources);
        request_pool_init(&sim->pool, nodes, queue_capacity(c));
        memset(sim->accelerators, 0, c->accelerators * sizeof(*sim->accelerators));
        memset(results, 0, c->model_count * sizeof(*results));
        sim->result->models = results;
        rank_core_init(sim->rank, &rank);
    }
    for (uint32_t m = 0; m < c->model_count; m++) {
        struct model_core_config config = core_config(c, m);
        struct model_core *core = arena_take(arena, model_core_bytes(&config));
        if (!arena->base)
            continue;
        sim->cores[m] = core;
        model_core_init(core, &config, &sim->pool);
    }
}

size_t sim_bytes(const struct sim_config *config) {
    struct sim scratch;
    struct arena arena = {NULL, 0};
    arena_take(&arena, sizeof(struct sim));
    sim_layout(&scratch, &arena, config);
    return arena.used;
}

/* ---- messages ---- */

static void *bus_slot(const struct bus *bus, uint32_t i) {
    return bus->slots + ((bus->head + i) % bus->capacity) * bus->slot_bytes;
}

/* Room for one more message, and in *at_ns when it arrives. */
static void *bus_push(struct sim *sim, struct bus *bus, int64_t *at_ns) {
    const struct sim_config *c = sim->config;
    int64_t delay_ns = c->message_ns;
    if (c->message_jitter_ns)
        delay_ns += (int64_t)rng_below(&sim->rng, (uint64_t)c->message_jitter_ns + 1);
    *at_ns = sim->now_ns + delay_ns;
    if (*at_ns < bus->last_ns)
        *at_ns = bus->last_ns;
    bus->last_ns = *at_ns;
    CHECK_LT(bus->count, bus->capacity);
    if (bus->count == 0)
        bus->head = 0; /* stays in the cache */
    return bus_slot(bus, bus->count++);
}

static void bus_pop(struct bus *bus) {
    bus->head = (bus->head + 1) % bus->capacity;
    bus->count--;
}

/* The oldest message if it has arrived. Every message begins with its time. */
static void *bus_arrived(const struct sim *sim, const struct bus *bus) {
    if (bus->count == 0)
        return NULL;
    int64_t *at_ns = bus_slot(bus, 0);
    bool full = bus->count > bus->capacity / 2;
    return *at_ns <= sim->now_ns || full ? at_ns : NULL;
}

static int64_t bus_next_ns(const struct bus *bus) {
    return bus->count ? *(int64_t *)bus_slot(bus, 0) : TIME_NEVER;
}

static void source_set(struct sim *sim, uint32_t source, int64_t at_ns) {
    if (at_ns == TIME_NEVER)
        heap_remove(&sim->events, source);
    else
        heap_set(&sim->events, source, at_ns);
}

static struct rank_message *rank_message_push(struct sim *sim, enum rank_message_kind kind, uint32_t model) {
    int64_t at_ns;
    struct sim_message *slot = bus_push(sim, &sim->to_rank, &at_ns);
    slot->at_ns = at_ns;
    slot->message.kind = kind;
    slot->message.model = model;
    return &slot->message;
}

static void notice_push(struct sim *sim, enum rank_event_kind kind, uint32_t accelerator) {
    int64_t at_ns;
    struct sim_notice *slot = bus_push(sim, &sim->notices, &at_ns);
    *slot = (struct sim_notice){.at_ns = at_ns, .kind = kind, .accelerator = accelerator};
}

static struct sim_grant *grant_push(struct sim *sim, enum model_event_kind kind, uint32_t model) {
    int64_t at_ns;
    struct sim_grant *slot = bus_push(sim, &sim->to_model, &at_ns);
    slot->at_ns = at_ns;
    slot->kind = kind;
    slot->model = model;
    return slot;
}

/* ---- what happens to requests ---- */

static bool counts(const struct sim *sim, int64_t arrival_ns) {
    return arrival_ns >= sim->count_from_ns && arrival_ns < sim->count_until_ns;
}

static void requests_refused(struct sim *sim, uint32_t model, uint32_t node) {
    const struct sim_observer *observer = sim->config->observer;
    while (node != REQUEST_NONE) {
        struct request_node *request = &sim->pool.nodes[node];
        uint32_t next = request->next;
        struct sim_model_result *result = &sim->result->models[model];
        if (counts(sim, request->arrival_ns)) {
            result->dropped += request->refusal != REFUSAL_CANCELLED;
            result->cancelled += request->refusal == REFUSAL_CANCELLED;
        }
        if (observer && observer->refused)
            observer->refused(observer->context, sim->now_ns, request->handle, request->refusal);
        request_pool_put(&sim->pool, node);
        node = next;
    }
}

/* What a batch really takes. */
static int64_t run_draw(struct sim *sim, uint32_t model, uint32_t type, uint32_t items) {
    int64_t run_ns = sim->config->models[model].profiles[type]->latency_ns[items];
    if (sim->config->noise <= 0)
        return run_ns;
    double x = rng_exponential(&sim->rng);
    return run_ns + (int64_t)((double)run_ns * sim->config->noise * (x < NOISE_MOST ? x : NOISE_MOST));
}

/* The part of [from, to) in which requests count. */
static int64_t counted_ns(const struct sim *sim, int64_t from_ns, int64_t to_ns) {
    if (from_ns < sim->count_from_ns)
        from_ns = sim->count_from_ns;
    if (to_ns > sim->count_until_ns)
        to_ns = sim->count_until_ns;
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

static void batch_start(struct sim *sim, uint32_t model, const struct grant_message *grant) {
    const struct sim_config *c = sim->config;
    const struct model_output *out = &sim->model_out;
    const struct sim_observer *observer = c->observer;
    struct sim_accelerator *accelerator = &sim->accelerators[grant->accelerator];
    struct sim_model_result *result = &sim->result->models[model];
    int64_t run_ns = run_draw(sim, model, grant->type, out->batch_items), end_ns = out->batch_start_ns + run_ns;
    if (observer && observer->started)
        observer->started(observer->context, sim->now_ns, model, grant->accelerator, out->batch_items,
                          c->ctrl_ns + c->data_ns * out->batch_items +
                              model_core_profile(sim->cores[model], grant->type)->latency_ns[out->batch_items],
                          end_ns);
    if (counts(sim, sim->now_ns)) {
        result->batches++;
        result->batch_items += out->batch_items;
    }
    accelerator->running = accelerator->used = true;
    accelerator->lost = accelerator->down;
    accelerator->ran =
        (struct ran_message){.model = model, .type = grant->type, .items = out->batch_items, .run_ns = run_ns};
    sim->busy_ns += counted_ns(sim, out->batch_start_ns, end_ns);
    if (!accelerator->down)
        source_set(sim, sources_of(c).ends + grant->accelerator, end_ns);

    for (uint32_t node = out->batch, next; node != REQUEST_NONE; node = next) {
        struct request_node *request = &sim->pool.nodes[node];
        next = request->next;
        if (counts(sim, request->arrival_ns)) {
            bool good = end_ns <= request->deadline_ns && !accelerator->down;
            result->good += good;
            result->late += !good;
            histogram_add(&result->latency, end_ns + c->reply_margin_ns - request->arrival_ns);
            histogram_add(&result->queueing, sim->now_ns - request->arrival_ns);
        }
        if (observer && observer->joined)
            observer->joined(observer->context, request->handle);
        request_pool_put(&sim->pool, node);
    }
}

static void candidates_copy(struct sim *sim, struct rank_message *message) {
    message->types = sim->config->types;
    memcpy(message->candidates, sim->model_out.candidates, message->types * sizeof(struct candidate));
}

/* Does what a model core's step asked for; `grant` is what it answered to, or NULL. */
static void model_done(struct sim *sim, uint32_t model, const struct grant_message *grant) {
    const struct model_output *out = &sim->model_out;
    if (out->refused != REQUEST_NONE)
        requests_refused(sim, model, out->refused);
    if (out->rates_changed)
        rank_message_push(sim, RANK_RATES, model)->rates = out->rates;
    if (grant) {
        struct rank_message *answer = rank_message_push(sim, RANK_ANSWER, model);
        answer->accelerator = grant->accelerator;
        answer->items = out->batch_items;
        answer->free_ns = out->batch_finish_ns;
        candidates_copy(sim, answer);
        if (out->batch != REQUEST_NONE)
            batch_start(sim, model, grant);
    } else if (out->candidate_changed) {
        candidates_copy(sim, rank_message_push(sim, RANK_CANDIDATE, model));
    }
    struct sim_stream *stream = &sim->streams[model];
    if (out->wake_ns < stream->timer_ns || stream->timer_ns <= sim->now_ns)
        source_set(sim, sources_of(sim->config).timers + model, out->wake_ns);
    stream->timer_ns = out->wake_ns;
}

static void model_step(struct sim *sim, uint32_t model, const struct model_event *event,
                       const struct grant_message *grant) {
    model_core_step(sim->cores[model], sim->now_ns, event, &sim->model_out);
    model_done(sim, model, grant);
}

/* ---- events ---- */

static void cancel_draw(struct sim *sim, uint32_t model, const struct request_message *request) {
    struct sim_stream *stream = &sim->streams[model];
    if (stream->cancelling || rng_uniform(&sim->rng) >= sim->config->cancel_share)
        return;
    stream->cancelling = true;
    stream->cancel = *request;
    stream->cancel.kind = REQUEST_CANCELLED;
    int64_t after_ns = (int64_t)(rng_uniform(&sim->rng) * (double)(request->deadline_ns - sim->now_ns));
    source_set(sim, sources_of(sim->config).cancels + model, sim->now_ns + (after_ns > 0 ? after_ns : 0));
}

static void arrival_schedule(struct sim *sim, uint32_t model) {
    struct sim_stream *stream = &sim->streams[model];
    bool more = workload_stream_next(&stream->arrivals, &stream->next);
    source_set(sim, sources_of(sim->config).arrivals + model, more ? stream->next.arrival_ns : TIME_NEVER);
}

static void request_arrives(struct sim *sim, uint32_t model) {
    const struct sim_observer *observer = sim->config->observer;
    struct sim_stream *stream = &sim->streams[model];
    struct request_message message = {
        .kind = REQUEST_ARRIVED,
        .handle = sim->next_handle++,
        .arrival_ns = sim->now_ns,
        .deadline_ns = sim->now_ns + stream->next.slo_ns - sim->config->reply_margin_ns,
        .items = stream->next.items,
        .model = model,
    };
    arrival_schedule(sim, model);
    struct sim_model_result *result = &sim->result->models[model];
    bool counted = counts(sim, sim->now_ns);
    sim->result->requests++;
    result->offered += counted;
    if (sim->pool.used == sim->pool.capacity) {
        result->dropped += counted;
        return;
    }
    if (observer && observer->arrived)
        observer->arrived(observer->context, sim->now_ns, message.handle, model, message.items, message.deadline_ns);
    if (sim->config->cancel_share > 0)
        cancel_draw(sim, model, &message);
    model_step(sim, model, &(struct model_event){.kind = MODEL_ARRIVED, .request = &message}, NULL);
}

static void request_cancels(struct sim *sim, uint32_t model) {
    struct sim_stream *stream = &sim->streams[model];
    stream->cancelling = false;
    source_set(sim, sources_of(sim->config).cancels + model, TIME_NEVER);
    model_step(sim, model, &(struct model_event){.kind = MODEL_CANCELLED, .request = &stream->cancel}, NULL);
}

static void model_timer(struct sim *sim, uint32_t model) {
    struct sim_stream *stream = &sim->streams[model];
    if (stream->timer_ns > sim->now_ns) { /* it moved on since */
        source_set(sim, sources_of(sim->config).timers + model, stream->timer_ns);
        return;
    }
    model_step(sim, model, &(struct model_event){.kind = MODEL_TIMER}, NULL);
}

static void batch_ends(struct sim *sim, uint32_t accelerator) {
    const struct sim_observer *observer = sim->config->observer;
    struct sim_accelerator *a = &sim->accelerators[accelerator];
    source_set(sim, sources_of(sim->config).ends + accelerator, TIME_NEVER);
    a->running = false;
    if (observer && observer->ended)
        observer->ended(observer->context, sim->now_ns, accelerator);
    if (sim->config->learn && !a->lost)
        grant_push(sim, MODEL_RAN, a->ran.model)->ran = a->ran;
    notice_push(sim, RANK_MESSAGE, accelerator);
}

/* Faults come one at a time: an accelerator leaves with its batch, and comes back. */
static void fault_toggle(struct sim *sim) {
    const struct sim_config *c = sim->config;
    struct sim_accelerator *a = &sim->accelerators[sim->fault_accelerator];
    double wait_s;
    if (!sim->fault_on) {
        sim->fault_accelerator = (uint32_t)rng_below(&sim->rng, c->accelerators);
        a = &sim->accelerators[sim->fault_accelerator];
        a->down = true;
        a->lost |= a->running;
        source_set(sim, sources_of(c).ends + sim->fault_accelerator, TIME_NEVER);
        notice_push(sim, RANK_ACCELERATOR_DOWN, sim->fault_accelerator);
        wait_s = c->fault_s * rng_exponential(&sim->rng);
    } else {
        a->down = false;
        if (a->running) /* what it lost is reported before it is back */
            batch_ends(sim, sim->fault_accelerator);
        notice_push(sim, RANK_ACCELERATOR_UP, sim->fault_accelerator);
        wait_s = c->fault_every_s * rng_exponential(&sim->rng);
    }
    sim->fault_on = !sim->fault_on;
    int64_t next_ns = sim->now_ns + (int64_t)(wait_s * (double)NS_PER_S) + 1;
    bool over = !sim->fault_on && next_ns > sim->count_until_ns - (sim->count_until_ns / 10);
    source_set(sim, sources_of(c).fault, over ? TIME_NEVER : next_ns);
}

static void rank_done(struct sim *sim) {
    const struct rank_output *out = &sim->rank_out;
    for (uint32_t i = 0; i < out->grant_count; i++)
        grant_push(sim, MODEL_GRANTED, out->grants[i].model)->grant = out->grants[i];
    for (uint32_t m = 0; out->parameters_changed && m < sim->config->model_count; m++)
        rank_core_parameters(sim->rank, m, &grant_push(sim, MODEL_PARAMETERS, m)->grant);
    if (out->wake_ns < sim->rank_timer_ns || sim->rank_timer_ns <= sim->now_ns)
        source_set(sim, sources_of(sim->config).rank_timer, out->wake_ns);
    sim->rank_timer_ns = out->wake_ns;
}

static void rank_step(struct sim *sim, const struct rank_event *event) {
    rank_core_step(sim->rank, sim->now_ns, event, &sim->rank_out);
    rank_done(sim);
}

static void rank_timer(struct sim *sim) {
    if (sim->rank_timer_ns > sim->now_ns)
        source_set(sim, sources_of(sim->config).rank_timer, sim->rank_timer_ns);
    else
        rank_step(sim, &(struct rank_event){.kind = RANK_TIMER});
}

static void notice_deliver(struct sim *sim, struct sim_notice notice) {
    if (notice.kind != RANK_MESSAGE) {
        rank_step(sim, &(struct rank_event){.kind = notice.kind, .accelerator = notice.accelerator});
        return;
    }
    struct rank_message message;
    message.kind = RANK_FREE;
    message.accelerator = notice.accelerator;
    rank_step(sim, &(struct rank_event){.kind = RANK_MESSAGE, .message = &message});
}

static void grant_deliver(struct sim *sim, struct sim_grant *slot) {
    struct model_event event = {.kind = slot->kind};
    if (slot->kind == MODEL_RAN) {
        struct ran_message ran = slot->ran;
        event.ran = &ran;
        model_step(sim, slot->model, &event, NULL);
        return;
    }
    struct grant_message grant = slot->grant;
    event.grant = &grant;
    model_step(sim, slot->model, &event, slot->kind == MODEL_GRANTED ? &grant : NULL);
}

/* Delivers every message that has arrived, and what it leads to in the same instant. */
static void messages_deliver(struct sim *sim) {
    for (;;) {
        struct sim_message *message = bus_arrived(sim, &sim->to_rank);
        if (message) {
            rank_step(sim, &(struct rank_event){.kind = RANK_MESSAGE, .message = &message->message});
            bus_pop(&sim->to_rank);
            continue;
        }
        struct sim_grant *grant = bus_arrived(sim, &sim->to_model);
        if (grant) {
            grant_deliver(sim, grant);
            bus_pop(&sim->to_model);
            continue;
        }
        struct sim_notice *notice = bus_arrived(sim, &sim->notices);
        if (!notice)
            break;
        struct sim_notice copy = *notice;
        bus_pop(&sim->notices);
        notice_deliver(sim, copy);
    }
    if (sim->config->message_ns || sim->config->message_jitter_ns) {
        struct sources s = sources_of(sim->config);
        source_set(sim, s.to_rank, bus_next_ns(&sim->to_rank));
        source_set(sim, s.to_model, bus_next_ns(&sim->to_model));
        source_set(sim, s.notices, bus_next_ns(&sim->notices));
    }
}

static void source_handle(struct sim *sim, uint32_t source) {
    struct sources s = sources_of(sim->config);
    if (source < s.arrivals)
        batch_ends(sim, source - s.ends);
    else if (source < s.cancels)
        request_arrives(sim, source - s.arrivals);
    else if (source < s.timers)
        request_cancels(sim, source - s.cancels);
    else if (source < s.to_model)
        model_timer(sim, source - s.timers);
    else if (source == s.rank_timer)
        rank_timer(sim);
    else if (source == s.fault)
        fault_toggle(sim);
    /* else a message has arrived */
}

/* ---- the run ---- */

static void result_sum(struct sim *sim) {
    struct sim_result *r = sim->result;
    const struct sim_config *c = sim->config;
    for (uint32_t m = 0; m < c->model_count; m++) {
        const struct sim_model_result *model = &r->models[m];
        r->offered += model->offered;
        r->good += model->good;
        r->dropped += model->dropped;
        r->late += model->late;
        r->cancelled += model->cancelled;
        r->batches += model->batches;
        r->batch_items += model->batch_items;
        double bad = model->offered ? (double)(model->dropped + model->late) / (double)model->offered : 0;
        r->worst_bad_rate = bad > r->worst_bad_rate ? bad : r->worst_bad_rate;
    }
    for (uint32_t a = 0; a < c->accelerators; a++)
        r->accelerators_used += sim->accelerators[a].used;
    r->busy = (double)sim->busy_ns / ((double)(sim->count_until_ns - sim->count_from_ns) * c->accelerators);
    r->stuck = rank_core_accelerators_busy(sim->rank);
    r->unanswered = sim->pool.used;
}

void sim_run(const struct sim_config *config, void *memory, struct sim_result *result) {
    struct arena arena = {memory, 0};
    struct sim *sim = arena_take(&arena, sizeof(*sim));
    memset(sim, 0, sizeof(*sim));
    *result = (struct sim_result){0};
    sim->config = config;
    sim->result = result;
    sim_layout(sim, &arena, config);
    sim->count_from_ns = (int64_t)(config->warmup_s * (double)NS_PER_S);
    sim->count_until_ns = (int64_t)((config->warmup_s + config->seconds) * (double)NS_PER_S);
    sim->rank_timer_ns = TIME_NEVER;
    rng_seed(&sim->rng, config->seed);
    for (uint32_t m = 0; m < config->model_count; m++) {
        sim->streams[m] = (struct sim_stream){.timer_ns = TIME_NEVER};
        workload_stream_init(&sim->streams[m].arrivals, config, m);
        arrival_schedule(sim, m);
    }
    if (config->fault_every_s > 0)
        source_set(sim, sources_of(config).fault,
                   (int64_t)(config->fault_every_s * rng_exponential(&sim->rng) * (double)NS_PER_S));
    while (!heap_empty(&sim->events)) {
        struct heap_entry next = heap_top(&sim->events);
        CHECK_GE(next.key, sim->now_ns);
        sim->now_ns = next.key;
        source_handle(sim, next.item);
        messages_deliver(sim);
    }
    result_sum(sim);
}

void sim_shares_equal(struct sim_model *models, uint32_t count) {
    for (uint32_t m = 0; m < count; m++)
        models[m].share = 1;
}

void sim_shares_zipf(struct sim_model *models, uint32_t count, double s) {
    for (uint32_t m = 0; m < count; m++)
        models[m].share = fmath_exp(-s * fmath_log(m + 1));
}
