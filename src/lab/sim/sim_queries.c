/* sim_queries.c - queries of pipelines in virtual time: each item of a stage is a request to the driver.
 *
 * Ends and refusals are told in the middle of a step of the driver or an accelerator, so their consequences wait until
 * that step is done: queries that have something to do are in a list. */
#include "lab/sim/sim_state.h"

#define STAGE_SHIFT    SIM_NUMBER_BITS
#define QUERY_SHIFT    (SIM_NUMBER_BITS + 6)
#define CANCELLED_MOST 64 /* requests cancelled at once: two messages each, of the 256 that there is room for */
_Static_assert(QUERY_SHIFT + SIM_QUERY_BITS == 64 && PIPELINE_STAGES_MAX <= 64, "a handle holds all three");

struct sim_query {
    uint64_t number;
    uint32_t next; /* next query in the list of those with something to do, or of unused slots */
    uint32_t pipeline;
    bool listed;  /* whether the query is in the list of those with something to do */
    bool unheard; /* whether the query's end has not been handled yet */
    bool again;   /* whether a request of the query was sent again */
    struct query query;
};

static struct sim_query *query_at(const struct sim *sim, uint32_t q) {
    return (struct sim_query *)((char *)sim->queries.slots + (size_t)q * sim->queries.slot_bytes);
}

static struct sim_pipeline_result *result_of(const struct sim *sim, const struct sim_query *slot) {
    return &sim->result->pipelines[slot->pipeline];
}

/* ---- memory ---- */

static void results_layout(struct sim *sim, struct arena *arena, const struct sim_config *c) {
    struct sim_pipeline_result *results = arena_take(arena, c->pipeline_count * sizeof(*results));
    for (uint32_t p = 0; p < c->pipeline_count; p++) {
        size_t bytes = c->pipelines[p].graph.stage_count * sizeof(struct sim_stage_result);
        struct sim_stage_result *stages = arena_take(arena, bytes);
        if (!arena->base)
            continue;
        memset(stages, 0, bytes);
        results[p] = (struct sim_pipeline_result){.stages = stages};
    }
    if (arena->base)
        sim->result->pipelines = results;
}

void sim_queries_layout(struct sim *sim, struct arena *arena) {
    const struct sim_config *c = sim->config;
    struct sim_queries *all = &sim->queries;
    uint32_t stages = 0;
    *all = (struct sim_queries){.first = SIM_NOTHING, .unused = SIM_NOTHING};
    if (!c->pipeline_count)
        return;
    for (uint32_t p = 0; p < c->pipeline_count; p++)
        if (c->pipelines[p].graph.stage_count > stages)
            stages = c->pipelines[p].graph.stage_count;
    all->slot_bytes = sizeof(struct sim_query) - sizeof(struct query) + query_bytes(stages);
    all->times = arena_take(arena, c->pipeline_count * sizeof(*all->times));
    all->capacity = sim->pool.capacity < SIM_QUERIES_MAX ? sim->pool.capacity : SIM_QUERIES_MAX;
    all->slots = arena_take(arena, (size_t)all->capacity * all->slot_bytes);
    all->again = arena_take(arena, sim->pool.capacity * sizeof(*all->again));
    results_layout(sim, arena, c);
    for (uint32_t p = 0; arena->base && p < c->pipeline_count; p++)
        pipeline_times_init(&all->times[p], &c->pipelines[p].graph);
}

/* An unused slot, or SIM_NOTHING. Those that never were used are taken last, so that few are touched. */
static uint32_t slot_take(struct sim *sim) {
    struct sim_queries *all = &sim->queries;
    uint32_t q = all->unused;
    if (q != SIM_NOTHING)
        all->unused = query_at(sim, q)->next;
    else if (all->touched < all->capacity)
        q = all->touched++;
    all->used += q != SIM_NOTHING;
    return q;
}

static void slot_put(struct sim *sim, uint32_t q) {
    query_at(sim, q)->next = sim->queries.unused;
    sim->queries.unused = q;
    sim->queries.used--;
}

/* ---- the list ---- */

