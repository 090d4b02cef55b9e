/* clockwork.c - Clockwork (Gujarati et al., OSDI 2020), section 5.3: one controller that knows how long everything
 * takes and gives each accelerator only its next few milliseconds of work.
 *
 * Strategies (clockwork_strategy.c) are ordered by their latest start. A group's heap holds a lower bound of it for
 * each model. Time and departures only raise the true value; an arrival sets the bound to INT64_MIN. The bound of the
 * model at the top is computed again until that model stays at the top.
 *
 * A request is refused as soon as no accelerator that has its model, or could load it, can finish it in time, given the
 * work already sent. This is checked when it comes, when a batch is sent, and when its time is up. An accelerator whose
 * batch is overdue is given nothing until it reports. */
#include "sched/policy/clockwork.h"

#include <string.h>

#include "core/util/assert.h"
#include "sched/core/policy.h"

#define RELAX_NS (500 * NS_PER_MS) /* after this time without a run, refusals halve the corrections of the tables */

enum { AHEAD_MS, SIZES, BATCH_MOST, CAPACITY_MS, LEARN, HEADS };
enum { SIZES_ALL, SIZES_POWERS };
static const char *const sizes_words[] = {"all", "powers", NULL};
static const char *const heads_words[] = {"keep", "skip", NULL};
static const struct policy_option clockwork_options[] = {
    {.key = "ahead_ms",
     .help = "an accelerator with less work before it than this is given more",
     .preset = 5,
     .least = 0,
     .most = 1000},
    {.key = "sizes", .help = "sizes of batches: all of them, or 1, 2, 4, ... and the largest", .words = sizes_words},
    {.key = "batch_most",
     .help = "items of a batch at most",
     .whole = true,
     .preset = PROFILE_BATCH_MAX,
     .least = 1,
     .most = PROFILE_BATCH_MAX},
    {.key = "capacity_ms",
     .help = "work that an accelerator is taken to get done in time, when models to load are chosen",
     .preset = 16,
     .least = 0.1,
     .most = 100000},
    {.key = "learn",
     .help = "correct the latencies from measured runs, and what loads take",
     .flag = true,
     .preset = 1},
    {.key = "heads",
     .help = "whether requests before a batch are kept for smaller ones, or dropped as in the authors' program",
     .words = heads_words},
    {0},
};

/* ---- set-up ---- */

static void options_set(struct clockwork *c, const struct policy_options *options) {
    c->ahead_ns = (int64_t)(options->value[AHEAD_MS] * (double)NS_PER_MS);
    c->capacity_ns = options->value[CAPACITY_MS] * (double)NS_PER_MS;
    c->powers = (int)options->value[SIZES] == SIZES_POWERS;
    c->batch_most = (uint32_t)options->value[BATCH_MOST];
    c->learn = options->value[LEARN] != 0;
    c->skip = options->value[HEADS] != 0;
}

static size_t clockwork_bytes(const struct central_config *config) {
    struct clockwork scratch = {0};
    struct arena arena = {NULL, 0};
    options_set(&scratch, config->options);
    arena_take(&arena, sizeof(scratch));
    clockwork_layout(&scratch, &arena, config);
    return arena.used;
}

static void clockwork_init(void *core, const struct central_config *config, struct request_pool *pool) {
    struct clockwork *c = core;
    struct arena arena = {core, 0};
    options_set(c, config->options);
    arena_take(&arena, sizeof(*c));
    c->model_count = config->model_count;
    c->accelerator_count = config->accelerators;
    c->types = config->types;
    c->ctrl_ns = config->ctrl_ns;
    c->data_ns = config->data_ns;
    c->pool = pool;
    clockwork_layout(c, &arena, config);
}

/* ---- when a group is due ---- */

static void group_due(struct clockwork *c, uint32_t g) {
    struct clockwork_group *group = &c->groups[g];
    if (heap_empty(&group->strategies) || heap_empty(&group->free))
        heap_remove(&c->due, g);
    else
        heap_set(&c->due, g, heap_top(&group->free).key - c->ahead_ns);
}

