/* central_thread_core.c - keeps the set of models and accelerators, and a policy's core that plans for it. */
#include "sched/core/central_thread_core.h"

#include <string.h>

#include "core/util/arena.h"
#include "core/util/assert.h"

#define TIMERS_MOST 16 /* CENTRAL_TIMER steps in one central_look() */
#define DELAYS_PART 8  /* divisor of the shortest SLO: the policy plans with no longer ctrl_ns (as thread_rings.c) */

/* ---- set-up ---- */

static void lay_out(struct central_thread_core *core, struct arena *arena,
                    const struct central_thread_core_config *config) {
    core->models = arena_take(arena, config->models_max * sizeof(*core->models));
    core->accelerators = arena_take(arena, config->accelerators_max * sizeof(*core->accelerators));
    core->queued = arena_take(arena, config->pool->capacity * sizeof(bool));
    core->pairs = arena_take(arena, config->limited ? (size_t)config->accelerators_max * config->models_max : 0);
    core->model_of = arena_take(arena, config->models_max * sizeof(uint32_t));
    core->accelerator_of = arena_take(arena, config->accelerators_max * sizeof(uint32_t));
    core->next_models = arena_take(arena, config->models_max * sizeof(*core->next_models));
    core->next_memory = arena_take(arena, config->accelerators_max * sizeof(*core->next_memory));
    core->next_page = arena_take(arena, config->accelerators_max * sizeof(*core->next_page));
    core->next_types = arena_take(arena, config->accelerators_max);
}

size_t central_thread_core_bytes(const struct central_thread_core_config *config) {
    struct central_thread_core scratch;
    struct arena arena = {NULL, 0};
    lay_out(&scratch, &arena, config);
    return arena.used;
}

void central_thread_core_init(struct central_thread_core *core, void *memory,
                              const struct central_thread_core_config *config) {
    struct arena arena = {memory, 0};
    *core = (struct central_thread_core){.config = *config, .wake_ns = TIME_NEVER, .change_ns = TIME_NEVER};
    lay_out(core, &arena, config);
    deadline_queue_init(&core->waiting);
    for (uint32_t m = 0; m < config->models_max; m++)
        core->models[m].member = CENTRAL_NONE;
    for (uint32_t a = 0; a < config->accelerators_max; a++)
        core->accelerators[a].member = CENTRAL_NONE;
}

static struct request_node *node_of(const struct central_thread_core *core, uint32_t node) {
    return &core->config.pool->nodes[node];
}

/* ---- memory ---- */

static uint8_t *pair_of(const struct central_thread_core *core, uint32_t accelerator, uint32_t model) {
    return &core->pairs[(size_t)accelerator * core->config.models_max + model];
}

static void pair_set(struct central_thread_core *core, uint32_t accelerator, uint32_t model, enum central_pair to) {
    uint8_t *pair = pair_of(core, accelerator, model);
    core->models[model].places -= *pair == PAIR_HERE || *pair == PAIR_HELD;
    core->models[model].places += to == PAIR_HERE || to == PAIR_HELD;
    *pair = (uint8_t)to;
}

static void nothing_there(struct central_thread_core *core, uint32_t accelerator) {
    for (uint32_t m = 0; core->config.limited && m < core->config.models_max; m++)
        pair_set(core, accelerator, m, PAIR_NONE);
}

/* Notes a load or an unload that is sent. */
static void move_note(struct central_thread_core *core, const struct central_action *action) {
    core->accelerators[action->accelerator].moves++;
    core->models[action->model].moves++;
    pair_set(core, action->accelerator, action->model, action->kind == CENTRAL_LOAD ? PAIR_COMES : PAIR_LEAVES);
}

/* Sends an action that is no policy's. */
static void own_send(struct central_thread_core *core, int64_t now_ns, enum central_action_kind kind,
                     uint32_t accelerator, uint32_t model) {
    core->out.refused = REQUEST_NONE;
    core->out.action_count = 1;
    core->out.actions[0] = (struct central_action){.kind = kind,
                                                   .accelerator = accelerator,
                                                   .model = model,
                                                   .earliest_ns = INT64_MIN,
                                                   .latest_ns = TIME_NEVER,
                                                   .first = REQUEST_NONE};
    core->config.take(core->config.context, now_ns, &core->out);
}