static void list_put(struct sim *sim, uint32_t q) {
    struct sim_queries *all = &sim->queries;
    struct sim_query *slot = query_at(sim, q);
    if (slot->listed)
        return;
    slot->listed = true;
    slot->next = SIM_NOTHING;
    if (all->first == SIM_NOTHING)
        all->first = q;
    else
        query_at(sim, all->last)->next = q;
    all->last = q;
}

static uint32_t list_take(struct sim *sim) {
    uint32_t q = sim->queries.first;
    struct sim_query *slot = query_at(sim, q);
    sim->queries.first = slot->next;
    slot->listed = false;
    return q;
}

/* ---- arrivals ---- */

/* Counts a query that has ended, and tells the observer. */
static void end_count(struct sim *sim, uint64_t number, uint32_t pipeline, int64_t arrival_ns, enum query_end end,
                      enum refusal reason) {
    static const enum sim_outcome outcomes[] = {[QUERY_GOOD] = SIM_GOOD,
                                                [QUERY_DROPPED] = SIM_DROPPED,
                                                [QUERY_LATE] = SIM_LATE,
                                                [QUERY_CANCELLED] = SIM_CANCELLED};
    const struct sim_observer *observer = sim->config->observer;
    struct sim_pipeline_result *result = &sim->result->pipelines[pipeline];
    enum sim_outcome outcome = outcomes[end];
    bool bad = outcome == SIM_DROPPED || outcome == SIM_LATE;
    sim->ended += outcome != SIM_CANCELLED;
    sim->bad += bad;
    if (observer && observer->query_ended)
        observer->query_ended(observer->context, sim->now_ns, number, end, reason);
    if (!sim_counts(sim, arrival_ns))
        return;
    result->good += outcome == SIM_GOOD;
    result->dropped += outcome == SIM_DROPPED;
    result->late += outcome == SIM_LATE;
    result->cancelled += outcome == SIM_CANCELLED;
    sim->result->gave_up |=
        bad && sim->bad_most && result->dropped + result->late > sim->bad_most[sim->config->model_count + pipeline];
    if (outcome == SIM_GOOD)
        sim_times_add(&result->latency, sim->now_ns + sim->config->reply_margin_ns - arrival_ns);
}

/* Draws whether the client of a query leaves, and the time. At any time only one client of a pipeline is going to
 * leave. */
static void cancel_draw(struct sim *sim, uint32_t p, uint32_t q) {
    const struct sim_config *c = sim->config;
    struct sim_stream *stream = &sim->streams[c->model_count + p];
    const struct sim_query *slot = query_at(sim, q);
    if (c->cancel_share <= 0 || stream->cancelling || rng_uniform(&sim->rng) >= c->cancel_share)
        return;
    stream->cancelling = true;
    stream->cancel = (struct request_message){.handle = slot->number, .items = q};
    int64_t left_ns = slot->query.deadline_ns - sim->now_ns;
    int64_t after_ns = (int64_t)(rng_uniform(&sim->rng) * (double)left_ns);
    sim_source_set(sim, sim->sources.cancels + c->model_count + p, sim->now_ns + (after_ns > 0 ? after_ns : 0));
}

void sim_query_arrives(struct sim *sim, uint32_t p, int64_t slo_ns) {
    const struct sim_observer *observer = sim->config->observer;
    int64_t deadline_ns = sim->now_ns + slo_ns - sim->config->reply_margin_ns;
    uint64_t number = sim->queries.next_number++;
    uint32_t q = slot_take(sim);
    sim->result->requests++;
    sim->result->pipelines[p].offered += sim_counts(sim, sim->now_ns);
    if (observer && observer->query_arrived)
        observer->query_arrived(observer->context, sim->now_ns, number, p, deadline_ns);
    if (q == SIM_NOTHING) {
        end_count(sim, number, p, sim->now_ns, QUERY_DROPPED, REFUSAL_POOL_FULL);
        return;
    }
    struct sim_query *slot = query_at(sim, q);
    *slot = (struct sim_query){.number = number, .pipeline = p, .unheard = true};
    query_begin(&slot->query, &sim->config->pipelines[p].graph, &sim->queries.times[p], sim->now_ns, deadline_ns);
    list_put(sim, q);
    cancel_draw(sim, p, q);
}

