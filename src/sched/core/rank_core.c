/* rank_core.c - matches model candidates to accelerators: set-up, and what each event does.
 *
 * Each type of accelerators has a lane: its free accelerators by number, so that load goes to the lowest ones first,
 * and the candidates for it. After every event the free accelerators are granted (rank_match.c) to the candidates that
 * may start (rank_candidates.c). */
#include "sched/core/rank_core.h"

#include <string.h>

#include "core/util/arena.h"
#include "core/util/assert.h"
#include "sched/core/rank_core_state.h"

/* ---- set-up ---- */

static void rank_core_layout(struct rank_core *core, struct arena *arena, const struct rank_core_config *config) {
    core->accelerator = arena_take(arena, config->accelerators * sizeof(*core->accelerator));
    core->model = arena_take(arena, config->models * sizeof(*core->model));
    core->candidates = arena_take(arena, (size_t)config->models * config->types * sizeof(*core->candidates));
    for (uint32_t list = 0; list < LISTS; list++)
        core->dirty[list].models = arena_take(arena, config->models * sizeof(uint32_t));
    core->rates = arena_take(arena, config->models * sizeof(*core->rates));
    core->rates_now = arena_take(arena, config->models * sizeof(*core->rates_now));
    core->reporting = arena_take(arena, config->models * sizeof(*core->reporting));
    core->admit_share = arena_take(arena, config->models * sizeof(*core->admit_share));
    uint32_t divided = config->types > 1 ? config->models : 0;
    core->class_rates = arena_take(arena, divided * sizeof(*core->class_rates));
    core->class_share = arena_take(arena, config->models * sizeof(*core->class_share));
    heap_take(arena, &core->offers, config->accelerators);
    for (uint32_t t = 0; t < config->types; t++) {
        struct lane *lane = &core->lanes[t];
        bit_tree_take(arena, &lane->free, config->accelerators);
        for (uint32_t level = 0; level < SUPPLY_LEVELS; level++) {
            heap_take(arena, &lane->stages[level].waiting, config->models);
            heap_take(arena, &lane->stages[level].open, config->models);
        }
        heap_take(arena, &lane->best_effort, config->models);
    }
    core->memory = config->limited ? rank_memory_take(arena, config) : NULL;
}

size_t rank_core_bytes(const struct rank_core_config *config) {
    struct rank_core scratch;
    struct arena arena = {NULL, 0};
    arena_take(&arena, sizeof(struct rank_core));
    rank_core_layout(&scratch, &arena, config);
    return arena.used;
}

void rank_core_init(struct rank_core *core, const struct rank_core_config *config) {
    CHECK(config->types >= 1 && config->types <= ACCELERATOR_TYPES_MAX);
    struct arena arena = {(char *)core, 0};
    arena_take(&arena, sizeof(*core));
    memset(core, 0, sizeof(*core));
    rank_core_layout(core, &arena, config);
    core->models = config->models;
    core->types = config->types;
    core->accelerators = config->accelerators;
    core->ctrl_ns = config->ctrl_ns;
    core->data_ns = config->data_ns;
    core->grace_ns = config->grace_ns;
    core->typed_late = config->absent;
    core->policy = config->policy;
    if (config->policy_options)
        core->options = *config->policy_options;
    else
        policy_options_preset(config->policy, &core->options);
    for (uint32_t k = 0; k < config->types; k++)
        core->parameters[k] = cluster_parameters_none();
    core->best_effort_run_ns = TIME_NEVER;
    for (uint32_t a = 0; a < config->accelerators; a++) {
        CHECK_LT(config->accelerator_type[a], config->types);
        bool own = !config->absent &&
                   (!config->subcluster_of_accelerator || config->subcluster_of_accelerator[a] == config->subcluster);
        core->accelerator[a] = (struct accelerator){.type = config->accelerator_type[a], .down = !own};
        if (!own)
            continue;
        bit_tree_add(&core->lanes[config->accelerator_type[a]].free, a);
        core->up_of_type[config->accelerator_type[a]]++;
        core->free++;
        if (core->memory)
            rank_memory_begin(core->memory, a);
    }
    core->up = core->free;
    for (uint32_t m = 0; m < config->models; m++) {
        bool own = !config->subcluster_of_model || config->subcluster_of_model[m] == config->subcluster;
        core->model[m] = (struct model_slot){.pace = 1, .member = own};
        core->rates[m] = (struct model_rates){.rate = 0};
        core->admit_share[m] = 1;
        rank_candidates_clear(core, m);
    }
    for (uint32_t m = 0; core->memory && m < config->models; m++)
        rank_loads_want(core, core->memory->variant[m].of);
}