/* Has an accelerator unload all models: the policy's core believes that it comes with nothing loaded. */
static void accelerator_empty(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator) {
    struct set_accelerator *a = &core->accelerators[accelerator];
    if (!core->config.limited)
        return;
    nothing_there(core, accelerator);
    a->void_moves = ++a->moves;
    own_send(core, now_ns, CENTRAL_EMPTY, accelerator, 0);
}

/* ---- the policy's core ---- */

/* Nodes that the policy gives back. */
static void list_taken_back(struct central_thread_core *core, uint32_t node) {
    for (; node != REQUEST_NONE; node = node_of(core, node)->next) {
        core->queued[node] = false;
        node_of(core, node)->model = core->model_of[node_of(core, node)->model];
    }
}

/* Completes why the requests were given up, whose models have the policy's numbers. */
static void refused_explain(struct central_thread_core *core, uint32_t node) {
    double needed = central_needed(core);
    for (; node != REQUEST_NONE; node = node_of(core, node)->next) {
        const struct set_model *model = &core->models[core->model_of[node_of(core, node)->model]];
        central_explain(node_of(core, node),
                        &(struct central_known){.model = &model->model,
                                                .types = core->config.types,
                                                .ctrl_ns = core->ctrl_ns,
                                                .absent = core->config.limited && model->places == 0,
                                                .needed = needed,
                                                .serving = core->serving});
    }
}

/* Steps the policy, with an event in its numbers, and passes on what it says. */
static void step(struct central_thread_core *core, int64_t now_ns, const struct central_event *event) {
    struct central_output *out = &core->out;
    out->predicted_ns = 0;
    core->config.ops->step(core->policy, now_ns, event, out);
    core->wake_ns = out->wake_ns;
    if (out->refused != REQUEST_NONE) {
        refused_explain(core, out->refused);
        list_taken_back(core, out->refused);
    }
    uint32_t actions = out->action_count;
    out->action_count = 0;
    for (uint32_t i = 0; i < actions; i++) {
        struct central_action *action = &out->actions[out->action_count];
        *action = out->actions[i];
        action->accelerator = core->accelerator_of[action->accelerator];
        action->model = core->model_of[action->model];
        if (action->model == CENTRAL_NONE) /* it goes, and the next core is not told of it */
            continue;
        out->action_count++;
        struct set_accelerator *a = &core->accelerators[action->accelerator];
        if (action->kind != CENTRAL_RUN) {
            move_note(core, action);
            continue;
        }
        list_taken_back(core, action->first);
        struct set_model *model = &core->models[action->model];
        model->running++;
        a->outstanding++;
        a->busy_until_ns = time_later(a->busy_until_ns, now_ns + core->ctrl_ns) +
                           model->model.profiles[a->type]->latency_ns[action->items];
    }
    const uint16_t *pool = core->config.ops->pool ? core->config.ops->pool(core->policy) : NULL;
    for (uint32_t t = 0; pool && t < core->next.types; t++)
        core->pool[core->type_of[t]] = pool[t];
    core->pool_chosen |= pool != NULL;
    if (out->refused != REQUEST_NONE || out->action_count > 0)
        core->config.take(core->config.context, now_ns, out);
}

static void arrive(struct central_thread_core *core, int64_t now_ns, uint32_t member,
                   const struct request_message *message) {
    uint32_t node = request_pool_next(core->config.pool);
    CHECK(node != REQUEST_NONE); /* the shell's duty */
    core->queued[node] = true;
    core->queued_end = node >= core->queued_end ? node + 1 : core->queued_end;
    step(core, now_ns, &(struct central_event){.kind = CENTRAL_ARRIVED, .model = member, .request = message});
}

/* Leaves the policy's core: the requests that it had queued wait here, and the batches that it had sent are foreign to
 * the next core. */
