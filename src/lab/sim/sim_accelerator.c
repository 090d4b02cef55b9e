/* sim_accelerator.c - accelerators in virtual time.
 *
 * A batch begins when its inputs are there, the one before it has ended, and its earliest start has come. Models are
 * loaded and unloaded beside the batches (core/data/residency.h). */
#include "lab/sim/sim_state.h"

static uint32_t variants_most(const struct sim_config *c) {
    uint32_t most = 0;
    for (uint32_t m = 0; m < c->model_count; m++)
        if (c->models[m].variants > most)
            most = c->models[m].variants;
    return most;
}

void sim_accelerators_layout(struct sim *sim, struct arena *arena) {
    const struct sim_config *c = sim->config;
    bool limited = c->memory_bytes > 0;
    sim->batch_count = c->policy->central ? 16 * c->accelerators + 4096 : 3 * c->accelerators + 64;
    sim->batches = arena_take(arena, sim->batch_count * sizeof(*sim->batches));
    sim->accelerators = arena_take(arena, c->accelerators * sizeof(*sim->accelerators));
    size_t entries_each = limited ? c->model_count : 0;
    struct pages_entry *entries = arena_take(arena, c->accelerators * entries_each * sizeof(*entries));
    uint32_t load_count = limited ? sim->batch_count + c->accelerators * (c->model_count + 2) : 0;
    struct sim_load *loads = arena_take(arena, load_count * sizeof(*loads));
    sim->loaded_count = arena_take(arena, c->model_count * sizeof(*sim->loaded_count));
    sim->variant_items = arena_take(arena, variants_most(c) * sizeof(*sim->variant_items));
    if (!arena->base)
        return;
    for (uint32_t b = 0; b < sim->batch_count; b++)
        sim->batches[b].next = b + 1 < sim->batch_count ? b + 1 : SIM_NOTHING;
    sim->batch_free = 0;
    sim->loads_free = NULL;
    for (uint32_t l = 0; l < load_count; l++) {
        loads[l].move.next = sim->loads_free;
        sim->loads_free = &loads[l].move;
    }
    for (uint32_t a = 0; a < c->accelerators; a++) {
        sim->accelerators[a] = (struct sim_accelerator){
            .runs = {.head = SIM_NOTHING}, .lost = {.head = SIM_NOTHING}, .ended_ns = INT64_MIN};
        if (limited)
            residency_init(&sim->accelerators[a].residency, entries + a * entries_each, c->model_count, c->memory_bytes,
                           c->noise, &sim->rng);
    }
    memset(sim->loaded_count, 0, c->model_count * sizeof(*sim->loaded_count));
    memset(sim->variant_items, 0, variants_most(c) * sizeof(*sim->variant_items));
}

/* ---- lanes ---- */

static void lane_push(struct sim *sim, struct sim_lane *lane, const struct sim_batch *batch) {
    uint32_t b = sim->batch_free;
    CHECK(b != SIM_NOTHING);
    sim->batch_free = sim->batches[b].next;
    sim->batches[b] = *batch;
    sim->batches[b].next = SIM_NOTHING;
    if (lane->head == SIM_NOTHING)
        lane->head = b;
    else
        sim->batches[lane->tail].next = b;
    lane->tail = b;
}

static struct sim_batch lane_pop(struct sim *sim, struct sim_lane *lane) {
    uint32_t b = lane->head;
    struct sim_batch batch = sim->batches[b];
    lane->head = batch.next;
    lane->running = false;
    sim->batches[b].next = sim->batch_free;
    sim->batch_free = b;
    return batch;
}

static struct sim_batch *lane_head(struct sim *sim, const struct sim_lane *lane) {
    return lane->head == SIM_NOTHING ? NULL : &sim->batches[lane->head];
}

/* ---- batches ---- */

/* The variant that a request is for: each is as likely, and the same in every run of a seed. */
static uint32_t request_variant(const struct sim *sim, uint64_t handle, uint32_t variants) {
    uint64_t x = sim_request_number(handle) + sim->config->seed * 0x9e3779b97f4a7c15ULL;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL; /* MurmurHash3's finalizer */
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return (uint32_t)((x ^ x >> 33) % variants);
}

