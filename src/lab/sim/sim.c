/* sim.c - the event loop: requests come, clients leave, accelerators fail; a driver has the scheduler. */
#include "lab/sim/sim.h"

#include <stdlib.h>

#include "core/data/zoo.h"
#include "core/util/fmath.h"
#include "lab/sim/sim_state.h"

#define GO_ON_EVENTS  8192 /* events between two calls of go_on: some milliseconds */
#define REQUESTS_MORE 65536
#define REQUESTS_MOST UINT32_MAX /* requests in the pool: 256 GiB */

/* ---- memory ---- */

static struct sim_sources sources_of(const struct sim_config *c, const struct sim_driver *driver) {
    struct sim_sources s = {.runs = 0};
    s.loads = s.runs + c->accelerators;
    s.arrivals = s.loads + c->accelerators;
    s.cancels = s.arrivals + c->model_count + c->pipeline_count;
    s.fault = s.cancels + c->model_count + c->pipeline_count;
    s.looks = s.fault + 1;
    s.starts = s.looks + 1;
    s.packets = s.starts + 1;
    s.outage = s.packets + 1;
    s.rehearsal = s.outage + 1;
    s.driver = s.rehearsal + 1;
    s.count = s.driver + driver->sources(c);
    return s;
}

/* Requests at once, plenty: twice what arrives during the longest SLO, but not more than twice what arrives at all. */
static uint32_t requests_most(const struct sim_config *c) {
    double rate = 0, slo_s = 0, surge = 1, run_s = c->warmup_s + c->seconds, each = 1;
    uint32_t best_effort = 0;
    for (uint32_t i = 0; i < c->step_count; i++)
        rate = c->steps[i].rate_rps > rate ? c->steps[i].rate_rps : rate;
    for (uint32_t m = 0; m < c->model_count; m++) {
        double model_slo_s = (double)c->models[m].slo_ns / (double)NS_PER_S * (1 + c->models[m].slo_spread);
        slo_s = model_slo_s > slo_s ? model_slo_s : slo_s;
        best_effort += c->models[m].best_effort > 0 ? BEST_EFFORT_MAX : 0;
        surge = c->models[m].surge_factor > surge ? c->models[m].surge_factor : surge;
    }
    for (uint32_t p = 0; p < c->pipeline_count; p++) {
        double pipeline_slo_s = (double)c->pipelines[p].graph.slo_ns / (double)NS_PER_S;
        double requests = pipeline_requests(&c->pipelines[p].graph);
        slo_s = pipeline_slo_s > slo_s ? pipeline_slo_s : slo_s;
        each = requests > each ? requests : each;
    }
    double most = 2 * rate * each * surge * (slo_s < run_s ? slo_s : run_s) + best_effort + REQUESTS_MORE;
    return most < REQUESTS_MOST ? (uint32_t)most : REQUESTS_MOST;
}

static void classes_layout(struct arena *arena, const struct sim_config *c, struct sim_model_result *results) {
    for (uint32_t m = 0; m < c->model_count; m++) {
        uint32_t priorities = c->models[m].priority_count, best_effort = c->models[m].best_effort > 0;
        size_t bytes = (priorities + best_effort) * sizeof(struct sim_class_result);
        struct sim_class_result *classes = arena_take(arena, bytes);
        if (!arena->base)
            continue;
        memset(classes, 0, bytes);
        results[m].priorities = priorities ? classes : NULL;
        results[m].best_effort = best_effort ? classes + priorities : NULL;
    }
}

static void batch_sizes_layout(struct arena *arena, const struct sim_config *c, struct sim_model_result *results) {
    for (uint32_t m = 0; m < c->model_count; m++) {
        size_t bytes = (c->models[m].batch_max + 1) * sizeof(uint32_t);
        uint32_t *sizes = arena_take(arena, bytes);
        if (!arena->base)
            continue;
        memset(sizes, 0, bytes);
        results[m].batch_sizes = sizes;
    }
}