static void policy_leave(struct central_thread_core *core) {
    core->moves_before = central_moves(core);
    for (uint32_t node = 0; core->policy && node < core->queued_end; node++) {
        if (!core->queued[node])
            continue;
        core->queued[node] = false;
        node_of(core, node)->model = core->model_of[node_of(core, node)->model];
        deadline_queue_insert(&core->waiting, core->config.pool->nodes, node);
    }
    core->queued_end = 0;
    for (uint32_t m = 0; m < core->model_count; m++)
        if (core->model_of[m] != CENTRAL_NONE)
            core->models[core->model_of[m]].member = CENTRAL_NONE;
    for (uint32_t a = 0; a < core->accelerator_count; a++)
        core->accelerators[core->accelerator_of[a]].member = CENTRAL_NONE;
    for (uint32_t a = 0; a < core->config.accelerators_max; a++) {
        core->accelerators[a].foreign = core->accelerators[a].outstanding;
        core->accelerators[a].old_moves = core->accelerators[a].moves;
    }
    core->model_count = core->accelerator_count = 0;
    core->policy = NULL;
    core->wake_ns = TIME_NEVER;
}

/* ---- the next core ---- */

static bool runs_on_some(const struct set_model *model, const uint32_t *up) {
    for (uint32_t t = 0; t < CENTRAL_TYPES_MAX; t++)
        if (model->model.profiles[t] && up[t] > 0)
            return true;
    return false;
}

static void up_count(const struct central_thread_core *core, uint32_t up[CENTRAL_TYPES_MAX]) {
    memset(up, 0, CENTRAL_TYPES_MAX * sizeof(*up));
    for (uint32_t a = 0; a < core->config.accelerators_max; a++)
        up[core->accelerators[a].type] += core->accelerators[a].up;
}

/* Whether the next core is to plan for a model. */
static bool is_planned(const struct set_model *model, const uint32_t *up) {
    return model->there && !model->going && runs_on_some(model, up);
}

/* Gives numbers in the next core to the types of which some accelerator runs a model; if the policy chooses pools, to
 * all types that a model runs on, since it may ask for accelerators of a type of which there are none. Returns how many
 * these are. */
static uint32_t types_number(const struct central_thread_core *core, const uint32_t *up, uint32_t *number) {
    uint32_t count = 0;
    for (uint32_t t = 0; t < core->config.types; t++) {
        bool used = false;
        for (uint32_t m = 0; (up[t] > 0 || core->config.ops->pool) && !used && m < core->config.models_max; m++)
            used = core->models[m].there && !core->models[m].going && core->models[m].model.profiles[t];
        number[t] = used ? count++ : CENTRAL_NONE;
    }
    return count;
}

/* A model as the next core is told of it. */
static struct central_model told_of(struct central_thread_core *core, int64_t now_ns, struct set_model *m,
                                    const uint32_t *type_number) {
    struct central_model told = m->model;
    memset(told.profiles, 0, sizeof(told.profiles));
    for (uint32_t t = 0; t < core->config.types; t++)
        if (type_number[t] != CENTRAL_NONE)
            told.profiles[type_number[t]] = m->model.profiles[t];
    arrival_rates_roll(&m->rates, now_ns);
    told.rate_hint = arrival_rates_slow(&m->rates);
    return told;
}