/* The time of the parts of a batch of variants: the prefix, and the suffix of each variant that has items. */
static int64_t variants_run(struct sim *sim, const struct sim_batch *batch, uint32_t type) {
    const struct sim_model *model = &sim->config->models[batch->model];
    struct sim_model_result *result = &sim->result->models[batch->model];
    int64_t prefix_ns = model->prefixes[type]->latency_ns[batch->items], suffix_ns = 0;
    uint32_t runs = 0;
    for (uint32_t node = batch->first; node != REQUEST_NONE; node = sim->pool.nodes[node].next)
        sim->variant_items[request_variant(sim, sim->pool.nodes[node].handle, model->variants)] +=
            sim->pool.nodes[node].items;
    for (uint32_t node = batch->first; node != REQUEST_NONE; node = sim->pool.nodes[node].next) {
        uint32_t *items = &sim->variant_items[request_variant(sim, sim->pool.nodes[node].handle, model->variants)];
        if (!*items) /* counted with an earlier request */
            continue;
        suffix_ns += model->suffixes[type]->latency_ns[*items];
        *items = 0;
        runs++;
    }
    if (sim_counts(sim, sim->now_ns)) {
        result->suffix_runs += runs;
        result->prefix_ns += prefix_ns;
        result->suffix_ns += suffix_ns;
    }
    return prefix_ns + suffix_ns;
}

/* The time that a batch takes, with noise. */
static int64_t run_draw(struct sim *sim, const struct sim_batch *batch, uint32_t type) {
    const struct sim_model *model = &sim->config->models[batch->model];
    int64_t run_ns = model->variants ? variants_run(sim, batch, type) : model->profiles[type]->latency_ns[batch->items];
    return rng_noisy(&sim->rng, run_ns, sim->config->noise);
}

/* Whether a request of a batch that is over is answered in time. */
static bool in_time(const struct sim *sim, const struct sim_batch *batch, const struct request_node *request,
                    bool ran) {
    return ran && sim->now_ns + batch->answer_ns <= request->deadline_ns + sim->config->link_margin_ns;
}

/* Counts why a request of a batch that is over is late. */
static void late_count(struct sim *sim, const struct sim_batch *batch, const struct request_node *request, bool ran) {
    struct trail trail = {.state = TRAIL_REFUSED, .refusal = REFUSAL_LOST};
    if (ran)
        trail = (struct trail){.state = TRAIL_LATE,
                               .start_us = time_us_between(request->arrival_ns, batch->begin_ns),
                               .run_us = time_us_between(0, batch->run_ns),
                               .past = {.ready_us = time_us_between(batch->ready_ns, batch->begin_ns),
                                        .predicted_us = time_us_between(0, batch->expected_ns),
                                        .accelerator = batch->accelerator,
                                        .before = batch->before}};
    sim_reason_count(sim, request->priority, request->arrival_ns, request->deadline_ns, trail);
}

/* A request of a model's own traffic is answered, or lost with its batch. */
static void request_answer(struct sim *sim, const struct sim_batch *batch, const struct request_node *request,
                           bool ran) {
    struct sim_model_result *result = &sim->result->models[batch->model];
    struct sim_class_result *class = sim_class_of(sim, batch->model, request->priority);
    bool good = in_time(sim, batch, request, ran);
    sim_count(sim, batch->model, request->priority, request->arrival_ns, good ? SIM_GOOD : SIM_LATE);
    if (!good)
        late_count(sim, batch, request, ran);
    if (!ran || !sim_counts(sim, request->arrival_ns))
        return;
    int64_t took_ns = sim->now_ns + batch->answer_ns + sim->config->reply_margin_ns - request->arrival_ns;
    if (class)
        sim_times_add(&class->latency, took_ns);
    if (request->priority != PRIORITY_BEST_EFFORT) {
        sim_times_add(&result->latency, took_ns);
        sim_times_add(&result->queueing, batch->begin_ns - request->arrival_ns);
    }
}