static void sim_layout(struct sim *sim, struct arena *arena, const struct sim_config *c) {
    sim->config = c;
    sim->driver = c->policy->central ? &sim_driver_central : &sim_driver_cores;
    sim->sources = sources_of(c, sim->driver);
    tournament_take(arena, &sim->events, sim->sources.count);
    struct request_node *nodes = arena_take(arena, (size_t)requests_most(c) * sizeof(*nodes));
    sim->streams = arena_take(arena, (c->model_count + c->pipeline_count) * sizeof(*sim->streams));
    struct sim_model_result *results = arena_take(arena, c->model_count * sizeof(*results));
    sim->pool.capacity = requests_most(c);
    if (arena->base) {
        request_pool_init(&sim->pool, nodes, requests_most(c));
        memset(results, 0, c->model_count * sizeof(*results));
        sim->result->models = results;
    }
    batch_sizes_layout(arena, c, results);
    classes_layout(arena, c, results);
    size_t streams = c->model_count + c->pipeline_count;
    sim->bad_most = c->give_up_bad > 0 ? arena_take(arena, streams * sizeof(*sim->bad_most)) : NULL;
    sim_queries_layout(sim, arena);
    sim_accelerators_layout(sim, arena);
    sim_scaling_layout(sim, arena);
    sim_links_layout(sim, arena);
    sim_rehearsal_layout(sim, arena);
    sim->driver_memory = *arena;
    sim->driver->layout(sim, arena);
}

size_t sim_bytes(const struct sim_config *config) {
    struct sim scratch;
    struct arena arena = {NULL, 0};
    arena_take(&arena, sizeof(struct sim));
    sim_layout(&scratch, &arena, config);
    return arena.used;
}

void sim_source_set(struct sim *sim, uint32_t source, int64_t at_ns) {
    if (source == sim->handled)
        sim->handled_next_ns = at_ns;
    else
        tournament_set(&sim->events, source, at_ns);
}

/* ---- requests ---- */

bool sim_counts(const struct sim *sim, int64_t arrival_ns) {
    return arrival_ns >= sim->count_from_ns && arrival_ns < sim->count_until_ns;
}