size_t central_renew_bytes(struct central_thread_core *core, int64_t now_ns, int64_t ctrl_ns) {
    uint32_t up[CENTRAL_TYPES_MAX], number[CENTRAL_TYPES_MAX], models = 0, accelerators = 0;
    core->told_ctrl_ns = ctrl_ns;
    up_count(core, up);
    uint32_t types = types_number(core, up, number);
    for (uint32_t m = 0; m < core->config.models_max; m++) {
        struct set_model *model = &core->models[m];
        if (!is_planned(model, up))
            continue;
        core->next_models[models++] = told_of(core, now_ns, model, number);
        if (ctrl_ns > model->model.slo_ns / DELAYS_PART)
            ctrl_ns = model->model.slo_ns / DELAYS_PART;
    }
    for (uint32_t i = 0; i < core->config.accelerators_max; i++) {
        const struct set_accelerator *a = &core->accelerators[i];
        if (!a->up || number[a->type] == CENTRAL_NONE)
            continue;
        core->next_memory[accelerators] = a->memory_bytes;
        core->next_page[accelerators] = a->page_bytes;
        core->next_types[accelerators++] = (uint8_t)number[a->type];
    }
    for (uint32_t t = 0; t < core->config.types; t++)
        if (number[t] != CENTRAL_NONE)
            core->next_price[number[t]] = core->config.price[t];
    core->next = (struct central_config){
        .models = core->next_models,
        .model_count = models,
        .accelerator_type = core->next_types,
        .accelerators = accelerators,
        .types = types,
        .ctrl_ns = ctrl_ns,
        .price = core->next_price,
        .memory_bytes = core->config.limited ? core->next_memory : NULL,
        .page_bytes = core->config.limited ? core->next_page : NULL,
        .seed = 1,
        .options = core->config.options,
    };
    return models > 0 && accelerators > 0 ? core->config.ops->bytes(&core->next) : 0;
}

/* Gives the members of the next core their numbers, in the order of central_renew_bytes(). */
static void members_number(struct central_thread_core *core) {
    uint32_t up[CENTRAL_TYPES_MAX], number[CENTRAL_TYPES_MAX];
    up_count(core, up);
    types_number(core, up, number);
    for (uint32_t t = 0; t < core->config.types; t++)
        if (number[t] != CENTRAL_NONE)
            core->type_of[number[t]] = (uint8_t)t;
    for (uint32_t m = 0; m < core->config.models_max; m++)
        if (is_planned(&core->models[m], up)) {
            core->models[m].member = core->model_count;
            core->model_of[core->model_count++] = m;
        }
    for (uint32_t a = 0; a < core->config.accelerators_max; a++)
        if (core->accelerators[a].up && number[core->accelerators[a].type] != CENTRAL_NONE) {
            core->accelerators[a].planned = core->accelerators[a].type;
            core->accelerators[a].planned_bytes = core->accelerators[a].memory_bytes;
            core->accelerators[a].planned_page = core->accelerators[a].page_bytes;
            core->accelerators[a].member = core->accelerator_count;
            core->accelerator_of[core->accelerator_count++] = a;
        }
    CHECK(core->model_count == core->next.model_count && core->accelerator_count == core->next.accelerators);
}

/* Gives the policy the requests that wait for its models. */
static void waiting_tell(struct central_thread_core *core, int64_t now_ns) {
    struct request_node *nodes = core->config.pool->nodes;
    for (uint32_t node = deadline_queue_first(&core->waiting), next; node != REQUEST_NONE; node = next) {
        const struct request_node *waits = &nodes[node];
        next = deadline_queue_next(nodes, node);
        uint32_t member = core->models[waits->model].member;
        if (member == CENTRAL_NONE)
            continue;
        struct request_message message = {
            .handle = waits->handle,
            .arrival_ns = waits->arrival_ns,
            .deadline_ns = waits->deadline_ns,
            .work = 1,
            .place = {waits->model},
            .items = waits->items,
            .port = waits->port,
        };
        deadline_queue_remove(&core->waiting, nodes, 0, message.deadline_ns, message.handle);
        request_pool_put(core->config.pool, node);
        arrive(core, now_ns, member, &message);
    }
}

/* Tells the policy's core what a member's memory has and loads. */
static void memory_tell(struct central_thread_core *core, int64_t now_ns, uint32_t member) {
    uint32_t accelerator = core->accelerator_of[member];
    bool runs = core->accelerators[accelerator].foreign > 0;
    for (uint32_t i = 0; core->config.limited && i < core->model_count; i++) {
        uint32_t m = core->model_of[i];
        enum central_pair pair = *pair_of(core, accelerator, m);
        if (pair == PAIR_NONE || pair == PAIR_LEAVES)
            continue;
        if (pair != PAIR_COMES)
            pair_set(core, accelerator, m, runs && core->models[m].running > 0 ? PAIR_HELD : PAIR_HERE);
        pair = *pair_of(core, accelerator, m);
        step(core, now_ns,
             &(struct central_event){
                 .kind = CENTRAL_HAS, .accelerator = member, .model = i, .comes = pair != PAIR_HERE});
    }
}