/* The requests of a batch that ended are answered, or lost with it. Returns how many are late. */
static uint32_t requests_answer(struct sim *sim, const struct sim_batch *batch, bool ran) {
    const struct sim_observer *observer = sim->config->observer;
    uint32_t late = 0;
    for (uint32_t node = batch->first, next; node != REQUEST_NONE; node = next) {
        struct request_node *request = &sim->pool.nodes[node];
        next = request->next;
        if (!ran && sim_request_again(sim, request)) {
            sim_pool_put(sim, node);
            continue;
        }
        late += request->priority != PRIORITY_BEST_EFFORT && !in_time(sim, batch, request, ran);
        if (observer && observer->answered)
            observer->answered(observer->context, sim->now_ns, request->handle, ran);
        if (sim_is_stage(request->handle))
            sim_stage_answered(sim, request, ran);
        else
            request_answer(sim, batch, request, ran);
        sim_pool_put(sim, node);
    }
    return late;
}

/* The head of the runs is over; the driver is told unless it is to learn of it later. */
static void run_over(struct sim *sim, uint32_t a, bool ran, bool tell) {
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    const struct sim_observer *observer = sim->config->observer;
    bool running = accelerator->runs.running;
    struct sim_batch batch = lane_pop(sim, &accelerator->runs);
    if (running) {
        sim->busy_ns += (double)sim_counted_ns(sim, batch.begin_ns, sim->now_ns);
        sim->ran_ns += (double)(sim->now_ns - batch.begin_ns);
        sim_scaling_ran(sim, a, batch.begin_ns);
        accelerator->ended_ns = sim->now_ns;
        accelerator->ended_model = batch.model;
        if (sim->config->memory_bytes)
            residency_release(&accelerator->residency, batch.model);
        if (observer && observer->ended)
            observer->ended(observer->context, sim->now_ns, a);
    }
    batch.answer_ns = ran ? sim_link_delay(sim) : 0;
    batch.late = requests_answer(sim, &batch, ran);
    if (tell)
        sim_tell_ended(sim, a, &batch, ran);
    else if (batch.term == sim->links.term)
        lane_push(sim, &accelerator->lost, &batch);
}

static void loads_go_on(struct sim *sim, uint32_t a);

static void run_begin(struct sim *sim, uint32_t a, struct sim_batch *batch) {
    const struct sim_config *c = sim->config;
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    struct sim_model_result *result = &sim->result->models[batch->model];
    accelerator->runs.running = accelerator->used = true;
    if (c->memory_bytes)
        residency_hold(&accelerator->residency, batch->model);
    CHECK_LE(batch->items, c->models[batch->model].batch_max);
    batch->begin_ns = sim->now_ns;
    batch->before = batch_before(batch->sent_ns, time_us_between(batch->ready_ns, batch->sent_ns),
                                 accelerator->ended_ns, accelerator->ended_model);
    batch->run_ns = run_draw(sim, batch, c->accelerator_type[a]);
    if (sim_counts(sim, sim->now_ns)) {
        result->batches++;
        result->batch_items += batch->items;
        result->batch_sizes[batch->items]++;
    }
    if (c->observer && c->observer->waited)
        c->observer->waited(c->observer->context, a, sim->pool.nodes[batch->first].arrival_ns, batch->ready_ns,
                            batch->expected_ns);
    if (c->observer && c->observer->began)
        c->observer->began(c->observer->context, sim->now_ns, batch->model, a, batch->items,
                           sim->now_ns + batch->run_ns);
}

/* The time of a lane's next event: the batch under way ends, or the next one may begin. */
static int64_t lane_next(struct sim *sim, const struct sim_accelerator *accelerator, const struct sim_lane *lane) {
    const struct sim_batch *batch = lane_head(sim, lane);
    if (!batch)
        return TIME_NEVER;
    if (lane->running)
        return batch->begin_ns + batch->run_ns;
    int64_t at_ns = batch->arrives_ns > batch->earliest_ns ? batch->arrives_ns : batch->earliest_ns;
    return at_ns > accelerator->stalled_ns ? at_ns : accelerator->stalled_ns;
}

/* The head of a lane if it may begin now, or NULL. */
static struct sim_batch *lane_ready(struct sim *sim, const struct sim_accelerator *accelerator,
                                    const struct sim_lane *lane) {
    bool ready = !lane->running && lane_next(sim, accelerator, lane) <= sim->now_ns;
    return ready ? lane_head(sim, lane) : NULL;
}