void sim_query_cancels(struct sim *sim, uint32_t p) {
    struct sim_stream *stream = &sim->streams[sim->config->model_count + p];
    struct sim_query *slot = query_at(sim, stream->cancel.items);
    stream->cancelling = false;
    sim_source_set(sim, sim->sources.cancels + sim->config->model_count + p, TIME_NEVER);
    if (slot->number != stream->cancel.handle || !slot->unheard)
        return;
    query_cancel(&slot->query);
    list_put(sim, stream->cancel.items);
}

/* ---- requests that come back ---- */

static uint32_t query_of(uint64_t handle) {
    return (uint32_t)(handle >> QUERY_SHIFT) - 1;
}

static uint32_t stage_of(uint64_t handle) {
    return handle >> STAGE_SHIFT & 63;
}

/* Whether an item's request was sent again: of the item's two numbers it has the second then. */
static bool is_again(const struct sim_query *slot, uint64_t handle) {
    return (sim_request_number(handle) - slot->query.stages[stage_of(handle)].first) & 1;
}

static void stage_count(struct sim *sim, const struct sim_query *slot, uint32_t stage, enum sim_outcome outcome) {
    if (sim_counts(sim, slot->query.arrival_ns))
        result_of(sim, slot)->stages[stage].count[outcome]++;
}

/* Whether a request that was refused at its stage's deadline may still end later; *deadline_ns: by then. */
static bool again_until(const struct sim *sim, const struct sim_query *slot, uint32_t v, int64_t *deadline_ns) {
    return query_request_again(&slot->query, v, sim->now_ns, slot->query.stages[v].deadline_ns, slot->query.deadline_ns,
                               deadline_ns);
}

void sim_stage_refused(struct sim *sim, uint64_t handle, enum refusal reason) {
    struct sim_query *slot = query_at(sim, query_of(handle));
    int64_t deadline_ns;
    if (reason == REFUSAL_DEADLINE && !is_again(slot, handle) &&
        again_until(sim, slot, stage_of(handle), &deadline_ns)) {
        sim->queries.again[sim->queries.again_count++] = handle + 1;
        return;
    }
    stage_count(sim, slot, stage_of(handle), reason == REFUSAL_CANCELLED ? SIM_CANCELLED : SIM_DROPPED);
    query_request_refused(&slot->query, reason);
    list_put(sim, query_of(handle));
}

void sim_stage_answered(struct sim *sim, const struct request_node *request, bool ran) {
    uint32_t q = query_of(request->handle), v = stage_of(request->handle);
    struct sim_query *slot = query_at(sim, q);
    stage_count(sim, slot, v, ran && sim->now_ns <= request->deadline_ns ? SIM_GOOD : SIM_LATE);
    if (ran && sim_counts(sim, slot->query.arrival_ns))
        sim_times_add(&result_of(sim, slot)->stages[v].latency, sim->now_ns - request->arrival_ns);
    query_request_ended(&slot->query, v, sim->now_ns, ran);
    list_put(sim, q);
}

/* ---- what follows ---- */

static struct request_message request_of(const struct sim_query *slot, uint32_t q, uint32_t v, uint32_t item) {
    const struct query_stage *stage = &slot->query.stages[v];
    return (struct request_message){
        .handle = (uint64_t)(q + 1) << QUERY_SHIFT | (uint64_t)v << STAGE_SHIFT | (stage->first + 2 * item),
        .arrival_ns = stage->begun_ns,
        .deadline_ns = stage->deadline_ns,
        .items = 1,
        .place = {slot->query.pipeline->stages[v].model},
        .batch_most = (uint16_t)slot->query.pipeline->stages[v].batch_most,
    };
}

/* Takes back the waiting requests of a query that has ended: a stage's last request first, and as many as possible
 * before any message is delivered, since the requests that are gone might let the others start. */
