/* model_core.c - one model's queue and its next batch: set-up, and what each event does.
 *
 * Arrivals that the policy admits wait in `queue`, by priority and deadline. The next batch of each accelerator type is
 * a run of that queue from its head (on a type too slow for the head, from the first request it can still make).
 *
 * Requests of a higher priority come first in the queue. As long as all requests in it have one priority, that changes
 * nothing. Where they have several, a batch is no run of the queue: it takes of each priority in turn what is still in
 * time, and is composed anew with every arrival. */
#include "sched/core/model_core.h"

#include <stddef.h>
#include <string.h>

#include "core/util/assert.h"
#include "sched/core/model_core_state.h"

#define BAD_WEIGHT_FIRST                                                                                               \
    (1.0 / 200) /* of the first request in the rates of dropped and late ones; see model_outcome() */

/* ---- set-up ---- */

static size_t align(size_t bytes) {
    return (bytes + 15) & ~(size_t)15;
}

size_t model_core_bytes(const struct model_core_config *config) {
    size_t bytes = align(sizeof(struct model_core)) + align(config->policy->model_bytes);
    for (uint32_t t = 0; t < config->types; t++) {
        if (!config->profiles[t])
            continue;
        bytes += align(profile_bytes(config->batch_max));
        if (config->learn)
            bytes += align(rolling_bytes(config->batch_max, config->accelerators));
    }
    return bytes;
}

void model_core_init(struct model_core *core, const struct model_core_config *config, struct request_pool *pool) {
    CHECK(config->types >= 1 && config->types <= ACCELERATOR_TYPES_MAX && config->batch_max >= 1);
    memset(core, 0, align(sizeof(struct model_core)) + align(config->policy->model_bytes)); /* the rest is set below */
    core->pool = pool;
    core->batch_max = config->batch_max;
    core->weight = config->weight > 0 ? config->weight : 1;
    core->policy = config->policy;
    if (config->policy_options)
        core->options = *config->policy_options;
    else
        policy_options_preset(config->policy, &core->options);
    core->bad_weight = BAD_WEIGHT_FIRST;
    core->ran_ns = TIME_NEVER;
    core->relax_ns = RELAX_NS;
    core->free_ns = core->hurried_ns = INT64_MIN;
    core->there_ns = config->load_ns ? config->there_ns : INT64_MIN;
    core->fetch_ahead = config->fetch_ahead;
    deadline_queue_init(&core->queue);
    deadline_queue_init(&core->best_effort);
    core->levels = config->levels;
    core->delays = config->delays;

    struct model_view *m = &core->view;
    m->types = config->types;
    m->ctrl_ns = config->ctrl_ns;
    m->data_ns = config->data_ns;
    m->slo_ns = core->slo_ns = (double)config->slo_ns;
    m->wait_ns = config->wait_ns;
    m->load_ns = config->load_ns;
    m->preferred = config->preferred;
    while (m->preferred_count < config->preferred_count && config->preferred[m->preferred_count] <= config->batch_max)
        m->preferred_count++;
    m->admit_share = 1;
    m->options = &core->options;
    m->parameters = cluster_parameters_none();
    arrival_rates_init(&m->rates);

    char *room = core->own + align(config->policy->model_bytes);
    bool runs = false;
    for (uint32_t t = 0; t < config->types; t++) {
        core->batches[t].start = REQUEST_NONE;
        core->candidates[t] = candidate_none();
        core->ready_ns[t] = TIME_NEVER;
        if (!config->profiles[t])
            continue;
        runs = true;
        m->profiles[t] = (struct profile *)room;
        model_profile_copy(m->profiles[t], config->profiles[t], config->batch_max);
        room += align(profile_bytes(config->batch_max));
        core->cheapest[t] = profile_batch_cheapest(m->profiles[t]);
        core->best[t] = profile_batch_best(m->profiles[t]);
        if (config->learn) {
            core->rolling[t] = (struct rolling *)room;
            rolling_init(core->rolling[t], m->profiles[t], config->accelerators);
            room += align(rolling_bytes(config->batch_max, config->accelerators));
        }
    }
    CHECK(runs);
    core->asked = UINT32_MAX;
    model_batch_limits_set(core);
    model_tables_changed(core);
    model_policy_update(core);
}

