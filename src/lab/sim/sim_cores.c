/* sim_cores.c - drives model cores and rank cores, which are those of the live server.
 *
 * Messages between them go through queues that keep their order, as the rings of the live threads do: three for each
 * rank core. Without delays they are drained before time moves on. */
#include "lab/sim/sim_cores_state.h"

/* Most messages of a bus on their way at once; when it is half full, the oldest arrives early. */
#define BUS_DELAYED 16384

static uint32_t source_of(const struct sim *sim, uint32_t kind, uint32_t subcluster) {
    return sim->sources.driver + sim->config->model_count + kind * cores_of(sim)->subcluster_count + subcluster;
}

/* ---- memory ---- */

static uint32_t cores_sources(const struct sim_config *c) {
    return c->model_count + SUBCLUSTER_SOURCES * subclusters_of(c) + (subclusters_of(c) > 1 ? MOVES_SOURCES : 0);
}

/* A model core's load_ns is over 0 where memory is limited. */
static int64_t cold_ns(int64_t load_ns) {
    return load_ns > 0 ? load_ns : 1;
}

static void subcluster_layout(struct sim *sim, struct arena *arena, uint32_t k) {
    const struct sim_config *c = sim->config;
    struct cores *cores = cores_of(sim);
    struct sim_subcluster scratch, *subcluster = arena->base ? &cores->subclusters[k] : &scratch;
    uint32_t instant = 4 * (c->model_count + c->accelerators) + 256;
    uint32_t capacity = c->message_ns || c->message_jitter_ns ? instant + BUS_DELAYED : instant;
    bus_take(arena, &subcluster->to_model, sizeof(struct sim_grant), capacity);
    bus_take(arena, &subcluster->to_rank, sizeof(struct sim_message) + c->types * sizeof(struct candidate), capacity);
    bus_take(arena, &subcluster->notices, sizeof(struct sim_notice), capacity);
    struct rank_core_config rank = {
        .subcluster = k,
        .subcluster_of_accelerator = cores->subcluster_of_accelerator,
        .subcluster_of_model = cores->subcluster_of_model,
        .models = c->model_count,
        .accelerators = c->accelerators,
        .accelerator_type = c->accelerator_type,
        .types = c->types,
        .ctrl_ns = c->ctrl_ns,
        .data_ns = c->data_ns,
        .limited = c->memory_bytes > 0,
        .cuts_loads = true,
        .memory_pages = (uint32_t)(c->memory_bytes / PAGE_BYTES),
        .weights = cores->weights,
        .policy = c->policy,
        .policy_options = &c->options,
    };
    subcluster->rank = arena_take(arena, rank_core_bytes(&rank));
    subcluster->rank_timer_ns = TIME_NEVER;
    if (arena->base)
        rank_core_init(subcluster->rank, &rank);
}