/* Makes the group compute the model's strategies again. */
static void group_look(struct clockwork *c, uint32_t g, uint32_t m) {
    struct heap *strategies = &c->groups[g].strategies;
    if (heap_contains(strategies, m) && strategies->entries[strategies->position[m]].key == INT64_MIN)
        return;
    heap_set(strategies, m, INT64_MIN);
    group_due(c, g);
}

/* Whether the group's accelerators can run the model. */
static bool group_has(const struct clockwork *c, uint32_t group, uint32_t m) {
    if (c->memories)
        return clockwork_place(c, m, group) == PLACE_LOADED;
    return c->models[m].tables[c->groups[group].type] != NULL;
}

/* The groups that may have the model: their count, and the i-th. */
static uint32_t groups_of(const struct clockwork *c, uint32_t m) {
    return c->memories ? c->models[m].places : c->group_count;
}

static uint32_t group_at(const struct clockwork *c, uint32_t m, uint32_t i) {
    return c->memories ? clockwork_site(c, m, i) : i;
}

static void groups_look(struct clockwork *c, uint32_t m) {
    for (uint32_t i = 0; i < groups_of(c, m); i++)
        if (group_has(c, group_at(c, m, i), m))
            group_look(c, group_at(c, m, i), m);
}

/* ---- what can be in time ---- */

/* When the first of the group's accelerators is free. */
static int64_t group_free(const struct clockwork_group *group, int64_t now_ns) {
    return heap_empty(&group->free) ? now_ns : time_later(heap_top(&group->free).key, now_ns);
}

/* How long a request runs alone on the fastest type. */
int64_t clockwork_alone_ns(const struct clockwork *c, uint32_t m, uint32_t items) {
    int64_t least_ns = INT64_MAX / 4;
    for (uint32_t t = 0; t < c->types; t++)
        if (c->models[m].tables[t] && c->models[m].tables[t]->latency_ns[items] < least_ns)
            least_ns = c->models[m].tables[t]->latency_ns[items];
    return least_ns;
}

/* Whether a hopeless request, alone, could be in time by the tables as profiled. If not, the corrections of the tables
 * are not to blame, so such requests do not take them back. */
static bool possible_as_profiled(const struct clockwork *c, uint32_t m, const struct request_node *request,
                                 int64_t now_ns) {
    const struct clockwork_model *model = &c->models[m];
    int64_t left_ns = request->deadline_ns - now_ns - clockwork_delay(c, request->items);
    for (uint32_t t = 0; t < c->types; t++)
        if (model->rolling[t] && rolling_profiled_ns(model->rolling[t], request->items) <= left_ns)
            return true;
    return false;
}

/* Whether no accelerator can finish the request in time, as far as is known now. */
static bool hopeless(const struct clockwork *c, uint32_t m, const struct request_node *request, int64_t now_ns) {
    const struct clockwork_model *model = &c->models[m];
    int64_t arrives_ns = now_ns + clockwork_delay(c, request->items);
    if (arrives_ns + clockwork_alone_ns(c, m, request->items) > request->deadline_ns)
        return true;
    if (c->memories && model->places == 0) {
        int64_t loaded_ns = clockwork_load_earliest(c, m, now_ns);
        return loaded_ns + clockwork_delay(c, request->items) + clockwork_alone_ns(c, m, request->items) >
               request->deadline_ns;
    }
    bool anywhere = false;
    for (uint32_t i = 0; i < groups_of(c, m); i++) {
        uint32_t g = group_at(c, m, i);
        if (c->memories && clockwork_place(c, m, g) == PLACE_LOADING)
            return false;
        if (!group_has(c, g, m))
            continue;
        int64_t start_ns = time_later(arrives_ns, group_free(&c->groups[g], now_ns));
        if (start_ns + model->tables[c->groups[g].type]->latency_ns[request->items] <= request->deadline_ns)
            return false;
        anywhere = true;
    }
    return anywhere;
}

/* Sets when to check whether the model's first request is hopeless. */
static void expiry_set(struct clockwork *c, uint32_t m) {
    uint32_t head = deadline_queue_first(&c->models[m].queue);
    if (head == REQUEST_NONE) {
        heap_remove(&c->expiry, m);
        return;
    }
    const struct request_node *request = clockwork_node(c, head);
    int64_t latest_ns =
        request->deadline_ns - clockwork_alone_ns(c, m, request->items) - clockwork_delay(c, request->items);
    if (c->memories && c->models[m].places == 0)
        latest_ns -= clockwork_load_awaited(c, m);
    heap_set(&c->expiry, m, latest_ns);
}