/* Begins the batches that can begin, and sets the time of the next look. */
static void runs_go_on(struct sim *sim, uint32_t a) {
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    struct sim_batch *batch;
    while ((batch = lane_ready(sim, accelerator, &accelerator->runs))) {
        bool absent = sim->config->memory_bytes && !residency_has(&accelerator->residency, batch->model);
        if (sim->now_ns > batch->latest_ns || absent)
            run_over(sim, a, false, true);
        else
            run_begin(sim, a, batch);
    }
    sim_source_set(sim, sim->sources.runs + a, lane_next(sim, accelerator, &accelerator->runs));
    if (accelerator->residency.first && accelerator->residency.first->kind == CENTRAL_EMPTY)
        loads_go_on(sim, a);
}

void sim_runs_due(struct sim *sim, uint32_t a) {
    if (sim->accelerators[a].runs.running)
        run_over(sim, a, true, true);
    runs_go_on(sim, a);
}

/* ---- loads ---- */

static void load_send(struct sim *sim, uint32_t a, const struct sim_batch *batch) {
    const struct sim_model *model = &sim->config->models[batch->model];
    const struct sim_accelerator *accelerator = &sim->accelerators[a];
    /* the scheduler may not know yet that the accelerator left, or has come back with an empty memory */
    bool late = accelerator->down || accelerator->unknown || accelerator->joins > 0;
    struct residency_move *move = sim->loads_free;
    struct sim_load *load = container_of(move, struct sim_load, move);
    CHECK(move);
    sim->loads_free = move->next;
    *load = (struct sim_load){
        .move = {.kind = batch->kind,
                 .model = batch->model,
                 .pages = pages_of(model->weights_bytes, PAGE_BYTES),
                 .link_ns = model->load_ns,
                 .earliest_ns = batch->arrives_ns > batch->earliest_ns ? batch->arrives_ns : batch->earliest_ns,
                 .latest_ns = late ? INT64_MIN : batch->latest_ns,
                 .ahead = batch->ahead},
        .term = batch->term,
        .tag = batch->tag,
    };
    residency_send(&sim->accelerators[a].residency, move);
}

static void load_over(struct sim *sim, uint32_t a, struct residency_move *move) {
    const struct sim_load *load = container_of(move, struct sim_load, move);
    const struct sim_observer *observer = sim->config->observer;
    bool in = move->kind == CENTRAL_LOAD;
    struct sim_batch batch = {.kind = move->kind,
                              .model = move->model,
                              .first = REQUEST_NONE,
                              .begin_ns = move->begin_ns,
                              .run_ns = move->took_ns,
                              .term = load->term,
                              .tag = load->tag};
    move->next = sim->loads_free;
    sim->loads_free = move;
    if (move->changed && move->kind != CENTRAL_EMPTY) {
        sim->loaded_count[batch.model] += in ? 1 : UINT32_MAX; /* one more or one less */
        sim->result->models[batch.model].loads += in && sim_counts(sim, sim->now_ns);
        if (observer && observer->loaded)
            observer->loaded(observer->context, sim->now_ns, batch.model, a, in, batch.begin_ns);
    }
    sim_tell_ended(sim, a, &batch, move->done);
}

/* All models are about to be unloaded. */
static void all_unloaded(struct sim *sim, uint32_t a) {
    const struct sim_observer *observer = sim->config->observer;
    for (uint32_t m = 0; m < sim->config->model_count; m++) {
        if (!residency_has(&sim->accelerators[a].residency, m))
            continue;
        sim->loaded_count[m]--;
        if (observer && observer->loaded)
            observer->loaded(observer->context, sim->now_ns, m, a, false, sim->now_ns);
    }
}

static void loads_go_on(struct sim *sim, uint32_t a) {
    struct residency *residency = &sim->accelerators[a].residency;
    bool busy = sim->accelerators[a].runs.head != SIM_NOTHING;
    struct residency_move *move;
    do {
        move = residency->first;
        if (move && move->kind == CENTRAL_EMPTY && residency_due_ns(residency, busy) <= sim->now_ns &&
            sim->now_ns <= move->latest_ns)
            all_unloaded(sim, a);
        if ((move = residency_step(residency, sim->now_ns, busy)))
            load_over(sim, a, move);
    } while (move);
    sim_source_set(sim, sim->sources.loads + a, residency_due_ns(residency, busy));
}

void sim_loads_due(struct sim *sim, uint32_t a) {
    loads_go_on(sim, a);
}

/* ---- sending ---- */

