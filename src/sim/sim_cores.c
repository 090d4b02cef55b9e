/* sim_cores.c - drives model cores and a rank core, the scheduler objects of the live server.
 *
 * Messages between them go through three queues that keep their order, as the rings of the live threads do; without
 * delays they are drained before time moves on. */
#include "sim/sim_state.h"

#define BUS_DELAYED 16384 /* messages that may be on their way at once; when full, the oldest arrives early */

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
    bool candidates; /* not a message: the newest candidates of message.model, as on the board of the live threads */
    struct rank_message message;
};

struct sim_notice { /* accelerator -> rank core */
    int64_t at_ns;
    enum rank_event_kind kind; /* RANK_BATCH_ENDED, RANK_ACCELERATOR_UP or _DOWN */
    uint32_t accelerator;
    int64_t said_ns;
};

struct cores {
    struct bus to_model, to_rank, notices;
    struct model_core **models;
    int64_t *timer_ns; /* [models] when they want to be stepped; the heap may still hold an earlier time */
    struct rank_core *rank;
    int64_t rank_timer_ns;
    struct rank_output rank_out;
    struct model_output model_out;
};

/* Its sources, counted from sim->sources.driver: the models' timers, then these. */
enum { TO_MODEL, TO_RANK, NOTICES, RANK_TIME, SOURCES };

static uint32_t source_of(const struct sim *sim, uint32_t source) {
    return sim->sources.driver + sim->config->model_count + source;
}

static struct cores *cores_of(const struct sim *sim) {
    return sim->driver_state;
}

/* ---- memory ---- */

static uint32_t cores_sources(const struct sim_config *c) {
    return c->model_count + SOURCES;
}

static struct model_core_config core_config(const struct sim_config *c, uint32_t m) {
    struct model_core_config config = {
        .model = m,
        .types = c->types,
        .batch_max = c->models[m].batch_max,
        .slo_ns = c->models[m].slo_ns - c->reply_margin_ns,
        .weight = c->models[m].weight,
        .ctrl_ns = c->ctrl_ns,
        .data_ns = c->data_ns,
        .fetch_ahead = true,
        .learn = c->learn,
        .accelerators = c->accelerators,
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
        .ctrl_ns = c->ctrl_ns,
        .data_ns = c->data_ns,
        .policy = c->policy,
        .policy_options = &c->options,
    };
}

static void bus_take(struct arena *arena, struct bus *bus, size_t slot_bytes, uint32_t capacity) {
    *bus = (struct bus){.slot_bytes = slot_bytes, .capacity = capacity, .last_ns = INT64_MIN};
    bus->slots = arena_take(arena, slot_bytes * capacity);
}

static void cores_layout(struct sim *sim, struct arena *arena) {
    const struct sim_config *c = sim->config;
    uint32_t instant = 4 * (c->model_count + c->accelerators) + 256;
    uint32_t capacity = c->message_ns || c->message_jitter_ns ? instant + BUS_DELAYED : instant;
    struct cores scratch, *cores = arena_take(arena, sizeof(*cores));
    if (!arena->base)
        cores = &scratch;
    bus_take(arena, &cores->to_model, sizeof(struct sim_grant), capacity);
    bus_take(arena, &cores->to_rank, sizeof(struct sim_message) + c->types * sizeof(struct candidate), capacity);
    bus_take(arena, &cores->notices, sizeof(struct sim_notice), capacity);
    cores->models = arena_take(arena, c->model_count * sizeof(*cores->models));
    cores->timer_ns = arena_take(arena, c->model_count * sizeof(*cores->timer_ns));
    struct rank_core_config rank = rank_config(c);
    cores->rank = arena_take(arena, rank_core_bytes(&rank));
    cores->rank_timer_ns = TIME_NEVER;
    if (arena->base)
        rank_core_init(cores->rank, &rank);
    for (uint32_t m = 0; m < c->model_count; m++) {
        struct model_core_config config = core_config(c, m);
        struct model_core *core = arena_take(arena, model_core_bytes(&config));
        if (!arena->base)
            continue;
        cores->models[m] = core;
        cores->timer_ns[m] = TIME_NEVER;
        model_core_init(core, &config, &sim->pool);
    }
    sim->driver_state = cores;
}

/* ---- messages ---- */

/* A place in the circle, for one at most a round too far. A division would cost more than all else in a message. */
static uint32_t bus_wrap(const struct bus *bus, uint32_t at) {
    return at < bus->capacity ? at : at - bus->capacity;
}