/* ---- parameters, delays and rates ---- */

/* Whether the types of accelerators in service are others than the core knows. */
static bool types_change(const struct model_core *core, const struct cluster_parameters *parameters) {
    const float *known = core->view.parameters.type_share;
    return !core->told || memcmp(known, parameters->type_share, sizeof(parameters->type_share)) != 0;
}

static void parameters_take(struct model_core *core, const struct grant_message *message) {
    core->view.parameters = message->parameters;
    core->view.admit_share = message->admit_share;
    core->behind = true;
}

static void parameters_set(struct model_core *core, int64_t now_ns, const struct grant_message *message,
                           struct model_output *out) {
    bool types_changed = types_change(core, &message->parameters);
    core->told = true;
    parameters_take(core, message);
    if (types_changed)
        model_tables_changed(core);
    model_policy_update(core);
    model_refresh(core, now_ns, out);
}

/* The types on which the model runs: a bit for each. */
static uint32_t runs_on(const struct model_core *core) {
    uint32_t types = 0;
    for (uint32_t t = 0; t < core->view.types; t++)
        types |= core->view.profiles[t] ? 1u << t : 0;
    return types;
}

/* A tick of the rates is over. */
static void rates_update(struct model_core *core, int64_t now_ns, struct model_output *out) {
    struct model_view *m = &core->view;
    uint32_t arrived = m->rates.tick_requests;
    out->rates_changed = m->rates.tick_requests > 0; /* the rank core lets a silent model's rates decay itself */
    if (core->asked_tick && core->asked_tick != core->asked) { /* the largest size that a request of the tick allows */
        core->asked = core->asked_tick;
        model_batch_limits_set(core);
    }
    core->asked_tick = 0;
    arrival_rates_roll(&m->rates, now_ns);
    double rate = arrival_rates_slow(&m->rates);
    m->rate_per_ns = rate / (double)NS_PER_S;
    m->slo_ns = arrival_rates_slo_ns(&m->rates, core->slo_ns);
    model_policy_update(core);
    if (out->rates_changed)
        out->rates = (struct model_rates){
            .at_ns = now_ns,
            .rate = rate,
            .rate_fast = arrival_rates_fast(&m->rates),
            .arrivals_fast = m->rates.requests_fast,
            .dropped_rate = core->view.dropped_rate,
            .bad_rate = core->view.dropped_rate + core->late_rate,
            .slo_ns = m->slo_ns,
            .weight = core->weight,
            .batch_best = m->batch_best,
            .alpha_ns = m->alpha_ns,
            .beta_ns = m->beta_ns,
            .runs_on = runs_on(core),
            .arrived = arrived,
            .cold = core->cold < arrived ? core->cold : arrived, /* the first request of all is not in `arrived` */
            .lost = core->lost,
            .lost_cold = core->lost_cold,
        };
    if (out->rates_changed)
        core->cold = core->lost = core->lost_cold = 0;
    model_refresh(core, now_ns, out);
}

/* ---- events ---- */