int64_t rank_core_first_ns(const struct rank_core *core) {
    return core->memory && !heap_empty(&core->memory->wanted) ? 0 : TIME_NEVER;
}

/* ---- events ---- */

/* Lets the model go, unless a grant is on its way to the model: then the model goes when it has answered. Where memory
 * is limited, one that goes for good does so once no accelerator has its weights. */
static void model_leaves(struct rank_core *core, uint32_t model, struct rank_output *out) {
    if (core->model[model].granted || (core->memory && !rank_memory_leave(core, model, core->model[model].goes)))
        return;
    out->left = (struct variant_id){model};
}

/* Stores the candidates that come with a message. */
static void candidates_take(struct rank_core *core, const struct rank_message *message) {
    CHECK_EQ(message->types, core->types);
    rank_candidates_store(core, message->variant.n, message->candidates);
}

static void answered(struct rank_core *core, int64_t now_ns, const struct rank_message *message,
                     struct rank_output *out) {
    const struct rank_answer *answer = &message->answer;
    CHECK_LT(answer->accelerator, core->accelerators);
    uint32_t m = message->variant.n;
    struct model_slot *model = &core->model[m];
    struct accelerator *accelerator = &core->accelerator[answer->accelerator];
    CHECK(model->granted);
    CHECK(accelerator->granted);
    model->granted = accelerator->granted = false;
    if (model->granted_best_effort && answer->items == 0)
        core->lanes[accelerator->type].best_effort_runs--;
    if (model->member)
        candidates_take(core, message);
    else
        model_leaves(core, m, out);
    if (answer->items == 0) {
        if (core->memory)
            rank_memory_release(core, answer->accelerator, m, accelerator->epoch);
        rank_candidates_hold(core, m, now_ns);
        rank_accelerator_given_back(core, now_ns, answer->accelerator);
    } else {
        rank_batch_announced(core, now_ns, m, answer);
    }
}

static void message_handle(struct rank_core *core, int64_t now_ns, const struct rank_message *message,
                           struct rank_output *out) {
    uint32_t m = message->variant.n;
    CHECK_LT(m, core->models);
    struct model_slot *model = &core->model[m];
    switch (message->kind) {
    case RANK_ANSWER:
        answered(core, now_ns, message, out);
        break;
    case RANK_RATES:
        if (model->member)
            rank_rates_store(core, m, &message->rates);
        if (model->member && core->memory)
            rank_memory_asked(core, now_ns, m, &message->rates);
        break;
    case RANK_LEAVE:
    case RANK_GOES:
        CHECK(model->member);
        model->member = false;
        model->goes = message->kind == RANK_GOES;
        rank_rates_forget(core, m);
        rank_candidates_forget(core, m);
        model_leaves(core, m, out);
        break;
    case RANK_JOIN:
        CHECK(!model->member && !model->granted);
        model->member = true;
        model->pace = 1; /* the number may have been another model's before */
        core->admit_share[m] = 1;
        if (core->memory)
            rank_memory_join(core, m, &message->weights);
        candidates_take(core, message);
        out->joined = message->variant;
        break;
    }
}