static void *bus_slot(const struct bus *bus, uint32_t i) {
    return bus->slots + bus_wrap(bus, bus->head + i) * bus->slot_bytes;
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
    bus->head = bus_wrap(bus, bus->head + 1);
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

static struct sim_message *to_rank_push(struct sim *sim, uint32_t model) {
    int64_t at_ns;
    struct sim_message *slot = bus_push(sim, &cores_of(sim)->to_rank, &at_ns);
    slot->at_ns = at_ns;
    slot->candidates = false;
    slot->message.model = model;
    return slot;
}

static struct rank_message *rank_message_push(struct sim *sim, enum rank_message_kind kind, uint32_t model) {
    struct rank_message *message = &to_rank_push(sim, model)->message;
    message->kind = kind;
    return message;
}

static void notice_push(struct sim *sim, enum rank_event_kind kind, uint32_t accelerator) {
    int64_t at_ns;
    struct sim_notice *slot = bus_push(sim, &cores_of(sim)->notices, &at_ns);
    *slot = (struct sim_notice){.at_ns = at_ns, .kind = kind, .accelerator = accelerator, .said_ns = sim->now_ns};
}

static struct sim_grant *grant_push(struct sim *sim, enum model_event_kind kind, uint32_t model) {
    int64_t at_ns;
    struct sim_grant *slot = bus_push(sim, &cores_of(sim)->to_model, &at_ns);
    slot->at_ns = at_ns;
    slot->kind = kind;
    slot->model = model;
    return slot;
}

/* ---- model cores ---- */

static void batch_send(struct sim *sim, uint32_t model, const struct grant_message *grant) {
    const struct model_output *out = &cores_of(sim)->model_out;
    struct sim_batch batch = {
        .kind = CENTRAL_RUN,
        .model = model,
        .items = out->batch_items,
        .requests = out->batch_requests,
        .first = out->batch,
        .earliest_ns = INT64_MIN,
        .latest_ns = TIME_NEVER,
        .expected_ns = model_core_profile(cores_of(sim)->models[model], grant->type)->latency_ns[out->batch_items],
    };
    sim_send(sim, grant->accelerator, &batch);
}

static void candidates_copy(struct sim *sim, struct rank_message *message) {
    message->types = sim->config->types;
    for (uint32_t t = 0; t < message->types; t++)
        message->candidates[t] = cores_of(sim)->model_out.candidates[t];
}

/* Does what a model core's step asked for; `grant` is what it answered to, or NULL. */
static void model_done(struct sim *sim, uint32_t model, const struct grant_message *grant) {
    struct cores *cores = cores_of(sim);
    const struct model_output *out = &cores->model_out;
    if (out->refused != REQUEST_NONE)
        sim_refuse(sim, out->refused);
    if (out->rates_changed)
        rank_message_push(sim, RANK_RATES, model)->rates = out->rates;
    if (grant) {
        struct rank_message *answer = rank_message_push(sim, RANK_ANSWER, model);
        answer->answer = (struct rank_answer){
            .accelerator = grant->accelerator,
            .items = out->batch_items,
            .sealed_ns = sim->now_ns,
            .end_ns = out->batch_finish_ns,
            .run_ns = out->batch_run_ns,
        };
        candidates_copy(sim, answer);
        if (out->batch != REQUEST_NONE)
            batch_send(sim, model, grant);
    } else if (out->candidate_changed) {
        struct sim_message *slot = to_rank_push(sim, model);
        slot->candidates = true;
        candidates_copy(sim, &slot->message);
    }
    int64_t *timer_ns = &cores->timer_ns[model];
    if (out->wake_ns < *timer_ns || *timer_ns <= sim->now_ns)
        sim_source_set(sim, sim->sources.driver + model, out->wake_ns);
    *timer_ns = out->wake_ns;
}

static void model_step(struct sim *sim, uint32_t model, const struct model_event *event,
                       const struct grant_message *grant) {
    struct cores *cores = cores_of(sim);
    model_core_step(cores->models[model], sim->now_ns, event, &cores->model_out);
    model_done(sim, model, grant);
}

static void model_timer(struct sim *sim, uint32_t model) {
    int64_t timer_ns = cores_of(sim)->timer_ns[model];
    if (timer_ns > sim->now_ns) /* it moved on since */
        sim_source_set(sim, sim->sources.driver + model, timer_ns);
    else
        model_step(sim, model, &(struct model_event){.kind = MODEL_TIMER}, NULL);
}

static void cores_arrived(struct sim *sim, const struct request_message *message) {
    model_step(sim, message->model, &(struct model_event){.kind = MODEL_ARRIVED, .request = message}, NULL);
}

static void cores_cancelled(struct sim *sim, const struct request_message *message) {
    model_step(sim, message->model, &(struct model_event){.kind = MODEL_CANCELLED, .request = message}, NULL);
}

/* ---- the rank core ---- */

static void rank_done(struct sim *sim) {
    struct cores *cores = cores_of(sim);
    const struct rank_output *out = &cores->rank_out;
    for (uint32_t i = 0; i < out->grant_count; i++)
        grant_push(sim, MODEL_GRANTED, out->grants[i].model)->grant = out->grants[i];
    for (uint32_t m = 0; out->parameters_changed && m < sim->config->model_count; m++)
        rank_core_parameters(cores->rank, m, &grant_push(sim, MODEL_PARAMETERS, m)->grant);
    if (out->wake_ns < cores->rank_timer_ns || cores->rank_timer_ns <= sim->now_ns)
        sim_source_set(sim, source_of(sim, RANK_TIME), out->wake_ns);
    cores->rank_timer_ns = out->wake_ns;
}

static void rank_step(struct sim *sim, const struct rank_event *event) {
    struct cores *cores = cores_of(sim);
    rank_core_step(cores->rank, sim->now_ns, event, &cores->rank_out);
    rank_done(sim);
}

static void rank_timer(struct sim *sim) {
    int64_t timer_ns = cores_of(sim)->rank_timer_ns;
    if (timer_ns > sim->now_ns)
        sim_source_set(sim, source_of(sim, RANK_TIME), timer_ns);
    else
        rank_step(sim, &(struct rank_event){.kind = RANK_TIMER});
}

static void notice_deliver(struct sim *sim, struct sim_notice notice) {
    rank_step(sim, &(struct rank_event){
                       .kind = notice.kind, .accelerator = notice.accelerator, .ended = {.at_ns = notice.said_ns}});
}

static void message_deliver(struct sim *sim, const struct sim_message *slot) {
    struct rank_event event = {.kind = RANK_MESSAGE, .message = &slot->message};
    if (slot->candidates)
        event = (struct rank_event){
            .kind = RANK_CANDIDATES, .model = slot->message.model, .candidates = slot->message.candidates};
    rank_step(sim, &event);
}

static void grant_deliver(struct sim *sim, const struct sim_grant *slot) {
    struct model_event event = {.kind = slot->kind};
    if (slot->kind == MODEL_RAN)
        event.ran = &slot->ran;
    else
        event.grant = &slot->grant;
    model_step(sim, slot->model, &event, slot->kind == MODEL_GRANTED ? &slot->grant : NULL);
}

/* Delivers every message that has arrived, and what it leads to in the same instant. */
static void cores_deliver(struct sim *sim) {
    struct cores *cores = cores_of(sim);
    for (;;) {
        struct sim_message *message = bus_arrived(sim, &cores->to_rank);
        if (message) {
            message_deliver(sim, message);
            bus_pop(&cores->to_rank);
            continue;
        }
        struct sim_grant *grant = bus_arrived(sim, &cores->to_model);
        if (grant) {
            grant_deliver(sim, grant);
            bus_pop(&cores->to_model);
            continue;
        }
        struct sim_notice *notice = bus_arrived(sim, &cores->notices);
        if (!notice)
            break;
        struct sim_notice copy = *notice;
        bus_pop(&cores->notices);
        notice_deliver(sim, copy);
    }
    if (sim->config->message_ns || sim->config->message_jitter_ns) {
        sim_source_set(sim, source_of(sim, TO_RANK), bus_next_ns(&cores->to_rank));
        sim_source_set(sim, source_of(sim, TO_MODEL), bus_next_ns(&cores->to_model));
        sim_source_set(sim, source_of(sim, NOTICES), bus_next_ns(&cores->notices));
    }
}

static void cores_due(struct sim *sim, uint32_t source) {
    if (source < sim->config->model_count)
        model_timer(sim, source);
    else if (source == sim->config->model_count + RANK_TIME)
        rank_timer(sim);
    /* else a message has arrived */
}

/* ---- accelerators ---- */

static void cores_ended(struct sim *sim, uint32_t accelerator, const struct sim_batch *batch, bool done) {
    if (done && (sim->config->learn || batch->late))
        grant_push(sim, MODEL_RAN, batch->model)->ran = (struct ran_message){
            .model = batch->model,
            .type = sim->config->accelerator_type[accelerator],
            .items = batch->items,
            .late = batch->late,
            .run_ns = batch->run_ns,
        };
    notice_push(sim, RANK_BATCH_ENDED, accelerator);
}

static void cores_joined(struct sim *sim, uint32_t accelerator) {
    notice_push(sim, RANK_ACCELERATOR_UP, accelerator);
}

static void cores_left(struct sim *sim, uint32_t accelerator) {
    notice_push(sim, RANK_ACCELERATOR_DOWN, accelerator);
}

static uint32_t cores_stuck(const struct sim *sim) {
    return rank_core_accelerators_busy(cores_of(sim)->rank);
}

static double cores_needed_ns(const struct sim *sim) {
    return rank_core_needed_ns(cores_of(sim)->rank);
}

const struct sim_driver sim_driver_cores = {
    .sources = cores_sources,
    .layout = cores_layout,
    .arrived = cores_arrived,
    .cancelled = cores_cancelled,
    .ended = cores_ended,
    .joined = cores_joined,
    .left = cores_left,
    .due = cores_due,
    .deliver = cores_deliver,
    .stuck = cores_stuck,
    .needed_ns = cores_needed_ns,
    .loses_late = true,
};