void *central_renew(struct central_thread_core *core, int64_t now_ns, void *memory) {
    void *before = core->memory;
    core->change_ns = TIME_NEVER;
    policy_leave(core);
    core->memory = memory;
    if (!memory)
        return before;
    core->ctrl_ns = core->next.ctrl_ns;
    core->policy = memory;
    core->config.ops->init(memory, &core->next, core->config.pool);
    members_number(core);
    for (uint32_t i = 0; i < core->accelerator_count; i++)
        memory_tell(core, now_ns, i);
    for (uint32_t i = 0; i < core->accelerator_count; i++) {
        const struct set_accelerator *a = &core->accelerators[core->accelerator_of[i]];
        struct central_event busy = {
            .kind = CENTRAL_BUSY, .accelerator = i, .until_ns = time_later(a->busy_until_ns, now_ns)};
        if (a->foreign > 0)
            step(core, now_ns, &busy);
    }
    waiting_tell(core, now_ns);
    for (uint32_t i = 0; i < core->model_count; i++)
        core->wake_ns = core->next_models[i].pinned ? now_ns : core->wake_ns;
    return before;
}

void central_renew_at(struct central_thread_core *core, int64_t at_ns) {
    core->change_ns = at_ns;
}

/* ---- what there is ---- */

static void set_changed(struct central_thread_core *core, int64_t now_ns) {
    int64_t at_ns = core->policy ? now_ns + CENTRAL_COLLECT_NS : now_ns;
    core->change_ns = at_ns < core->change_ns ? at_ns : core->change_ns;
}

void central_model_comes(struct central_thread_core *core, int64_t now_ns, uint32_t model,
                         const struct central_model *told, uint32_t before) {
    struct set_model *m = &core->models[model];
    CHECK(!m->there);
    m->there = true;
    m->model = *told;
    arrival_rates_init(&m->rates);
    if (before != CENTRAL_NONE && core->models[before].there) {
        m->rates = core->models[before].rates;
        arrival_rates_init(&core->models[before].rates);
    }
    set_changed(core, now_ns);
}

bool central_model_goes(struct central_thread_core *core, int64_t now_ns, uint32_t model) {
    struct set_model *m = &core->models[model];
    if (m->running > 0)
        return false;
    for (uint32_t a = 0; m->moves > 0 && a < core->config.accelerators_max; a++)
        if (*pair_of(core, a, model) == PAIR_COMES) /* the next core is to find its pages free */
            return false;
    if (m->member != CENTRAL_NONE)
        core->model_of[m->member] = CENTRAL_NONE; /* the policy keeps it, with nothing to do, until the next core */
    m->member = CENTRAL_NONE;
    if (core->config.limited && !m->going)
        set_changed(core, now_ns); /* the present core counts pages for it */
    m->going = true;
    for (uint32_t a = 0; m->places > 0 && a < core->config.accelerators_max; a++) {
        if (*pair_of(core, a, model) != PAIR_HERE && *pair_of(core, a, model) != PAIR_HELD)
            continue;
        move_note(core, &(struct central_action){.kind = CENTRAL_UNLOAD, .accelerator = a, .model = model});
        own_send(core, now_ns, CENTRAL_UNLOAD, a, model);
    }
    if (m->moves > 0)
        return false;
    m->there = m->going = false;
    return true;
}

/* Whether the policy's core knows an accelerator, and knows it with its present type and memory: after an accelerator
 * has left, another one may come under the same number. */
static bool is_planned_for(const struct set_accelerator *a) {
    return a->member != CENTRAL_NONE && a->planned == a->type && a->planned_bytes == a->memory_bytes &&
           a->planned_page == a->page_bytes;
}