/* The queue of the model shrank. */
static void queue_changed(struct clockwork *c, uint32_t m, int64_t now_ns) {
    for (uint32_t i = 0; !c->models[m].queue.count && i < groups_of(c, m); i++) {
        uint32_t g = group_at(c, m, i);
        if (!heap_contains(&c->groups[g].strategies, m))
            continue;
        heap_remove(&c->groups[g].strategies, m);
        group_due(c, g);
    }
    expiry_set(c, m);
    if (c->memories)
        clockwork_load_update(c, m, now_ns);
}

/* Relaxes the tables if the model has not run for long while its requests were refused: they may be too slow. */
static void tables_relax(struct clockwork *c, uint32_t m, int64_t now_ns) {
    struct clockwork_model *model = &c->models[m];
    if (model->ran_ns == TIME_NEVER)
        model->ran_ns = now_ns;
    if (now_ns - model->ran_ns < RELAX_NS)
        return;
    model->ran_ns = now_ns;
    for (uint32_t t = 0; t < c->types; t++)
        if (model->rolling[t])
            rolling_relax(model->rolling[t], model->tables[t]);
    expiry_set(c, m);
}

/* Gives up a request that is in no queue; `came`: it has just come. */
static void give_up(struct clockwork *c, uint32_t m, uint32_t node, int64_t now_ns, bool came,
                    struct central_output *out) {
    const struct request_node *request = clockwork_node(c, node);
    struct central_why why = {.cause = CAUSE_WAITED};
    if (request->items >= 1 && request->items <= c->models[m].batch_max) {
        why.run_ns = clockwork_delay(c, request->items) + clockwork_alone_ns(c, m, request->items);
        why.cause = came && now_ns + why.run_ns > request->deadline_ns ? CAUSE_SHORT : CAUSE_WAITED;
    }
    central_give_up(out, c->pool, node, &why);
}

/* Refuses requests, from the head on, that can no longer be in time. False if there was none. */
static bool queue_prune(struct clockwork *c, uint32_t m, int64_t now_ns, struct central_output *out) {
    struct clockwork_model *model = &c->models[m];
    bool any = false;
    while (model->queue.count && hopeless(c, m, clockwork_node(c, deadline_queue_first(&model->queue)), now_ns)) {
        uint32_t node = deadline_queue_pop(&model->queue, c->pool->nodes);
        give_up(c, m, node, now_ns, false, out);
        any = true;
    }
    if (any) {
        tables_relax(c, m, now_ns);
        queue_changed(c, m, now_ns);
    }
    return any;
}

void clockwork_placed(struct clockwork *c, uint32_t model, uint32_t accelerator) {
    if (group_has(c, accelerator, model) && c->models[model].queue.count) {
        group_look(c, accelerator, model);
    } else {
        heap_remove(&c->groups[accelerator].strategies, model);
        group_due(c, accelerator);
    }
    expiry_set(c, model);
}

/* Computes when an accelerator becomes free, from the batches that it has not ended. */
static void accelerator_place(struct clockwork *c, uint32_t a, int64_t now_ns) {
    struct clockwork_accelerator *accelerator = &c->accelerators[a];
    struct clockwork_group *group = &c->groups[accelerator->group];
    int64_t free_ns = 0;
    for (uint32_t i = 0; i < accelerator->sent_count; i++) {
        const struct clockwork_sent *sent = &accelerator->sent[(accelerator->sent_first + i) % SENT_MAX];
        free_ns = time_later(time_later(free_ns, now_ns), sent->arrives_ns) + sent->run_ns;
    }
    if (accelerator->up && accelerator->sent_count < SENT_MAX)
        heap_set(&group->free, accelerator->member, free_ns);
    else
        heap_remove(&group->free, accelerator->member);
    group_due(c, accelerator->group);
}

/* ---- strategies ---- */