void rank_core_take(struct rank_core *core, int64_t now_ns, const struct rank_event *event, struct rank_output *out) {
    out->joined = out->left = (struct variant_id){RANK_NOBODY};
    rank_offers_release(core, now_ns);
    if (core->memory)
        core->memory->now_ns = now_ns;
    switch (event->kind) {
    case RANK_MESSAGE:
        message_handle(core, now_ns, event->message, out);
        break;
    case RANK_CANDIDATES:
        CHECK_LT(event->variant.n, core->models);
        /* while a grant is out, these candidates are older than those of the answer */
        if (core->model[event->variant.n].member && !core->model[event->variant.n].granted)
            rank_candidates_store(core, event->variant.n, event->candidates);
        break;
    case RANK_TIMER:
        break;
    case RANK_BATCH_ENDED:
        CHECK_LT(event->accelerator, core->accelerators);
        rank_accelerator_ended(core, now_ns, event);
        break;
    case RANK_ACCELERATOR_UP:
        CHECK_LT(event->accelerator, core->accelerators);
        rank_accelerator_up(core, now_ns, event->accelerator, event->type);
        break;
    case RANK_ACCELERATOR_DOWN:
        CHECK_LT(event->accelerator, core->accelerators);
        rank_accelerator_down(core, event->accelerator);
        break;
    case RANK_MOVED:
        CHECK(core->memory && event->moved.accelerator < core->accelerators);
        rank_loads_moved(core, now_ns, &event->moved);
        break;
    case RANK_WAY:
        core->way = event->way;
        core->parameters_due_ns = now_ns;
        break;
    }
}

void rank_core_step(struct rank_core *core, int64_t now_ns, const struct rank_event *event, struct rank_output *out) {
    out->grant_count = 0;
    out->parameters_changed = false;
    out->move_count = 0;
    out->gone_count = 0;
    rank_core_take(core, now_ns, event, out);
    rank_match(core, now_ns, out);
    if (core->memory)
        rank_loads_schedule(core, now_ns, out);
    if (now_ns >= core->parameters_due_ns)
        rank_load_update(core, now_ns, out);

    out->wake_ns = TIME_NEVER;
    core->awaited = core->wanting > 0;
    if (core->awaited && !heap_empty(&core->offers))
        out->wake_ns = heap_top(&core->offers).key;
    int64_t start_ns = out->grant_count == RANK_GRANTS_MAX ? now_ns : core->free ? rank_start_next(core) : TIME_NEVER;
    if (start_ns < out->wake_ns)
        out->wake_ns = start_ns;
    if (core->memory && rank_loads_next(core, now_ns) < out->wake_ns)
        out->wake_ns = rank_loads_next(core, now_ns);
    /* Rates decay in silence, too: a batch that waits for company beside a free accelerator may have no reason to once
     * the parameters are derived anew. Without this, a client that sends its next request only after the answer to the
     * last one keeps the load just high enough to wait for, and waits out its whole SLO. */
    if (out->wake_ns != TIME_NEVER && core->policy->cluster_derive && core->parameters_due_ns < out->wake_ns)
        out->wake_ns = core->parameters_due_ns;
}

/* ---- what others may ask ---- */

void rank_core_parameters(const struct rank_core *core, struct variant_id variant, struct grant_message *message) {
    const struct model_slot *model = &core->model[variant.n];

    *message = (struct grant_message){
        .kind = GRANT_PARAMETERS,
        .variant = variant,
        .admit_share = core->admit_share[variant.n],
        .parameters = core->parameters[model->reports ? model->class : core->class_silent],
    };
}

double rank_core_accelerators_needed(const struct rank_core *core) {
    return core->needed;
}

double rank_core_needed_ns(const struct rank_core *core) {
    return core->needed_ns;
}

bool rank_core_member(const struct rank_core *core, struct variant_id variant) {
    return core->model[variant.n].member;
}

bool rank_core_accelerator_idle(const struct rank_core *core, uint32_t accelerator) {
    return !core->accelerator[accelerator].granted && core->accelerator[accelerator].batches == 0;
}

uint32_t rank_core_accelerators_free(const struct rank_core *core) {
    return core->free;
}

uint32_t rank_core_accelerators_busy(const struct rank_core *core) {
    return core->busy;
}

int64_t rank_core_offer_ns(const struct rank_core *core) {
    return heap_empty(&core->offers) ? TIME_NEVER : heap_top(&core->offers).key;
}