static void cores_layout(struct sim *sim, struct arena *arena) {
    const struct sim_config *c = sim->config;
    struct cores scratch, *cores = arena_take(arena, sizeof(*cores));
    if (!arena->base)
        cores = &scratch;
    *cores = (struct cores){.subcluster_count = subclusters_of(c)};
    sim->driver_state = cores;
    cores->subclusters = arena_take(arena, cores->subcluster_count * sizeof(*cores->subclusters));
    cores->models = arena_take(arena, c->model_count * sizeof(*cores->models));
    cores->timer_ns = arena_take(arena, c->model_count * sizeof(*cores->timer_ns));
    if (cores->subcluster_count > 1) {
        cores->subcluster_of_accelerator = arena_take(arena, c->accelerators);
        if (arena->base) {
            uint32_t of_type[ACCELERATOR_TYPES_MAX] = {0};
            for (uint32_t a = 0; a < c->accelerators; a++)
                cores->subcluster_of_accelerator[a] = (uint8_t)(of_type[c->accelerator_type[a]]++ % subclusters_of(c));
        }
        sim_moves_layout(sim, arena);
    }
    cores->weights = arena_take(arena, c->memory_bytes ? c->model_count * sizeof(*cores->weights) : 0);
    for (uint32_t m = 0; arena->base && c->memory_bytes && m < c->model_count; m++) {
        const struct sim_model *from = &c->models[m];
        cores->weights[m] = (struct rank_weights){.first = m,
                                                  .count = 1,
                                                  .pages = pages_of(from->weights_bytes, PAGE_BYTES),
                                                  .pinned = from->pinned,
                                                  .load_ns = from->load_ns};
        for (uint32_t t = 0; t < c->types; t++)
            cores->weights[m].types |= from->profiles[t] ? 1u << t : 0;
    }
    for (uint32_t k = 0; k < cores->subcluster_count; k++)
        subcluster_layout(sim, arena, k);
    for (uint32_t m = 0; m < c->model_count; m++) {
        struct model_core_config config = {
            .types = c->types,
            .batch_max = c->models[m].batch_max,
            .slo_ns = c->models[m].slo_ns - c->reply_margin_ns - c->link_margin_ns,
            .weight = c->models[m].weight,
            .ctrl_ns = c->ctrl_ns,
            .data_ns = c->data_ns,
            .fetch_ahead = true,
            .learn = c->learn,
            .accelerators = c->accelerators,
            .load_ns = c->memory_bytes ? cold_ns(c->models[m].load_ns) : 0,
            .there_ns = TIME_NEVER,
            .policy = c->policy,
            .policy_options = &c->options,
        };
        memcpy(config.profiles, c->models[m].profiles, sizeof(config.profiles));
        struct model_core *core = arena_take(arena, model_core_bytes(&config));
        if (!arena->base)
            continue;
        cores->models[m] = core;
        cores->timer_ns[m] = TIME_NEVER;
        model_core_init(core, &config, &sim->pool);
    }
}

static void cores_begin(struct sim *sim) {
    struct cores *cores = cores_of(sim);
    if (cores->subcluster_count > 1)
        sim_moves_begin(sim);
    for (uint32_t k = 0; k < cores->subcluster_count; k++) {
        cores->subclusters[k].rank_timer_ns = rank_core_first_ns(cores->subclusters[k].rank);
        sim_source_set(sim, source_of(sim, RANK_TIME, k), cores->subclusters[k].rank_timer_ns);
    }
}

/* ---- messages ---- */

/* The time of arrival of a message that is sent now. */
static int64_t arrival_draw(struct sim *sim) {
    const struct sim_config *c = sim->config;
    int64_t delay_ns = c->message_ns;
    if (c->message_jitter_ns)
        delay_ns += (int64_t)rng_below(&sim->rng, (uint64_t)c->message_jitter_ns + 1);
    return sim->now_ns + delay_ns;
}

static struct sim_message *to_rank_push(struct sim *sim, uint32_t model) {
    struct cores *cores = cores_of(sim);
    uint32_t subcluster = subcluster_of(sim, model);
    struct sim_message *slot = bus_push(&cores->subclusters[subcluster].to_rank, arrival_draw(sim));
    cores->to_rank_some |= 1ULL << subcluster;
    slot->candidates = false;
    slot->message.variant = (struct variant_id){model};
    return slot;
}

struct rank_message *sim_rank_message(struct sim *sim, enum rank_message_kind kind, uint32_t model) {
    struct rank_message *message = &to_rank_push(sim, model)->message;
    message->kind = kind;
    return message;
}

static uint32_t subcluster_of_accelerator(const struct cores *cores, uint32_t accelerator) {
    return cores->subcluster_of_accelerator ? cores->subcluster_of_accelerator[accelerator] : 0;
}

static struct sim_notice *notice_push(struct sim *sim, enum rank_event_kind kind, uint32_t accelerator) {
    struct cores *cores = cores_of(sim);
    uint32_t subcluster = subcluster_of_accelerator(cores, accelerator);
    struct sim_notice *slot = bus_push(&cores->subclusters[subcluster].notices, arrival_draw(sim));
    cores->notices_some |= 1ULL << subcluster;
    slot->kind = kind;
    slot->accelerator = accelerator;
    slot->said_ns = sim->now_ns;
    return slot;
}