/* The strategy of the group with the earliest latest start; *m is its model. */
static struct clockwork_strategy group_strategy(struct clockwork *c, uint32_t g, int64_t now_ns, int64_t free_ns,
                                                uint32_t *m, struct central_output *out) {
    struct clockwork_group *group = &c->groups[g];
    while (!heap_empty(&group->strategies)) {
        *m = heap_top(&group->strategies).item;
        struct clockwork_strategy strategy = clockwork_strategy_find(c, group->type, *m, now_ns, free_ns);
        if (strategy.start == REQUEST_NONE) { /* none for this group, perhaps for others */
            heap_remove(&group->strategies, *m);
            queue_prune(c, *m, now_ns, out);
            continue;
        }
        heap_set(&group->strategies, *m, strategy.latest_ns);
        if (heap_top(&group->strategies).item == *m)
            return strategy;
    }
    return (struct clockwork_strategy){.start = REQUEST_NONE};
}

/* ---- batches ---- */

struct central_action *clockwork_action(struct central_output *out) {
    return out->action_count < CENTRAL_ACTIONS_MAX ? &out->actions[out->action_count++] : NULL;
}

/* Sends the strategy's requests, which leave the queue, as a batch. */
static void batch_send(struct clockwork *c, uint32_t a, uint32_t m, const struct clockwork_strategy *strategy,
                       int64_t now_ns, struct central_action *action) {
    struct clockwork_accelerator *accelerator = &c->accelerators[a];
    struct clockwork_model *model = &c->models[m];
    struct request_node *nodes = c->pool->nodes;
    uint32_t last = REQUEST_NONE;
    int64_t run_ns = model->tables[accelerator->type]->latency_ns[strategy->items];
    *action = (struct central_action){
        .kind = CENTRAL_RUN,
        .accelerator = a,
        .model = m,
        .tag = c->memories ? c->memories[a].epoch : 0,
        .earliest_ns = INT64_MIN,
        .latest_ns = clockwork_node(c, strategy->start)->deadline_ns - run_ns,
    };
    for (uint32_t node = strategy->start, next; action->items < strategy->items; node = next) {
        CHECK(node != REQUEST_NONE);
        next = deadline_queue_next(nodes, node);
        if (action->items + nodes[node].items > strategy->items)
            continue;
        if (node == deadline_queue_first(&model->queue))
            deadline_queue_pop(&model->queue, nodes);
        else
            deadline_queue_remove(&model->queue, nodes, 0, nodes[node].deadline_ns, nodes[node].handle);
        action->items += nodes[node].items;
        action->requests++;
        if (last == REQUEST_NONE)
            action->first = node;
        else
            nodes[last].next = node;
        last = node;
    }
    nodes[last].next = REQUEST_NONE;
    accelerator->sent[(accelerator->sent_first + accelerator->sent_count++) % SENT_MAX] =
        (struct clockwork_sent){now_ns + clockwork_delay(c, action->items), run_ns};
    if (c->memories)
        pages_hold(&c->memories[a].pages, m);
    queue_changed(c, m, now_ns);
}

/* Gives the group's first accelerator a batch, if it takes one. */
static void group_schedule(struct clockwork *c, uint32_t g, int64_t now_ns, struct central_output *out) {
    struct clockwork_group *group = &c->groups[g];
    struct heap_entry first = heap_top(&group->free);
    uint32_t a = c->members[group->first + first.item], m;
    if (c->accelerators[a].sent_count && first.key < now_ns) { /* overdue: nothing more until it reports */
        heap_remove(&group->free, first.item);
        return;
    }
    int64_t free_ns = time_later(first.key, now_ns);
    struct clockwork_strategy strategy = group_strategy(c, g, now_ns, free_ns, &m, out);
    if (strategy.start == REQUEST_NONE)
        return;
    struct deadline_queue *queue = &c->models[m].queue;
    while (c->skip && deadline_queue_first(queue) != strategy.start)
        central_refuse(out, c->pool, deadline_queue_pop(queue, c->pool->nodes), REFUSAL_DEADLINE);
    int64_t end_ns = time_later(free_ns, now_ns + clockwork_delay(c, strategy.items)) +
                     c->models[m].tables[group->type]->latency_ns[strategy.items];
    batch_send(c, a, m, &strategy, now_ns, clockwork_action(out));
    if (c->accelerators[a].sent_count == SENT_MAX)
        heap_remove(&group->free, first.item);
    else
        heap_set(&group->free, first.item, end_ns);
}

