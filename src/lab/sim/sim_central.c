/* sim_central.c - drives a central policy: one scheduler, which is told of requests, and of the ends of batches and
 * loads. */
#include <stdlib.h>

#include "lab/sim/sim_state.h"

struct central {
    void *core;
    double needed_ns;     /* accelerator time that the load has needed up to needed_at_ns, by the policy's plan */
    int64_t needed_at_ns; /* time up to which needed_ns counts */
    int64_t timer_ns;     /* time at which the core wants its next step; the core's source may have an earlier time */
    struct central_output out;
    /* Ends of batches that the core was not told of yet, since a batch that a step sends may be over at once; a circle.
     */
    struct central_ended *ended;
    uint32_t ended_head, ended_count, ended_most;
};

static struct central *central_of(const struct sim *sim) {
    return sim->driver_state;
}

static uint32_t central_sources(const struct sim_config *c) {
    (void)c;
    return 1; /* its timer */
}

/* Sets the policy's models. The rates known at first are those of the first step. */
static void models_set(const struct sim_config *c, struct central_model *models) {
    double shares = workload_shares(c);
    for (uint32_t m = 0; m < c->model_count; m++) {
        const struct sim_model *from = &c->models[m];
        models[m] = (struct central_model){
            .batch_max = from->batch_max,
            .slo_ns = from->slo_ns - c->reply_margin_ns - c->link_margin_ns,
            .rate_hint = c->rates_known ? c->steps[0].rate_rps * workload_items(c, m) * from->share / shares : 0,
            .weights_bytes = from->weights_bytes,
            .load_ns = from->load_ns,
            .pinned = from->pinned,
        };
        memcpy(models[m].profiles, from->profiles, sizeof(from->profiles));
    }
    for (uint32_t p = 0; p < c->pipeline_count && c->rates_known; p++) {
        const struct pipeline *pipeline = &c->pipelines[p].graph;
        double items[PIPELINE_STAGES_MAX], rate = c->steps[0].rate_rps * c->pipelines[p].queries.share / shares;
        pipeline_items(pipeline, items);
        for (uint32_t v = 0; v < pipeline->stage_count; v++)
            models[pipeline->stages[v].model].rate_hint += rate * items[v];
    }
}

static void central_layout(struct sim *sim, struct arena *arena) {
    const struct sim_config *c = sim->config;
    struct central scratch, *central = arena_take(arena, sizeof(*central));
    if (!arena->base)
        central = &scratch;
    sim->driver_state = central;
    central->timer_ns = TIME_NEVER;
    central->needed_ns = 0;
    central->needed_at_ns = 0;
    central->ended_head = central->ended_count = 0;
    central->ended_most = sim->batch_count;
    central->ended = arena_take(arena, central->ended_most * sizeof(*central->ended));

    struct central_model *models = malloc(c->model_count * sizeof(*models));
    CHECK_MEMORY(models);
    models_set(c, models);
    uint64_t *memory_bytes = c->memory_bytes ? malloc(c->accelerators * sizeof(*memory_bytes)) : NULL;
    CHECK_MEMORY(memory_bytes || !c->memory_bytes);
    for (uint32_t a = 0; memory_bytes && a < c->accelerators; a++)
        memory_bytes[a] = c->memory_bytes;
    struct central_config config = {
        .models = models,
        .model_count = c->model_count,
        .accelerator_type = c->accelerator_type,
        .accelerators = c->accelerators,
        .types = c->types,
        .ctrl_ns = c->ctrl_ns,
        .data_ns = c->data_ns,
        .price = c->price,
        .memory_bytes = memory_bytes,
        .seed = c->seed,
        .options = &c->options,
    };
    size_t bytes = c->policy->central->bytes(&config);
    central->core = arena_take(arena, bytes);
    if (arena->base) {
        memset(central->core, 0, bytes);
        c->policy->central->init(central->core, &config, &sim->pool);
    }
    free(memory_bytes); /* init() copied what it needs */
    free(models);
}

static void central_begin(struct sim *sim) {
    const struct sim_config *c = sim->config;
    bool pinned = false;
    for (uint32_t m = 0; m < c->model_count; m++)
        pinned |= c->models[m].pinned;
    central_of(sim)->timer_ns = pinned ? 0 : TIME_NEVER;
    sim_source_set(sim, sim->sources.driver, central_of(sim)->timer_ns);
}

/* ---- steps ---- */

static void action_send(struct sim *sim, const struct central_action *action) {
    const struct profile *profile =
        sim->config->models[action->model].profiles[sim->config->accelerator_type[action->accelerator]];
    struct sim_batch batch = {
        .kind = action->kind,
        .model = action->model,
        .items = action->items,
        .requests = action->requests,
        .first = action->kind == CENTRAL_RUN ? action->first : REQUEST_NONE,
        .earliest_ns = action->earliest_ns,
        .latest_ns = action->latest_ns,
        .ready_ns = INT64_MIN,
        .expected_ns = action->kind == CENTRAL_RUN ? profile->latency_ns[action->items] : 0,
        .tag = action->tag,
    };
    sim_send(sim, action->accelerator, &batch);
}

/* Adds the accelerator time that the load has needed since the last count, by the number of accelerators that the core
 * puts out. */