void central_accelerator_comes(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator, uint8_t type,
                               uint64_t memory_bytes, uint64_t page_bytes) {
    struct set_accelerator *a = &core->accelerators[accelerator];
    if (a->up)
        return;
    CHECK_LT(type, core->config.types);
    a->type = type;
    a->memory_bytes = memory_bytes;
    a->page_bytes = page_bytes;
    a->up = true;
    core->serving++;
    accelerator_empty(core, now_ns, accelerator);
    if (is_planned_for(a)) {
        step(core, now_ns, &(struct central_event){.kind = CENTRAL_UP, .accelerator = a->member});
    } else {
        set_changed(core, now_ns);
    }
}

/* Whether a model that the policy plans for runs nowhere now. */
static bool any_stranded(const struct central_thread_core *core) {
    uint32_t up[CENTRAL_TYPES_MAX];
    memset(up, 0, sizeof(up));
    for (uint32_t i = 0; i < core->accelerator_count; i++) {
        const struct set_accelerator *a = &core->accelerators[core->accelerator_of[i]];
        up[a->type] += a->up && is_planned_for(a);
    }
    for (uint32_t i = 0; i < core->model_count; i++)
        if (core->model_of[i] != CENTRAL_NONE && !runs_on_some(&core->models[core->model_of[i]], up))
            return true;
    return false;
}

void central_accelerator_leaves(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator) {
    struct set_accelerator *a = &core->accelerators[accelerator];
    if (!a->up)
        return;
    a->up = false;
    core->serving--;
    nothing_there(core, accelerator);
    if (!is_planned_for(a))
        return;
    if (!any_stranded(core)) {
        step(core, now_ns, &(struct central_event){.kind = CENTRAL_DOWN, .accelerator = a->member});
        return;
    }
    policy_leave(core); /* the policy's core would refuse the requests of the model that is stranded */
    set_changed(core, now_ns);
}

/* ---- requests and batches ---- */

/* Refuses a request that does not wait any more. */
static void waiting_refuse(struct central_thread_core *core, int64_t now_ns, uint32_t node, enum refusal reason) {
    core->out.refused = REQUEST_NONE;
    core->out.action_count = 0;
    central_refuse(&core->out, core->config.pool, node, reason);
    core->config.take(core->config.context, now_ns, &core->out);
}

void central_request(struct central_thread_core *core, int64_t now_ns, const struct request_message *message) {
    struct set_model *m = &core->models[message->place.n];
    if (message->kind == REQUEST_CANCELLED) {
        uint32_t node =
            deadline_queue_remove(&core->waiting, core->config.pool->nodes, 0, message->deadline_ns, message->handle);
        if (node != REQUEST_NONE)
            waiting_refuse(core, now_ns, node, REFUSAL_CANCELLED);
        else if (m->member != CENTRAL_NONE)
            step(core, now_ns,
                 &(struct central_event){.kind = CENTRAL_CANCELLED, .model = m->member, .request = message});
        return;
    }
    CHECK(m->there);
    arrival_rates_roll(&m->rates, now_ns);
    arrival_rates_count(&m->rates, now_ns, message->items, message->deadline_ns - now_ns);
    if (m->member != CENTRAL_NONE) {
        arrive(core, now_ns, m->member, message);
        return;
    }
    uint32_t node = request_pool_get(core->config.pool); /* it waits for an accelerator that runs its model */
    CHECK(node != REQUEST_NONE);                         /* the shell's duty */
    request_node_set(node_of(core, node), message->place.n, message);
    deadline_queue_insert(&core->waiting, core->config.pool->nodes, node);
}

/* A load or an unload is over. Whether the policy is to be told, and of a move of an earlier core. */
static bool move_ended(struct central_thread_core *core, const struct central_ended *ended, bool *old) {
    struct set_accelerator *a = &core->accelerators[ended->accelerator];
    CHECK(a->moves > 0);
    a->moves--;
    core->models[ended->model].moves -= ended->kind != CENTRAL_EMPTY;
    *old = a->old_moves > 0;
    a->old_moves -= *old;
    if (a->void_moves > 0) {
        a->void_moves--;
        return false;
    }
    bool loads = ended->kind == CENTRAL_LOAD;
    if (*pair_of(core, ended->accelerator, ended->model) == (loads ? PAIR_COMES : PAIR_LEAVES))
        pair_set(core, ended->accelerator, ended->model, a->up && ended->done == loads ? PAIR_HERE : PAIR_NONE);
    return a->member != CENTRAL_NONE && core->models[ended->model].member != CENTRAL_NONE && (loads || !*old);
}