void model_core_step(struct model_core *core, int64_t now_ns, const struct model_event *event,
                     struct model_output *out) {
    out->refused = out->batch = REQUEST_NONE;
    out->batch_requests = out->batch_items = 0;
    out->candidate_changed = out->rates_changed = false;
    /* While nothing waits, the next event puts them in force: a model that nobody asks for costs next to nothing. */
    if (event->kind == MODEL_PARAMETERS && !core->queue.count && !core->promised_count && !core->any_best_effort &&
        !core->view.rates.tick_requests && !types_change(core, &event->grant->parameters)) {
        parameters_take(core, event->grant);
        out->wake_ns = TIME_NEVER;
        return;
    }
    if (core->promised_count)
        model_promises_join(core, now_ns, now_ns, out);
    if (arrival_rates_due(&core->view.rates, now_ns))
        rates_update(core, now_ns, out);
    if (core->behind)
        model_policy_update(core);
    switch (event->kind) {
    case MODEL_ARRIVED:
    case MODEL_ARRIVING:
        model_request_arrived(core, now_ns, event->request, out);
        break;
    case MODEL_SETTLED:
        break;
    case MODEL_CANCELLED:
        model_request_cancelled(core, now_ns, event->request, out);
        break;
    case MODEL_PREPARED:
        model_promise_ready(core, now_ns, event->request->handle, out);
        break;
    case MODEL_GRANTED:
        model_accelerator_granted(core, now_ns, event->grant, out);
        break;
    case MODEL_PARAMETERS:
        parameters_set(core, now_ns, event->grant, out);
        break;
    case MODEL_MEMORY:
        model_there_set(core, now_ns, event->grant->there_ns);
        core->view.load_ns = event->grant->load_ns;
        model_refresh(core, now_ns, out);
        break;
    case MODEL_RAN:
        model_batch_ran(core, now_ns, event->ran, out);
        break;
    case MODEL_DELAYS:
        core->view.ctrl_ns = event->delays.ctrl_ns;
        core->view.data_ns = event->delays.data_ns;
        model_policy_update(core);
        model_refresh(core, now_ns, out);
        break;
    case MODEL_TIMER:
        model_refresh(core, now_ns, out);
        break;
    case MODEL_HURRIED:
        core->hurried_ns = event->hurried_ns;
        model_refresh(core, now_ns, out);
        break;
    }
    if (event->kind == MODEL_ARRIVING)
        return;
    if (core->stale || core->grown)
        model_settle(core, now_ns, out);
    if (core->hopeless)
        model_tables_relax(core, now_ns, out);
    if (core->changed)
        memcpy(out->candidates, core->candidates, core->view.types * sizeof(*out->candidates));
    out->candidate_changed = core->changed;
    core->changed = core->hopeless = false;
    out->wake_ns = model_wake_ns(core);
}

/* ---- hints ---- */

static void prefetch(const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += CACHE_LINE)
        __builtin_prefetch((const char *)from + at, 1);
}

void model_core_prefetch(const struct model_core *core) {
    prefetch(core, offsetof(struct model_core, view.parameters));
    prefetch(&core->batches[0], sizeof(core->batches[0]));
    prefetch(&core->candidates[0], sizeof(core->candidates[0]));
    prefetch(core->own, CACHE_LINE);
}

void model_core_prefetch_parameters(const struct model_core *core) {
    prefetch(core, offsetof(struct model_core, batches));
    prefetch(&core->batches[0], sizeof(core->batches[0]));
    prefetch(&core->candidates[0], sizeof(core->candidates[0]));
    prefetch(core->own, 3 * CACHE_LINE);
}

/* Prefetches the queue's ends, and the latencies of the head's window and of the next batch with one and two more
 * items. */
void model_core_prefetch_arrival(const struct model_core *core) {
    const struct model_view *m = &core->view;
    if (core->queue.count) {
        prefetch(model_node(core, core->queue.tail[0]), CACHE_LINE);
        prefetch(model_node(core, core->queue.head[0]), CACHE_LINE);
    }
    if (!m->profiles[0])
        return;
    uint32_t items = core->batches[0].items, wanted = core->queue.items + 1;
    __builtin_prefetch(&m->profiles[0]->latency_ns[wanted < m->target_items ? wanted : m->target_items]);
    __builtin_prefetch(&m->profiles[0]->latency_ns[items + 1]);
    __builtin_prefetch(&m->profiles[0]->latency_ns[items + 2]);
}

uint32_t model_core_prefetch_batch(const struct model_core *core, uint32_t node) {
    if (node == REQUEST_NONE)
        node = core->queue.count ? deadline_queue_first(&core->queue) : REQUEST_NONE;
    else
        node = deadline_queue_next(core->pool->nodes, node);
    if (node != REQUEST_NONE)
        prefetch(model_node(core, node), CACHE_LINE);
    return node;
}

/* ---- what others may ask ---- */

bool model_core_idle(const struct model_core *core) {
    return model_core_queued(core) == 0;
}

bool model_core_stranded(const struct model_core *core) {
    return core->stranded;
}

uint32_t model_core_queued(const struct model_core *core) {
    return core->queue.count + core->promised_count + core->best_effort.count;
}

uint32_t model_core_items(const struct model_core *core, uint32_t type) {
    return core->batches[type].start == REQUEST_NONE ? 0 : core->batches[type].items;
}

const struct profile *model_core_profile(const struct model_core *core, uint32_t type) {
    return core->view.profiles[type];
}