static void needed_count(struct sim *sim) {
    struct central *central = central_of(sim);
    const struct central_ops *ops = sim->config->policy->central;
    if (sim->now_ns > central->needed_at_ns)
        central->needed_ns += ops->needed(central->core) * (double)(sim->now_ns - central->needed_at_ns);
    central->needed_at_ns = sim->now_ns;
}

static void refused_explain(struct sim *sim, uint32_t node) {
    const struct sim_config *c = sim->config;
    const struct central_ops *ops = c->policy->central;
    for (; node != REQUEST_NONE; node = sim->pool.nodes[node].next) {
        const struct sim_model *from = &c->models[sim->pool.nodes[node].model];
        struct central_model model = {.batch_max = from->batch_max};
        memcpy(model.profiles, from->profiles, sizeof(from->profiles));
        central_explain(
            &sim->pool.nodes[node],
            &(struct central_known){.model = &model,
                                    .types = c->types,
                                    .ctrl_ns = c->ctrl_ns,
                                    .data_ns = c->data_ns,
                                    .absent = c->memory_bytes && sim->loaded_count[sim->pool.nodes[node].model] == 0,
                                    .needed = ops->needed ? ops->needed(central_of(sim)->core) : -1,
                                    .serving = sim->scaling.present - sim->down});
    }
}

static void step(struct sim *sim, const struct central_event *event) {
    struct central *central = central_of(sim);
    struct central_output *out = &central->out;
    if (sim->config->autoscale && sim->config->policy->central->needed)
        needed_count(sim);
    sim->config->policy->central->step(central->core, sim->now_ns, event, out);
    if (out->refused != REQUEST_NONE) {
        refused_explain(sim, out->refused);
        sim_refuse(sim, out->refused);
    }
    for (uint32_t i = 0; i < out->action_count; i++)
        action_send(sim, &out->actions[i]);
    if (out->wake_ns < central->timer_ns || central->timer_ns <= sim->now_ns)
        sim_source_set(sim, sim->sources.driver, out->wake_ns);
    central->timer_ns = out->wake_ns;
}

static void central_arrived(struct sim *sim, const struct request_message *message) {
    step(sim, &(struct central_event){.kind = CENTRAL_ARRIVED, .model = message->place.n, .request = message});
}

static void central_cancelled(struct sim *sim, const struct request_message *message) {
    step(sim, &(struct central_event){.kind = CENTRAL_CANCELLED, .model = message->place.n, .request = message});
}

static void central_due(struct sim *sim, uint32_t source) {
    struct central *central = central_of(sim);
    (void)source;
    if (central->timer_ns > sim->now_ns) /* it moved on since */
        sim_source_set(sim, sim->sources.driver, central->timer_ns);
    else
        step(sim, &(struct central_event){.kind = CENTRAL_TIMER});
}

static void central_ended(struct sim *sim, uint32_t accelerator, const struct sim_batch *batch, bool done) {
    struct central *central = central_of(sim);
    CHECK_LT(central->ended_count, central->ended_most);
    central->ended[(central->ended_head + central->ended_count++) % central->ended_most] = (struct central_ended){
        .kind = batch->kind,
        .accelerator = accelerator,
        .model = batch->model,
        .items = batch->items,
        .done = done,
        .run_ns = done ? batch->run_ns : 0,
        .tag = batch->tag,
    };
}

static void central_deliver(struct sim *sim) {
    struct central *central = central_of(sim);
    while (central->ended_count) {
        struct central_ended ended = central->ended[central->ended_head];
        central->ended_head = (central->ended_head + 1) % central->ended_most;
        central->ended_count--;
        step(sim, &(struct central_event){.kind = CENTRAL_ENDED, .accelerator = ended.accelerator, .ended = &ended});
    }
}

static void central_joined(struct sim *sim, uint32_t accelerator) {
    step(sim, &(struct central_event){.kind = CENTRAL_UP, .accelerator = accelerator});
}

static void central_left(struct sim *sim, uint32_t accelerator) {
    step(sim, &(struct central_event){.kind = CENTRAL_DOWN, .accelerator = accelerator});
}

static uint32_t central_stuck(const struct sim *sim) {
    (void)sim;
    return 0; /* it has no list of free accelerators that could be looked at */
}

static double central_needed_ns(struct sim *sim, uint32_t subcluster) {
    (void)subcluster;
    if (!sim->config->policy->central->needed)
        return sim->ran_ns;
    needed_count(sim);
    return central_of(sim)->needed_ns;
}

static const uint16_t *central_pool(const struct sim *sim) {
    return sim->config->policy->central->pool(central_of(sim)->core);
}

static void central_sum(const struct sim *sim, struct sim_result *result) {
    const struct central_ops *ops = sim->config->policy->central;
    if (ops->moves)
        result->placement = *ops->moves(central_of(sim)->core);
}

const struct sim_driver sim_driver_central = {
    .sources = central_sources,
    .layout = central_layout,
    .begin = central_begin,
    .arrived = central_arrived,
    .cancelled = central_cancelled,
    .ended = central_ended,
    .joined = central_joined,
    .left = central_left,
    .due = central_due,
    .deliver = central_deliver,
    .stuck = central_stuck,
    .needed_ns = central_needed_ns,
    .pool = central_pool,
    .sum = central_sum,
};