/* An accelerator has ended the batches of earlier cores: the models that they may have needed are like others. */
static void held_tell(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator) {
    for (uint32_t i = 0; core->config.limited && i < core->model_count; i++) {
        if (core->model_of[i] == CENTRAL_NONE || *pair_of(core, accelerator, core->model_of[i]) != PAIR_HELD)
            continue;
        pair_set(core, accelerator, core->model_of[i], PAIR_HERE);
        struct central_ended ended = {
            .kind = CENTRAL_LOAD, .accelerator = core->accelerators[accelerator].member, .model = i, .done = true};
        step(core, now_ns,
             &(struct central_event){.kind = CENTRAL_ENDED, .accelerator = ended.accelerator, .ended = &ended});
    }
}

int64_t central_action_ended(struct central_thread_core *core, int64_t now_ns, const struct central_ended *ended,
                             bool sent) {
    struct set_accelerator *a = &core->accelerators[ended->accelerator];
    struct central_ended own = *ended;
    struct central_event over = {.kind = CENTRAL_ENDED, .accelerator = a->member, .ended = &own};
    own.accelerator = a->member;
    own.model = core->models[ended->model].member;
    if (ended->kind != CENTRAL_RUN) {
        bool old;
        if (!move_ended(core, ended, &old))
            return 0;
        own.tag = old ? 0 : own.tag;
        step(core, now_ns, &over);
        return core->out.predicted_ns;
    }
    bool foreign = sent && a->foreign > 0;
    CHECK(a->outstanding > 0 && core->models[ended->model].running > 0);
    a->outstanding--;
    core->models[ended->model].running--;
    if (a->outstanding == 0)
        a->busy_until_ns = now_ns;
    if (foreign)
        a->foreign--;
    else if (a->foreign > a->outstanding) /* the batch was not sent, and the core that decided on it has gone */
        a->foreign = a->outstanding;
    if ((foreign && a->foreign > 0) || a->member == CENTRAL_NONE)
        return 0;
    if (!foreign) {
        step(core, now_ns, &over);
        return core->out.predicted_ns;
    }
    over.kind = CENTRAL_FREE;
    step(core, now_ns, &over);
    held_tell(core, now_ns, ended->accelerator);
    return 0;
}

void central_look(struct central_thread_core *core, int64_t now_ns) {
    for (uint32_t i = 0; core->wake_ns <= now_ns && i < TIMERS_MOST; i++)
        step(core, now_ns, &(struct central_event){.kind = CENTRAL_TIMER});
    while (core->waiting.count > 0 && node_of(core, deadline_queue_first(&core->waiting))->deadline_ns < now_ns)
        waiting_refuse(core, now_ns, deadline_queue_pop(&core->waiting, core->config.pool->nodes), REFUSAL_STRANDED);
}

double central_needed(const struct central_thread_core *core) {
    return core->policy && core->config.ops->needed ? core->config.ops->needed(core->policy) : -1;
}

struct central_moves central_moves(const struct central_thread_core *core) {
    struct central_moves all = core->moves_before;
    if (!core->policy || !core->config.ops->moves)
        return all;
    const struct central_moves *moves = core->config.ops->moves(core->policy);
    all.plans += moves->plans;
    all.places += moves->places;
    all.kept += moves->kept;
    all.requests += moves->requests;
    all.wait_ns += moves->wait_ns;
    all.wait_max_ns = time_later(all.wait_max_ns, moves->wait_max_ns);
    return all;
}

int64_t central_wake_ns(const struct central_thread_core *core) {
    int64_t wake_ns = core->wake_ns < core->change_ns ? core->wake_ns : core->change_ns;
    if (core->waiting.count == 0)
        return wake_ns;
    int64_t late_ns = node_of(core, deadline_queue_first(&core->waiting))->deadline_ns + 1;
    return late_ns < wake_ns ? late_ns : wake_ns;
}