/* Refuses requests that have become hopeless by time, or by the batches just sent. */
static void expired_refuse(struct clockwork *c, int64_t now_ns, struct central_output *out) {
    int64_t from_ns = now_ns;
    if (c->group_count == 1 && !c->memories)
        from_ns = time_later(now_ns, group_free(&c->groups[0], now_ns) - clockwork_delay(c, 1));
    while (!heap_empty(&c->expiry) && heap_top(&c->expiry).key < from_ns) {
        const struct heap_entry first = heap_top(&c->expiry);
        if (queue_prune(c, first.item, now_ns, out))
            continue;
        expiry_set(c, first.item); /* loads may be expected to take less than when it was set */
        if (heap_top(&c->expiry).item == first.item && heap_top(&c->expiry).key == first.key)
            return;
    }
}

/* ---- events ---- */

static void request_arrived(struct clockwork *c, int64_t now_ns, uint32_t m, const struct request_message *message,
                            struct central_output *out) {
    uint32_t node = request_pool_get(c->pool);
    CHECK(node != REQUEST_NONE); /* the shell's duty */
    struct clockwork_model *model = &c->models[m];
    struct request_node *request = clockwork_node(c, node);
    request_node_set(request, m, message);
    if (message->items < 1 || message->items > model->batch_max) {
        give_up(c, m, node, now_ns, true, out);
        return;
    }
    model->items += message->items;
    if (hopeless(c, m, request, now_ns)) {
        if (possible_as_profiled(c, m, request, now_ns))
            tables_relax(c, m, now_ns);
        give_up(c, m, node, now_ns, true, out);
        return;
    }
    deadline_queue_insert(&model->queue, c->pool->nodes, node);
    groups_look(c, m);
    if (deadline_queue_first(&model->queue) == node)
        expiry_set(c, m);
    if (c->memories)
        clockwork_load_update(c, m, now_ns);
}

static void request_cancelled(struct clockwork *c, int64_t now_ns, uint32_t m, const struct request_message *message,
                              struct central_output *out) {
    struct clockwork_model *model = &c->models[m];
    uint32_t node = deadline_queue_remove(&model->queue, c->pool->nodes, 0, message->deadline_ns, message->handle);
    if (node == REQUEST_NONE)
        return; /* already in a batch, or ended */
    central_refuse(out, c->pool, node, REFUSAL_CANCELLED);
    queue_changed(c, m, now_ns);
}

/* An accelerator became free earlier than expected, so models that were too late for it may be in time now. (With one
 * group there are no such models: requests too late for the first free accelerator have been refused.) */
static void group_look_again(struct clockwork *c, uint32_t g) {
    for (uint32_t i = 0; c->group_count > 1 && i < c->expiry.count; i++) {
        uint32_t m = c->expiry.entries[i].item;
        if (group_has(c, g, m) && !heap_contains(&c->groups[g].strategies, m))
            group_look(c, g, m);
    }
}

static void batch_ended(struct clockwork *c, int64_t now_ns, const struct central_ended *ended,
                        struct central_output *out) {
    struct clockwork_accelerator *accelerator = &c->accelerators[ended->accelerator];
    struct clockwork_model *model = &c->models[ended->model];
    uint8_t type = accelerator->type;
    CHECK(accelerator->sent_count > 0);
    int64_t expected_ns = accelerator->sent[accelerator->sent_first].run_ns;
    accelerator->sent_first = (accelerator->sent_first + 1) % SENT_MAX;
    accelerator->sent_count--;
    accelerator_place(c, ended->accelerator, now_ns);
    if (c->memories && ended->tag == c->memories[ended->accelerator].epoch)
        pages_release(&c->memories[ended->accelerator].pages, ended->model);
    if (!ended->done || ended->run_ns < expected_ns)
        group_look_again(c, accelerator->group);
    if (!ended->done)
        return;
    out->predicted_ns = expected_ns;
    model->ran_ns = now_ns;
    if (!model->rolling[type] ||
        !rolling_add(model->rolling[type], ended->accelerator, ended->items, ended->run_ns, model->tables[type]))
        return;
    if (model->queue.count) {
        groups_look(c, ended->model);
        expiry_set(c, ended->model);
    }
}