int64_t sim_counted_ns(const struct sim *sim, int64_t from_ns, int64_t to_ns) {
    if (from_ns < sim->count_from_ns)
        from_ns = sim->count_from_ns;
    if (to_ns > sim->count_until_ns)
        to_ns = sim->count_until_ns;
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

struct sim_class_result *sim_class_of(const struct sim *sim, uint32_t model, uint8_t priority) {
    const struct sim_model_result *result = &sim->result->models[model];
    if (priority == PRIORITY_BEST_EFFORT)
        return result->best_effort;
    return result->priorities ? &result->priorities[priority] : NULL;
}

void sim_count(struct sim *sim, uint32_t model, uint8_t priority, int64_t arrival_ns, enum sim_outcome outcome) {
    struct sim_model_result *result = &sim->result->models[model];
    struct sim_class_result *class = sim_class_of(sim, model, priority);
    bool bad = outcome == SIM_DROPPED || outcome == SIM_LATE, best_effort = priority == PRIORITY_BEST_EFFORT;
    sim->ended += outcome != SIM_CANCELLED;
    sim->bad += bad && !best_effort;
    if (outcome != SIM_CANCELLED)
        sim_scaling_count(sim, model, bad && !best_effort);
    if (class && sim_counts(sim, best_effort ? sim->now_ns : arrival_ns))
        class->count[outcome]++;
    if (best_effort || !sim_counts(sim, arrival_ns))
        return;
    result->good += outcome == SIM_GOOD;
    result->dropped += outcome == SIM_DROPPED;
    result->late += outcome == SIM_LATE;
    result->cancelled += outcome == SIM_CANCELLED;
    sim->result->gave_up |= bad && sim->bad_most && result->dropped + result->late > sim->bad_most[model];
}

void sim_reason_count(struct sim *sim, uint8_t priority, int64_t arrival_ns, int64_t deadline_ns, struct trail trail) {
    if (priority == PRIORITY_BEST_EFFORT || !sim_counts(sim, arrival_ns))
        return;
    trail.allowed_us = time_us_between(arrival_ns, deadline_ns);
    trail.took_us = time_us_between(arrival_ns, sim->now_ns);
    struct reason reason = reason_of(&trail);
    sim->result->reasons[reason.kind]++;
    sim->result->reason_last[reason.kind] = reason;
}

static void refusal_count(struct sim *sim, const struct request_node *request) {
    struct trail trail = {.state = TRAIL_REFUSED, .refusal = request->refusal, .cause = request->cause};
    if (request->cause != CAUSE_NONE)
        trail.figures = request->figures;
    sim_count(sim, request->model, request->priority, request->arrival_ns,
              request->refusal == REFUSAL_CANCELLED ? SIM_CANCELLED : SIM_DROPPED);
    if (request->refusal != REFUSAL_CANCELLED)
        sim_reason_count(sim, request->priority, request->arrival_ns, request->deadline_ns, trail);
}

void sim_dropped(struct sim *sim, const struct request_message *message, enum refusal refusal) {
    sim_count(sim, message->place.n, message->priority, message->arrival_ns, SIM_DROPPED);
    sim_reason_count(sim, message->priority, message->arrival_ns, message->deadline_ns,
                     (struct trail){.state = TRAIL_REFUSED, .refusal = (uint8_t)refusal});
}

void sim_pool_put(struct sim *sim, uint32_t node) {
    sim->pool.nodes[node].handle = SIM_NOBODY;
    request_pool_put(&sim->pool, node);
}

void sim_refuse(struct sim *sim, uint32_t node) {
    const struct sim_observer *observer = sim->config->observer;
    while (node != REQUEST_NONE) {
        struct request_node *request = &sim->pool.nodes[node];
        uint32_t next = request->next;
        if (sim_is_stage(request->handle))
            sim_stage_refused(sim, request->handle, request->refusal);
        else
            refusal_count(sim, request);
        if (observer && observer->refused)
            observer->refused(observer->context, sim->now_ns, request->model, request->handle, request->refusal);
        sim_pool_put(sim, node);
        sim->queued--;
        node = next;
    }
}

static void cancel_draw(struct sim *sim, uint32_t model, const struct request_message *request) {
    struct sim_stream *stream = &sim->streams[model];
    if (stream->cancelling || rng_uniform(&sim->rng) >= sim->config->cancel_share)
        return;
    stream->cancelling = true;
    stream->cancel = *request;
    stream->cancel.kind = REQUEST_CANCELLED;
    int64_t after_ns = (int64_t)(rng_uniform(&sim->rng) * (double)(request->deadline_ns - sim->now_ns));
    sim_source_set(sim, sim->sources.cancels + model, sim->now_ns + (after_ns > 0 ? after_ns : 0));
}

/* `number`: of a model or, after the models, of a pipeline. */
static void arrival_schedule(struct sim *sim, uint32_t number) {
    struct sim_stream *stream = &sim->streams[number];
    bool more = workload_stream_next(&stream->arrivals, &stream->next);
    sim_source_set(sim, sim->sources.arrivals + number, more ? stream->next.arrival_ns : TIME_NEVER);
}

bool sim_admit(struct sim *sim, const struct request_message *message) {
    const struct sim_observer *observer = sim->config->observer;
    if (observer && observer->arrived)
        observer->arrived(observer->context, sim->now_ns, message->handle, message->place.n, message->items,
                          message->priority, message->deadline_ns);
    bool full = sim->pool.used + sim->links.requests >= sim->pool.capacity ||
                (sim->config->queue_capacity && sim->queued >= sim->config->queue_capacity);
    if (full) {
        if (observer && observer->refused)
            observer->refused(observer->context, sim->now_ns, message->place.n, message->handle, REFUSAL_POOL_FULL);
        return false;
    }
    sim->queued++;
    if (sim->rehearsal)
        rehearsal_request(sim->rehearsal, sim->now_ns, message);
    sim_link_request(sim, message);
    return true;
}

static void request_arrives(struct sim *sim, uint32_t model) {
    struct sim_stream *stream = &sim->streams[model];
    struct request_message message = {
        .kind = REQUEST_ARRIVED,
        .handle = sim->next_handle++,
        .arrival_ns = sim->now_ns,
        .deadline_ns = sim->now_ns + stream->next.slo_ns - sim->config->reply_margin_ns - sim->config->link_margin_ns,
        .items = stream->next.items,
        .place = {model},
        .priority = stream->next.priority,
    };
    arrival_schedule(sim, model);
    struct sim_model_result *result = &sim->result->models[model];
    bool counted = sim_counts(sim, sim->now_ns);
    sim->result->requests++;
    result->offered += counted && message.priority != PRIORITY_BEST_EFFORT;
    result->cold += counted && sim->config->memory_bytes && !sim->loaded_count[model];
    if (!sim_admit(sim, &message))
        sim_dropped(sim, &message, REFUSAL_POOL_FULL);
    else if (sim->config->cancel_share > 0 && !sim_links_on(sim->config))
        cancel_draw(sim, model, &message);
}

static void query_arrives(struct sim *sim, uint32_t pipeline) {
    uint32_t number = sim->config->model_count + pipeline;
    int64_t slo_ns = sim->streams[number].next.slo_ns;
    arrival_schedule(sim, number);
    sim_query_arrives(sim, pipeline, slo_ns);
}

static void request_cancels(struct sim *sim, uint32_t model) {
    struct sim_stream *stream = &sim->streams[model];
    stream->cancelling = false;
    sim_source_set(sim, sim->sources.cancels + model, TIME_NEVER);
    sim->driver->cancelled(sim, &stream->cancel);
}

/* ---- faults ---- */

/* Calls `change` for each accelerator of the backend that has the fault. */
static void fault_apply(struct sim *sim, void (*change)(struct sim *sim, uint32_t accelerator)) {
    const struct sim_config *c = sim->config;
    uint64_t count = c->backends ? c->backends : c->accelerators;
    uint64_t backend = (sim->fault_accelerator * count + count - 1) / c->accelerators;
    uint32_t first = (uint32_t)(backend * c->accelerators / count);
    uint32_t end = (uint32_t)((backend + 1) * c->accelerators / count);
    for (uint32_t a = first; a < end; a++)
        change(sim, a);
}

static void stall(struct sim *sim, uint32_t a) {
    sim_accelerator_stall(sim, a, sim->fault_until_ns - sim->now_ns);
}

static void fall_silent(struct sim *sim, uint32_t a) {
    sim->accelerators[a].silent = true;
    stall(sim, a);
}

/* Ends the silence of a backend that was too short to be noticed. */
static void speak(struct sim *sim, uint32_t a) {
    sim->accelerators[a].silent = false;
    sim_tell_joined(sim, a);
}

static void come_back(struct sim *sim, uint32_t a) {
    sim->accelerators[a].silent = false;
    sim_accelerator_up(sim, a);
}

/* Random numbers of faults. */
static struct rng *fault_rng(struct sim *sim) {
    return sim->config->fault_again ? &sim->links.fault_rng : &sim->rng;
}

/* Begins a fault. Returns when to continue with it, or, if it ends by itself, when the next one begins: wait_s after
 * its end. */
static int64_t fault_begin(struct sim *sim, double wait_s) {
    const struct sim_config *c = sim->config;
    double for_s = c->fault_s * rng_exponential(fault_rng(sim));
    int64_t for_ns = (int64_t)(for_s * (double)NS_PER_S);
    sim->fault_accelerator = (uint32_t)rng_below(fault_rng(sim), c->accelerators);
    sim->fault_until_ns = sim->now_ns + for_ns;
    if (c->fault_silent) {
        fault_apply(sim, fall_silent);
        sim->fault = SIM_SILENT;
        return sim->now_ns + (for_ns < c->fault_noticed_ns ? for_ns : c->fault_noticed_ns) + 1;
    }
    if (c->fault_stalls > 0 && rng_uniform(fault_rng(sim)) < c->fault_stalls) {
        fault_apply(sim, stall);
        return sim->now_ns + (int64_t)((wait_s + for_s) * (double)NS_PER_S) + 1;
    }
    fault_apply(sim, sim_accelerator_down);
    sim->fault = SIM_DOWN;
    return sim->fault_until_ns + 1;
}

/* Faults come one at a time. The accelerators of a backend leave, lose their batches and come back; or they stall for a
 * while; or they are silent, and once that is noticed they count as gone. */
static void fault_toggle(struct sim *sim) {
    const struct sim_config *c = sim->config;
    double wait_s = c->fault_every_s * rng_exponential(fault_rng(sim));
    int64_t next_ns = sim->now_ns + (int64_t)(wait_s * (double)NS_PER_S) + 1;
    if (sim->fault == SIM_WELL) {
        next_ns = sim_links_crowded(sim) ? next_ns : fault_begin(sim, wait_s);
    } else if (sim->fault == SIM_SILENT && sim->now_ns < sim->fault_until_ns) {
        fault_apply(sim, sim_accelerator_down);
        sim->fault = SIM_DOWN;
        next_ns = sim->fault_until_ns;
    } else {
        fault_apply(sim, sim->fault == SIM_SILENT ? speak : come_back);
        sim->fault = SIM_WELL;
    }
    bool over = sim->fault == SIM_WELL && next_ns > sim->count_until_ns - (sim->count_until_ns / 10);
    sim_source_set(sim, sim->sources.fault, over ? TIME_NEVER : next_ns);
}

/* ---- events ---- */

static void source_handle(struct sim *sim, uint32_t source) {
    const struct sim_sources *s = &sim->sources;
    uint32_t models = sim->config->model_count;
    if (source < s->loads)
        sim_runs_due(sim, source - s->runs);
    else if (source < s->arrivals)
        sim_loads_due(sim, source - s->loads);
    else if (source < s->arrivals + models)
        request_arrives(sim, source - s->arrivals);
    else if (source < s->cancels)
        query_arrives(sim, source - s->arrivals - models);
    else if (source < s->cancels + models)
        request_cancels(sim, source - s->cancels);
    else if (source < s->fault)
        sim_query_cancels(sim, source - s->cancels - models);
    else if (source == s->fault)
        fault_toggle(sim);
    else if (source == s->packets)
        sim_packets_due(sim);
    else if (source == s->outage)
        sim_outage_due(sim);
    else if (source == s->rehearsal)
        sim_rehearsal_look(sim);
    else if (source == s->looks)
        sim_scaling_look(sim);
    else if (source == s->starts)
        sim_scaling_start(sim);
    else
        sim->driver->due(sim, source - s->driver);
}

/* Sets the number of bad requests of each model, and of bad queries of each pipeline, above which the run is given up.
 */
static void bad_most_set(struct sim *sim) {
    const struct sim_config *c = sim->config;
    double shares = workload_shares(c), offered = 0;
    for (uint32_t i = 0; i < c->step_count; i++) {
        double from_s = c->steps[i].at_s > c->warmup_s ? c->steps[i].at_s : c->warmup_s;
        double to_s = c->warmup_s + c->seconds;
        if (i + 1 < c->step_count && c->steps[i + 1].at_s < to_s)
            to_s = c->steps[i + 1].at_s;
        offered += to_s > from_s ? (to_s - from_s) * c->steps[i].rate_rps : 0;
    }
    for (uint32_t i = 0; i < c->model_count + c->pipeline_count; i++) {
        const struct sim_model *t = workload_traffic(c, i);
        double surge = t->surge_factor > 1 ? t->surge_factor : 1;
        sim->bad_most[i] = c->trace ? UINT64_MAX /* who knows what is recorded for the rest of the run */
                                    : (uint64_t)(c->give_up_bad * offered * surge * t->share / shares) + 10;
    }
}

static void worst_set(struct sim_result *r, uint64_t bad, uint64_t offered) {
    double rate = offered ? (double)bad / (double)offered : 0;
    r->worst_bad_rate = rate > r->worst_bad_rate ? rate : r->worst_bad_rate;
}

static void result_sum(struct sim *sim) {
    struct sim_result *r = sim->result;
    const struct sim_config *c = sim->config;
    for (uint32_t m = 0; m < c->model_count; m++) {
        const struct sim_model_result *model = &r->models[m];
        r->offered += model->offered;
        r->good += model->good;
        r->dropped += model->dropped;
        r->late += model->late;
        r->loads += model->loads;
        r->cold += model->cold;
        r->cancelled += model->cancelled;
        r->batches += model->batches;
        r->batch_items += model->batch_items;
        worst_set(r, model->dropped + model->late, model->offered);
    }
    for (uint32_t p = 0; p < c->pipeline_count; p++) {
        const struct sim_pipeline_result *pipeline = &r->pipelines[p];
        r->offered += pipeline->offered;
        r->good += pipeline->good;
        r->dropped += pipeline->dropped;
        r->late += pipeline->late;
        r->cancelled += pipeline->cancelled;
        worst_set(r, pipeline->dropped + pipeline->late, pipeline->offered);
    }
    for (uint32_t a = 0; a < c->accelerators; a++)
        r->accelerators_used += sim->accelerators[a].used;
    sim_scaling_end(sim);
    sim_rehearsal_end(sim);
    double present_ns = 0;
    for (uint32_t t = 0; t < c->types; t++)
        present_ns += sim->scaling.types[t].present_ns;
    r->busy = present_ns > 0 ? sim->busy_ns / present_ns : 0;
    r->stuck = sim->driver->stuck(sim);
    r->unanswered = sim->pool.used + sim->queries.used + sim->links.requests;
    if (sim->driver->sum)
        sim->driver->sum(sim, r);
}

/* ---- running ---- */

static struct sim *sim_make(const struct sim_config *config, void *memory, struct sim_result *result) {
    struct arena arena = {memory, 0};
    struct sim *sim = arena_take(&arena, sizeof(*sim));
    memset(sim, 0, sizeof(*sim));
    *result = (struct sim_result){0};
    sim->result = result;
    sim->handled = SIM_NOTHING;
    sim_layout(sim, &arena, config);
    sim->count_from_ns = (int64_t)(config->warmup_s * (double)NS_PER_S);
    sim->count_until_ns = (int64_t)((config->warmup_s + config->seconds) * (double)NS_PER_S);
    rng_seed(&sim->rng, config->seed);
    return sim;
}

static void cluster_begin(struct sim *sim) {
    sim_links_begin(sim);
    sim_scaling_begin(sim);
    if (sim->driver->begin)
        sim->driver->begin(sim);
}

struct sim *sim_begin(const struct sim_config *config, void *memory, struct sim_result *result) {
    struct sim *sim = sim_make(config, memory, result);
    cluster_begin(sim);
    return sim;
}

static void traffic_begin(struct sim *sim) {
    const struct sim_config *c = sim->config;
    double shares = workload_shares(c);
    for (uint32_t i = 0; i < c->model_count + c->pipeline_count; i++) {
        memset(&sim->streams[i], 0, sizeof(sim->streams[i]));
        workload_stream_init(&sim->streams[i].arrivals, c, i, shares);
        arrival_schedule(sim, i);
    }
    if (c->fault_every_s > 0)
        sim_source_set(sim, sim->sources.fault,
                       (int64_t)(c->fault_every_s * rng_exponential(fault_rng(sim)) * (double)NS_PER_S));
    if (sim->bad_most)
        bad_most_set(sim);
}

void sim_told(struct sim *sim) {
    if (!sim->links.scheduler_down)
        sim->driver->deliver(sim);
    sim_queries_go_on(sim);
}

static void event_handle(struct sim *sim, struct tournament_entry event) {
    CHECK_GE(event.key, sim->now_ns);
    sim->now_ns = sim->handled_next_ns = event.key;
    sim->handled = event.item;
    source_handle(sim, event.item);
    sim_told(sim);
    sim->handled = SIM_NOTHING;
    tournament_set(&sim->events, event.item, sim->handled_next_ns);
}

void sim_until(struct sim *sim, int64_t until_ns) {
    struct tournament_entry next;
    while ((next = tournament_top(&sim->events)).key <= until_ns && next.key != TIME_NEVER)
        event_handle(sim, next);
    sim->now_ns = until_ns;
}

void sim_tell_request(struct sim *sim, const struct request_message *message) {
    struct request_message own = *message;
    own.handle = sim->next_handle++;
    sim->result->models[own.place.n].offered += own.priority != PRIORITY_BEST_EFFORT;
    if (!sim_admit(sim, &own))
        sim_count(sim, own.place.n, own.priority, sim->now_ns, SIM_DROPPED);
    sim_told(sim);
}

void sim_run(const struct sim_config *config, void *memory, struct sim_result *result) {
    struct sim *sim = sim_make(config, memory, result);
    traffic_begin(sim);
    cluster_begin(sim);
    sim_rehearsal_begin(sim);
    for (uint32_t events = 1; !result->gave_up && !result->stopped; events++) {
        struct tournament_entry next = tournament_top(&sim->events);
        if (next.key == TIME_NEVER)
            break;
        event_handle(sim, next);
        if (config->go_on && events % GO_ON_EVENTS == 0)
            result->stopped = !config->go_on(config->go_on_context, sim->now_ns);
    }
    result_sum(sim);
}

bool sim_model_line(struct sim_model *model, double alpha_ms, double beta_ms, double slo_ms) {
    uint32_t batch_max = zoo_batch_max(alpha_ms, beta_ms, slo_ms);
    struct profile *profile = malloc(profile_bytes(batch_max));
    if (!profile)
        return false;
    profile_set_line(profile, batch_max, alpha_ms * NS_PER_MS, beta_ms * NS_PER_MS);
    *model = (struct sim_model){
        .batch_max = batch_max,
        .slo_ns = (int64_t)(slo_ms * NS_PER_MS),
        .profiles = {profile},
        .share = 1,
        .items_least = 1,
        .items_most = 1,
    };
    return true;
}

void sim_shares_zipf(struct sim_model *models, uint32_t count, double s) {
    for (uint32_t m = 0; m < count; m++)
        models[m].share = fmath_exp(-s * fmath_log(m + 1));
}