static struct sim_grant *grant_push(struct sim *sim, uint32_t subcluster, enum model_event_kind kind, uint32_t model) {
    struct cores *cores = cores_of(sim);
    struct sim_grant *slot = bus_push(&cores->subclusters[subcluster].to_model, arrival_draw(sim));
    cores->to_model_some |= 1ULL << subcluster;
    slot->kind = kind;
    slot->left = false;
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
        .ready_ns = out->batch_ready_ns,
        .expected_ns = model_core_profile(cores_of(sim)->models[model], grant->type)->latency_ns[out->batch_items],
    };
    sim_send(sim, grant->accelerator, &batch);
}

static void candidates_copy(struct sim *sim, struct rank_message *message) {
    message->types = sim->config->types;
    for (uint32_t t = 0; t < message->types; t++)
        message->candidates[t] = cores_of(sim)->model_out.candidates[t];
}

/* Carries out the output of a model core's step; `grant`: the grant that the step answered, or NULL. */
static void model_done(struct sim *sim, uint32_t model, const struct grant_message *grant) {
    struct cores *cores = cores_of(sim);
    const struct model_output *out = &cores->model_out;
    if (out->refused != REQUEST_NONE)
        sim_refuse(sim, out->refused);
    if (cores->places) {
        /* the messages that a rank core gets when the model joins it */
        if (out->candidate_changed)
            memcpy(&cores->board[(size_t)model * sim->config->types], out->candidates,
                   sim->config->types * sizeof(struct candidate));
        if (out->rates_changed)
            cores->places[model].rates = out->rates;
    }
    if (out->rates_changed && subcluster_of(sim, model) != SIM_NOTHING)
        sim_rank_message(sim, RANK_RATES, model)->rates = out->rates;
    if (grant) {
        struct rank_message *answer = sim_rank_message(sim, RANK_ANSWER, model);
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
    } else if (out->candidate_changed && subcluster_of(sim, model) != SIM_NOTHING) {
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
    model_step(sim, message->place.n, &(struct model_event){.kind = MODEL_ARRIVED, .request = message}, NULL);
}

static void cores_cancelled(struct sim *sim, const struct request_message *message) {
    model_step(sim, message->place.n, &(struct model_event){.kind = MODEL_CANCELLED, .request = message}, NULL);
}

/* ---- rank cores ---- */

static void parameters_push(struct sim *sim, uint32_t k, uint32_t model) {
    rank_core_parameters(cores_of(sim)->subclusters[k].rank, (struct variant_id){model},
                         &grant_push(sim, k, MODEL_PARAMETERS, model)->grant);
}

static void rank_done(struct sim *sim, uint32_t k) {
    struct cores *cores = cores_of(sim);
    struct sim_subcluster *subcluster = &cores->subclusters[k];
    const struct rank_output *out = &cores->rank_out;
    if (out->left.n != RANK_NOBODY)
        grant_push(sim, k, MODEL_PARAMETERS, out->left.n)->left = true;
    for (uint32_t i = 0; i < out->gone_count; i++)
        grant_push(sim, k, MODEL_PARAMETERS, out->gone[i].n)->left = true;
    if (out->joined.n != RANK_NOBODY)
        parameters_push(sim, k, out->joined.n);
    for (uint32_t i = 0; i < out->grant_count; i++)
        grant_push(sim, k, MODEL_GRANTED, out->grants[i].variant.n)->grant = out->grants[i];
    for (uint32_t i = 0; i < out->move_count; i++)
        sim_send(sim, out->moves[i].accelerator,
                 &(struct sim_batch){.kind = out->moves[i].kind,
                                     .model = out->moves[i].variant.n,
                                     .first = REQUEST_NONE,
                                     .earliest_ns = INT64_MIN,
                                     .latest_ns = out->moves[i].latest_ns,
                                     .ahead = out->moves[i].ahead,
                                     .ready_ns = INT64_MIN,
                                     .tag = out->moves[i].epoch});
    struct grant_message news;
    while (rank_core_memory_news(subcluster->rank, &news))
        grant_push(sim, k, MODEL_MEMORY, news.variant.n)->grant = news;
    for (uint32_t m = 0; out->parameters_changed && m < sim->config->model_count; m++)
        if (cores->subcluster_count == 1 || rank_core_member(subcluster->rank, (struct variant_id){m}))
            parameters_push(sim, k, m);
    if (out->wake_ns < subcluster->rank_timer_ns || subcluster->rank_timer_ns <= sim->now_ns)
        sim_source_set(sim, source_of(sim, RANK_TIME, k), out->wake_ns);
    subcluster->rank_timer_ns = out->wake_ns;
}

static void rank_step(struct sim *sim, uint32_t k, const struct rank_event *event) {
    struct cores *cores = cores_of(sim);
    rank_core_step(cores->subclusters[k].rank, sim->now_ns, event, &cores->rank_out);
    rank_done(sim, k);
}

static void rank_timer(struct sim *sim, uint32_t k) {
    int64_t timer_ns = cores_of(sim)->subclusters[k].rank_timer_ns;
    if (timer_ns > sim->now_ns)
        sim_source_set(sim, source_of(sim, RANK_TIME, k), timer_ns);
    else
        rank_step(sim, k, &(struct rank_event){.kind = RANK_TIMER});
}

static void cores_way_set(struct sim *sim, uint32_t way) {
    for (uint32_t k = 0; k < cores_of(sim)->subcluster_count; k++)
        rank_step(sim, k, &(struct rank_event){.kind = RANK_WAY, .way = way});
}

static void message_deliver(struct sim *sim, uint32_t k, const struct sim_message *slot) {
    struct rank_event event = {.kind = RANK_MESSAGE, .message = &slot->message};
    if (slot->candidates)
        event = (struct rank_event){
            .kind = RANK_CANDIDATES, .variant = slot->message.variant, .candidates = slot->message.candidates};
    else if (cores_of(sim)->places)
        sim_moves_delivered(sim, &slot->message);
    rank_step(sim, k, &event);
}

static void grant_deliver(struct sim *sim, const struct sim_grant *slot) {
    struct model_event event = {.kind = slot->kind};
    if (slot->left) {
        sim_moves_left(sim, slot->model);
        return;
    }
    if (slot->kind == MODEL_RAN)
        event.ran = &slot->ran;
    else
        event.grant = &slot->grant;
    model_step(sim, slot->model, &event, slot->kind == MODEL_GRANTED ? &slot->grant : NULL);
}

/* Delivers the first message that has arrived at a rank core; false: there is none. */
static bool message_next(struct sim *sim) {
    struct cores *cores = cores_of(sim);
    for (uint64_t some = cores->to_rank_some; some; some &= some - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(some);
        struct bus *bus = &cores->subclusters[k].to_rank;
        struct sim_message *message = bus_arrived(bus, sim->now_ns);
        if (!message)
            continue;
        message_deliver(sim, k, message);
        bus_pop(bus);
        cores->to_rank_some &= ~((uint64_t)!bus->count << k);
        return true;
    }
    return false;
}

static bool grant_next(struct sim *sim) {
    struct cores *cores = cores_of(sim);
    for (uint64_t some = cores->to_model_some; some; some &= some - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(some);
        struct bus *bus = &cores->subclusters[k].to_model;
        struct sim_grant *grant = bus_arrived(bus, sim->now_ns);
        if (!grant)
            continue;
        grant_deliver(sim, grant);
        bus_pop(bus);
        cores->to_model_some &= ~((uint64_t)!bus->count << k);
        return true;
    }
    return false;
}

static bool notice_next(struct sim *sim) {
    struct cores *cores = cores_of(sim);
    for (uint64_t some = cores->notices_some; some; some &= some - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(some);
        struct bus *bus = &cores->subclusters[k].notices;
        struct sim_notice *notice = bus_arrived(bus, sim->now_ns);
        if (!notice)
            continue;
        struct rank_event event = {.kind = notice->kind,
                                   .accelerator = notice->accelerator,
                                   .variant = {notice->variant},
                                   .ended = {.at_ns = notice->said_ns}};
        if (notice->kind == RANK_MOVED)
            event.moved = notice->moved;
        bus_pop(bus);
        cores->notices_some &= ~((uint64_t)!bus->count << k);
        rank_step(sim, k, &event);
        return true;
    }
    return false;
}

static void bus_tell(struct sim *sim, struct bus *bus, uint32_t source) {
    int64_t next_ns = bus_next_ns(bus);
    if (next_ns == bus->told_ns && source != sim->handled)
        return;
    bus->told_ns = next_ns;
    sim_source_set(sim, source, next_ns);
}

/* Delivers every message that has arrived, and the messages that follow from these in the same instant. */
static void cores_deliver(struct sim *sim) {
    struct cores *cores = cores_of(sim);
    while (message_next(sim) || grant_next(sim) || notice_next(sim))
        ;
    if (!sim->config->message_ns && !sim->config->message_jitter_ns)
        return;
    for (uint32_t k = 0; k < cores->subcluster_count; k++) {
        bus_tell(sim, &cores->subclusters[k].to_rank, source_of(sim, TO_RANK, k));
        bus_tell(sim, &cores->subclusters[k].to_model, source_of(sim, TO_MODEL, k));
        bus_tell(sim, &cores->subclusters[k].notices, source_of(sim, NOTICES, k));
    }
}

static void cores_due(struct sim *sim, uint32_t source) {
    uint32_t models = sim->config->model_count, subclusters = cores_of(sim)->subcluster_count;
    if (source < models)
        model_timer(sim, source);
    else if (source >= models + SUBCLUSTER_SOURCES * subclusters)
        sim_moves_due(sim, source - models - SUBCLUSTER_SOURCES * subclusters);
    else if (source >= models + RANK_TIME * subclusters)
        rank_timer(sim, source - models - RANK_TIME * subclusters);
    /* else a message has arrived */
}

/* ---- accelerators ---- */

static void cores_ended(struct sim *sim, uint32_t accelerator, const struct sim_batch *batch, bool done) {
    if (batch->kind != CENTRAL_RUN) {
        notice_push(sim, RANK_MOVED, accelerator)->moved = (struct memory_moved){.kind = (uint8_t)batch->kind,
                                                                                 .accelerator = accelerator,
                                                                                 .epoch = (uint32_t)batch->tag,
                                                                                 .variant = {batch->model},
                                                                                 .done = done,
                                                                                 .took_ns = batch->run_ns};
        return;
    }
    if (done && (sim->config->learn || batch->late))
        grant_push(sim, subcluster_of_accelerator(cores_of(sim), accelerator), MODEL_RAN, batch->model)->ran =
            (struct ran_message){
                .variant = {batch->model},
                .type = sim->config->accelerator_type[accelerator],
                .accelerator = accelerator,
                .items = batch->items,
                .late = batch->late,
                .run_ns = batch->run_ns,
            };
    notice_push(sim, RANK_BATCH_ENDED, accelerator)->variant = batch->model;
}

static void cores_joined(struct sim *sim, uint32_t accelerator) {
    notice_push(sim, RANK_ACCELERATOR_UP, accelerator);
}

static void cores_left(struct sim *sim, uint32_t accelerator) {
    notice_push(sim, RANK_ACCELERATOR_DOWN, accelerator);
}

static uint32_t cores_stuck(const struct sim *sim) {
    uint32_t busy = 0;
    for (uint32_t k = 0; k < cores_of(sim)->subcluster_count; k++)
        busy += rank_core_accelerators_busy(cores_of(sim)->subclusters[k].rank);
    return busy;
}

static double cores_needed_ns(struct sim *sim, uint32_t subcluster) {
    return rank_core_needed_ns(cores_of(sim)->subclusters[subcluster].rank);
}

static uint32_t cores_subcluster_of_accelerator(const struct sim *sim, uint32_t accelerator) {
    return cores_of(sim)->subcluster_of_accelerator[accelerator];
}

const struct sim_driver sim_driver_cores = {
    .sources = cores_sources,
    .layout = cores_layout,
    .begin = cores_begin,
    .arrived = cores_arrived,
    .cancelled = cores_cancelled,
    .ended = cores_ended,
    .joined = cores_joined,
    .left = cores_left,
    .due = cores_due,
    .deliver = cores_deliver,
    .stuck = cores_stuck,
    .needed_ns = cores_needed_ns,
    .subclusters = subclusters_of,
    .subcluster_of_model = subcluster_of,
    .subcluster_of_accelerator = cores_subcluster_of_accelerator,
    .way_set = cores_way_set,
    .loses_late = true,
};