/* What another core sent counts as one batch, the accelerator's first. */
static void accelerator_busy(struct clockwork *c, int64_t now_ns, uint32_t a, int64_t until_ns) {
    struct clockwork_accelerator *accelerator = &c->accelerators[a];
    CHECK_EQ(accelerator->sent_count, 0);
    accelerator->sent[accelerator->sent_first] = (struct clockwork_sent){now_ns, until_ns - now_ns};
    accelerator->sent_count = 1;
    accelerator_place(c, a, now_ns);
}

static void accelerator_free(struct clockwork *c, int64_t now_ns, uint32_t a) {
    struct clockwork_accelerator *accelerator = &c->accelerators[a];
    CHECK(accelerator->sent_count > 0);
    accelerator->sent_first = (accelerator->sent_first + 1) % SENT_MAX;
    accelerator->sent_count--;
    accelerator_place(c, a, now_ns);
    group_look_again(c, accelerator->group);
}

static int64_t wake_time(const struct clockwork *c) {
    int64_t wake_ns = heap_empty(&c->due) ? TIME_NEVER : heap_top(&c->due).key;
    if (!heap_empty(&c->expiry) && heap_top(&c->expiry).key + 1 < wake_ns)
        wake_ns = heap_top(&c->expiry).key + 1;
    if (c->memories && c->load_due_ns < wake_ns)
        wake_ns = c->load_due_ns;
    return wake_ns < clockwork_needed_due_ns(c) ? wake_ns : clockwork_needed_due_ns(c);
}

static void clockwork_step(void *core, int64_t now_ns, const struct central_event *event, struct central_output *out) {
    struct clockwork *c = core;
    out->refused = REQUEST_NONE;
    out->action_count = 0;
    switch (event->kind) {
    case CENTRAL_ARRIVED:
        request_arrived(c, now_ns, event->model, event->request, out);
        break;
    case CENTRAL_CANCELLED:
        request_cancelled(c, now_ns, event->model, event->request, out);
        break;
    case CENTRAL_ENDED:
        if (event->ended->kind == CENTRAL_RUN)
            batch_ended(c, now_ns, event->ended, out);
        else
            clockwork_load_ended(c, now_ns, event->ended, out);
        break;
    case CENTRAL_UP:
    case CENTRAL_DOWN:
        c->accelerators[event->accelerator].up = event->kind == CENTRAL_UP;
        if (c->memories)
            clockwork_load_reset(c, now_ns, event->accelerator, event->kind == CENTRAL_UP);
        accelerator_place(c, event->accelerator, now_ns);
        break;
    case CENTRAL_HAS:
        clockwork_load_has(c, now_ns, event->accelerator, event->model, event->comes);
        break;
    case CENTRAL_BUSY:
        accelerator_busy(c, now_ns, event->accelerator, event->until_ns);
        break;
    case CENTRAL_FREE:
        accelerator_free(c, now_ns, event->accelerator);
        break;
    case CENTRAL_TIMER:
        if (c->memories && !c->begun)
            clockwork_load_begin(c, now_ns);
        break;
    }
    while (!heap_empty(&c->due) && heap_top(&c->due).key <= now_ns && out->action_count < CENTRAL_ACTIONS_MAX) {
        uint32_t g = heap_top(&c->due).item;
        group_schedule(c, g, now_ns, out);
        group_due(c, g);
    }
    if (c->memories)
        clockwork_load_schedule(c, now_ns, out);
    expired_refuse(c, now_ns, out);
    clockwork_needed_look(c, now_ns);
    out->wake_ns = wake_time(c);
}

static double clockwork_needed(const void *core) {
    return ((const struct clockwork *)core)->needed;
}

static const struct central_ops clockwork_ops = {
    .bytes = clockwork_bytes,
    .init = clockwork_init,
    .step = clockwork_step,
    .needed = clockwork_needed,
    .uses_memory = true,
};

const struct policy_ops policy_clockwork = {
    .name = "clockwork",
    .summary = "a controller that plans a few milliseconds ahead, and loads models on demand (Clockwork)",
    .options = clockwork_options,
    .central = &clockwork_ops,
};