static void requests_cancel(struct sim *sim, uint32_t q) {
    const struct sim_query *slot = query_at(sim, q);
    const struct query *query = &slot->query;
    uint32_t undelivered = 0;
    for (uint64_t left = query->begun & ~query->ended; left; left &= left - 1) {
        uint32_t v = (uint32_t)__builtin_ctzll(left);
        for (uint32_t i = query->stages[v].sent; i-- > 0 && query->away;) {
            struct request_message message = request_of(slot, q, v, i);
            message.kind = REQUEST_CANCELLED;
            sim->driver->cancelled(sim, &message);
            if (slot->again) {
                message.handle++;
                message.deadline_ns = query_latest_ns(query, v, query->deadline_ns);
                sim->driver->cancelled(sim, &message);
            }
            if (++undelivered % CANCELLED_MOST == 0)
                sim->driver->deliver(sim);
        }
    }
    sim->driver->deliver(sim);
}

/* Sends the requests of a stage, until one of them ends the query. */
static void stage_send(struct sim *sim, uint32_t q, uint32_t v) {
    struct sim_query *slot = query_at(sim, q);
    struct query_stage *stage = &slot->query.stages[v];
    stage->first = sim->next_handle;
    for (uint32_t i = 0; i < stage->items && slot->query.end == QUERY_RUNS; i++) {
        struct request_message message = request_of(slot, q, v, i);
        sim->next_handle += 2;
        query_request_sent(&slot->query, v);
        if (sim_admit(sim, &message))
            sim->driver->deliver(sim);
        else
            sim_stage_refused(sim, message.handle, REFUSAL_POOL_FULL); /* it was not queued */
    }
}

/* Random numbers of a query's items, which depend on nothing else in the run. */
static uint32_t items_draw(const struct sim *sim, const struct sim_query *slot, uint32_t v, uint32_t before) {
    struct rng rng;
    rng_seed(&rng, (sim->config->seed + slot->number * 0x9e3779b97f4a7c15ULL) * PIPELINE_STAGES_MAX + v);
    return fan_out_draw(&slot->query.pipeline->stages[v].fan_out, before, &rng);
}

static void stages_begin(struct sim *sim, uint32_t q) {
    const struct sim_observer *observer = sim->config->observer;
    struct sim_query *slot = query_at(sim, q);
    for (uint32_t v, before; query_stage_ready(&slot->query, &v, &before);) {
        uint32_t items = items_draw(sim, slot, v, before);
        query_stage_begin(&slot->query, v, sim->now_ns, items);
        if (observer && observer->stage_began)
            observer->stage_began(observer->context, sim->now_ns, slot->number, v, items);
        stage_send(sim, q, v);
    }
}

static void requests_again(struct sim *sim) {
    for (uint32_t i = 0; i < sim->queries.again_count; i++) { /* more may come */
        uint64_t handle = sim->queries.again[i];
        uint32_t q = query_of(handle), v = stage_of(handle);
        struct sim_query *slot = query_at(sim, q);
        struct request_message message = {.handle = handle,
                                          .arrival_ns = sim->now_ns,
                                          .items = 1,
                                          .place = {slot->query.pipeline->stages[v].model},
                                          .batch_most = (uint16_t)slot->query.pipeline->stages[v].batch_most};
        slot->again = true;
        if (!again_until(sim, slot, v, &message.deadline_ns)) /* the query has ended meanwhile */
            sim_stage_refused(sim, handle, REFUSAL_CANCELLED);
        else if (sim_admit(sim, &message))
            sim->driver->deliver(sim);
        else
            sim_stage_refused(sim, handle, REFUSAL_POOL_FULL);
    }
    sim->queries.again_count = 0;
}

void sim_queries_go_on(struct sim *sim) {
    requests_again(sim);
    for (; sim->queries.first != SIM_NOTHING; requests_again(sim)) {
        uint32_t q = list_take(sim);
        struct sim_query *slot = query_at(sim, q);
        if (slot->query.end == QUERY_RUNS)
            stages_begin(sim, q);
        if (slot->query.end != QUERY_RUNS && slot->unheard) {
            slot->unheard = false;
            end_count(sim, slot->number, slot->pipeline, slot->query.arrival_ns, slot->query.end, slot->query.reason);
            requests_cancel(sim, q);
        }
        if (!slot->unheard && !slot->query.away && !slot->listed)
            slot_put(sim, q);
    }
}