/* Tells the observer of a batch just sent, and when it will have ended by the tables in force. With noise or stalls the
 * ends of the batches before it cannot be known, so the new batch counts as if it began at once. */
static void run_announce(struct sim *sim, uint32_t a, const struct sim_batch *batch) {
    const struct sim_config *c = sim->config;
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    bool surprises = c->noise > 0 || c->fault_every_s > 0 || c->link_jitter_ns > 0 || c->link_loss > 0;
    int64_t begin_ns = batch->arrives_ns > batch->earliest_ns ? batch->arrives_ns : batch->earliest_ns;
    if (accelerator->free_ns > begin_ns && !surprises)
        begin_ns = accelerator->free_ns;
    accelerator->free_ns = begin_ns + batch->expected_ns;
    if (!c->observer)
        return;
    if (c->observer->sent)
        c->observer->sent(c->observer->context, sim->now_ns, batch->model, a, batch->items, accelerator->free_ns);
    for (uint32_t node = batch->first; node != REQUEST_NONE && c->observer->joined; node = sim->pool.nodes[node].next)
        c->observer->joined(c->observer->context, sim->pool.nodes[node].handle);
}

void sim_send(struct sim *sim, uint32_t a, const struct sim_batch *sent) {
    const struct sim_config *c = sim->config;
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    struct sim_lane *lane = &accelerator->runs;
    bool run = sent->kind == CENTRAL_RUN;
    struct sim_batch batch = *sent;
    batch.sent_ns = sim->now_ns;
    batch.accelerator = a;
    batch.term = sim->links.term;
    batch.arrives_ns = sim->now_ns + c->ctrl_ns + (run ? c->data_ns * batch.items : 0);
    if (run) {
        sim->queued -= batch.requests;
        run_announce(sim, a, &batch);
    }
    sim_link_sealed(sim, batch.first);
    batch.arrives_ns += sim_link_delay(sim);
    if (!run) {
        load_send(sim, a, &batch);
        loads_go_on(sim, a);
        return;
    }
    lane_push(sim, lane, &batch);
    if (accelerator->down) { /* the driver did not know yet */
        while (lane->head != SIM_NOTHING)
            run_over(sim, a, false, !sim->driver->loses_late);
        return;
    }
    if (lane->head == lane->tail)
        runs_go_on(sim, a);
}

/* ---- faults ---- */

bool sim_accelerator_idle(const struct sim *sim, uint32_t a) {
    return sim->accelerators[a].runs.head == SIM_NOTHING && !sim->accelerators[a].residency.first;
}

void sim_accelerator_forget(struct sim *sim, uint32_t a) {
    if (!sim->config->memory_bytes)
        return;
    all_unloaded(sim, a);
    residency_lose(&sim->accelerators[a].residency);
    loads_go_on(sim, a);
}

void sim_accelerator_down(struct sim *sim, uint32_t a) {
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    sim->down += !accelerator->down;
    accelerator->down = true;
    accelerator->free_ns = 0;
    sim_source_set(sim, sim->sources.runs + a, TIME_NEVER);
    sim_tell_left(sim, a);
    sim->result->departures++;
    while (accelerator->runs.head != SIM_NOTHING)
        run_over(sim, a, false, !sim->driver->loses_late);
    sim_accelerator_forget(sim, a);
}

void sim_accelerator_up(struct sim *sim, uint32_t a) {
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    sim->down -= accelerator->down;
    accelerator->down = false;
    while (accelerator->lost.head != SIM_NOTHING) { /* reported before it is back */
        struct sim_batch gone = lane_pop(sim, &accelerator->lost);
        sim_tell_ended(sim, a, &gone, false);
    }
    sim_tell_joined(sim, a);
    sim->result->joins++;
}

void sim_accelerator_stall(struct sim *sim, uint32_t a, int64_t for_ns) {
    struct sim_accelerator *accelerator = &sim->accelerators[a];
    accelerator->stalled_ns = sim->now_ns + for_ns;
    if (accelerator->runs.running)
        lane_head(sim, &accelerator->runs)->run_ns += for_ns;
    runs_go_on(sim, a);
    if (sim->config->memory_bytes) {
        residency_stall(&accelerator->residency, sim->now_ns, for_ns);
        loads_go_on(sim, a);
    }
}
