/* nexus.c - the policy `nexus` (Shen et al., SOSP 2019): sessions are assigned to accelerators epoch by epoch,
 * frontends send requests there independently of each other, and each accelerator runs its sessions' batches in
 * turn. */
#include <string.h>

#include "core/util/assert.h"
#include "sched/policy/nexus_state.h"

static const char *const drops[] = {"early", "lazy", NULL}, *const batches[] = {"gathered", "planned", NULL},
                         *const planners[] = {"squishy", "oblivious", NULL},
                         *const placements[] = {[SQUISHY_KEPT] = "kept",
                                                [SQUISHY_LOCAL] = "local",
                                                [SQUISHY_RANDOM] = "random",
                                                [SQUISHY_TURNS] = "round_robin",
                                                NULL};

static const struct policy_option nexus_options[] = {
    [NEXUS_FRONTEND_COUNT] = {.key = "frontends",
                              .whole = true,
                              .help = "how many send requests to accelerators, each on its own; 0: those through which "
                                      "requests come, live",
                              .preset = 1,
                              .least = 0,
                              .most = NEXUS_FRONTENDS_MAX},
    [NEXUS_DROP] = {.key = "drop", .help = "what makes way when not all can be in time", .words = drops},
    [NEXUS_BATCH] = {.key = "batch", .help = "most items of a batch: all that wait, or the plan's", .words = batches},
    [NEXUS_EPOCH_S] = {.key = "epoch_s", .help = "time between two plans", .preset = 30, .least = 0.1, .most = 86400},
    [NEXUS_EPOCH_MIN_S] =
        {.key = "epoch_min_s", .help = "and the least, when rates change", .preset = 10, .least = 0.1, .most = 86400},
    [NEXUS_PLAN] = {.key = "plan", .help = "which accelerators sessions are bound to", .words = planners},
    [NEXUS_PLACEMENT] = {.key = "placement", .help = "which of them a new plan's are", .words = placements},
    {.key = NULL},
};

void nexus_due(struct nexus *n, uint32_t a) {
    if (n->accelerator[a].due)
        return;
    n->accelerator[a].due = true;
    n->due[(n->due_head + n->due_count++) % n->accelerators] = a;
}

/* ---- memory ---- */

/* Lays out all arrays of the core, or only counts their bytes. */
static void layout(struct nexus *n, struct arena *arena, const struct central_config *c) {
    /* At most one session saturates an accelerator. A session has one residue on each type, or, if the plan has no
     * place for it, one place where it is forced to be. The places of an old plan and of a new one exist together for a
     * moment. */
    uint32_t places_max = 2 * (c->accelerators + c->model_count * (c->types + 1));
    uint32_t drawn = (uint32_t)c->options->value[NEXUS_FRONTEND_COUNT];
    uint32_t frontends = drawn ? drawn : NEXUS_FRONTENDS_MAX;
    void *model = arena_take(arena, c->model_count * sizeof(*n->model));
    void *accelerator = arena_take(arena, c->accelerators * sizeof(*n->accelerator));
    void *place = arena_take(arena, places_max * sizeof(*n->place));
    void *credit = arena_take(arena, (size_t)frontends * places_max * sizeof(*n->credit));
    void *loaded = arena_take(arena, c->memory_bytes ? (size_t)c->accelerators * c->model_count : 0);
    void *due = arena_take(arena, c->accelerators * sizeof(*n->due));
    void *sessions = arena_take(arena, c->model_count * sizeof(*n->sessions));
    if (arena->base) {
        *n = (struct nexus){
            .models = c->model_count,
            .accelerators = c->accelerators,
            .types = c->types,
            .frontends = frontends,
            .frontends_real = drawn == 0,
            .places_max = places_max,
            .model = model,
            .accelerator = accelerator,
            .place = place,
            .credit = credit,
            .loaded = loaded,
            .due = due,
            .sessions = sessions,
        };
    }
    heap_take(arena, &n->wakes, c->accelerators);
    for (uint32_t t = 0; t < c->types; t++) {
        void *fit = arena_take(arena, squishy_fit_bytes(c->accelerators, c->model_count));
        if (!arena->base)
            continue;
        uint64_t least_bytes = 0; /* the plan counts with the smallest memory of the type, and its largest pages */
        n->page_bytes[t] = 1;
        for (uint32_t a = 0; c->memory_bytes && a < c->accelerators; a++) {
            uint64_t page_bytes = central_page_bytes(c, a);
            if (c->accelerator_type[a] != t)
                continue;
            least_bytes = !least_bytes || c->memory_bytes[a] < least_bytes ? c->memory_bytes[a] : least_bytes;
            n->page_bytes[t] = page_bytes > n->page_bytes[t] ? page_bytes : n->page_bytes[t];
        }
        squishy_fit_init(&n->fit[t], fit, c->accelerators, c->model_count, least_bytes);
        n->fit[t].placing = (enum squishy_placing)c->options->value[NEXUS_PLACEMENT];
        rng_seed(&n->fit[t].rng, c->seed);
    }
    for (uint32_t m = 0; m < c->model_count; m++)
        for (uint32_t t = 0; t < c->types; t++) {
            const struct profile *profile = c->models[m].profiles[t];
            size_t bytes = profile ? profile_bytes(profile->batch_max) : 0;
            struct profile *copy = arena_take(arena, bytes);
            if (arena->base)
                n->model[m].profiles[t] = profile ? memcpy(copy, profile, bytes) : NULL;
        }
}

static size_t nexus_bytes(const struct central_config *config) {
    struct nexus scratch;
    struct arena arena = {NULL, 0};
    arena_take(&arena, sizeof(scratch));
    layout(&scratch, &arena, config);
    return arena.used;
}

/* ---- the beginning ---- */

static void nexus_init(void *core, const struct central_config *c, struct request_pool *pool) {
    struct nexus *n = core;
    struct arena arena = {core, 0};
    arena_take(&arena, sizeof(*n));
    layout(n, &arena, c);
    n->drop = (enum nexus_drop)c->options->value[NEXUS_DROP];
    n->batch = (enum nexus_batch)c->options->value[NEXUS_BATCH];
    n->plan = (enum nexus_planner)c->options->value[NEXUS_PLAN];
    n->epoch_ns = (int64_t)(c->options->value[NEXUS_EPOCH_S] * (double)NS_PER_S);
    n->epoch_min_ns = (int64_t)(c->options->value[NEXUS_EPOCH_MIN_S] * (double)NS_PER_S);
    n->ctrl_ns = c->ctrl_ns;
    n->data_ns = c->data_ns;
    n->limited = c->memory_bytes != NULL;
    n->pool = pool;
    rng_seed(&n->rng, c->seed);
    for (uint32_t p = 0; p < n->places_max; p++)
        n->place[p].next_of_model = p + 1 < n->places_max ? p + 1 : NEXUS_NONE;
    for (uint32_t m = 0; m < c->model_count; m++) {
        struct nexus_model *model = &n->model[m];
        model->batch_max = c->models[m].batch_max;
        model->slo_ns = c->models[m].slo_ns;
        model->weights_bytes = c->models[m].weights_bytes;
        model->places = NEXUS_NONE;
        model->rate = c->models[m].rate_hint;
        n->rates_known |= model->rate > 0;
    }
    for (uint32_t m = 0; !n->rates_known && m < c->model_count; m++)
        n->model[m].rate = 1; /* all the same, until the first second is over */
    n->needed = c->accelerators;
    for (uint32_t a = 0; a < c->accelerators; a++) {
        n->accelerator[a] = (struct nexus_accelerator){
            .type = c->accelerator_type[a],
            .up = true,
            .places = NEXUS_NONE,
            .turn = NEXUS_NONE,
            .memory_bytes = c->memory_bytes ? c->memory_bytes[a] : 0,
            .page_bytes = central_page_bytes(c, a),
        };
        for (uint32_t t = 0; t < c->types; t++)
            if (t != c->accelerator_type[a])
                squishy_usable_set(&n->fit[t].plan, a, false);
    }
}

/* ---- events ---- */

/* Whether some type could finish a request in time if one of its accelerators were free now. */
static bool is_possible(const struct nexus *n, int64_t now_ns, uint32_t m, const struct request_message *message) {
    const struct nexus_model *model = &n->model[m];
    int64_t left_ns = message->deadline_ns - now_ns - nexus_delay_ns(n, message->items);
    if (message->items < 1 || message->items > model->batch_max)
        return false;
    for (uint32_t t = 0; t < n->types; t++)
        if (model->profiles[t] && model->profiles[t]->latency_ns[message->items] <= left_ns)
            return true;
    return false;
}

static void request_arrived(struct nexus *n, int64_t now_ns, uint32_t m, const struct request_message *message,
                            struct central_output *out) {
    uint32_t node = request_pool_get(n->pool);
    CHECK(node != REQUEST_NONE); /* the shell's duty */
    request_node_set(nexus_node(n, node), m, message);
    if (!is_possible(n, now_ns, m, message)) { /* no plan could serve it, so it does not count for any */
        central_give_up(out, n->pool, node, &(struct central_why){.cause = CAUSE_SHORT});
        return;
    }
    nexus_plan_arrival(n, now_ns, m, message->items, out);
    nexus_route(n, now_ns, m, node, out);
}

static void request_cancelled(struct nexus *n, uint32_t m, const struct request_message *message,
                              struct central_output *out) {
    for (uint32_t p = n->model[m].places; p != NEXUS_NONE; p = n->place[p].next_of_model) {
        uint32_t node =
            deadline_queue_remove(&n->place[p].queue, n->pool->nodes, 0, message->deadline_ns, message->handle);
        if (node != REQUEST_NONE) {
            central_refuse(out, n->pool, node, REFUSAL_CANCELLED);
            return;
        }
    }
}

/* An accelerator has come or gone: makes a plan at once, without waiting for the end of the epoch. Requests that wait
 * for an accelerator that leaves go where the new plan has their model. */
static void accelerator_set(struct nexus *n, int64_t now_ns, uint32_t a, bool up, struct central_output *out) {
    struct nexus_accelerator *accelerator = &n->accelerator[a];
    accelerator->up = up;
    squishy_usable_set(&n->fit[accelerator->type].plan, a, up);
    if (!up) {
        heap_remove(&n->wakes, a);
        for (uint32_t m = 0; n->limited && m < n->models; m++)
            n->loaded[(size_t)a * n->models + m] = NEXUS_NOT_LOADED;
        accelerator->bytes_taken = 0;
    }
    nexus_plan_epoch(n, now_ns, out);
    while (!up && accelerator->places != NEXUS_NONE)
        nexus_place_end(n, now_ns, accelerator->places, out);
}

/* What another core sent counts as one batch, the accelerator's first. */
static void accelerator_busy(struct nexus *n, int64_t now_ns, uint32_t a, int64_t until_ns) {
    struct nexus_accelerator *accelerator = &n->accelerator[a];
    uint32_t slot = accelerator->head;
    CHECK_EQ(accelerator->in_flight, 0);
    accelerator->in_flight = 1;
    accelerator->in_flight_model[slot] = NEXUS_NONE;
    accelerator->in_flight_ns[slot] = until_ns - now_ns;
    accelerator->arrives_ns[slot] = now_ns;
    accelerator->free_ns = until_ns;
}

static int64_t wake_ns(const struct nexus *n, int64_t now_ns) {
    int64_t plan_ns = nexus_plan_wake_ns(n), look_ns = heap_empty(&n->wakes) ? TIME_NEVER : heap_top(&n->wakes).key;
    if (n->due_count)
        return now_ns;
    return plan_ns < look_ns ? plan_ns : look_ns;
}

static void nexus_step(void *core, int64_t now_ns, const struct central_event *event, struct central_output *out) {
    struct nexus *n = core;
    out->refused = REQUEST_NONE;
    out->action_count = 0;
    if (event->kind == CENTRAL_HAS) { /* nothing is planned yet */
        nexus_has(n, event->accelerator, event->model, event->comes);
        out->wake_ns = now_ns;
        return;
    }
    if (!n->started) {
        n->started = true;
        nexus_plan_epoch(n, now_ns, out);
    }
    switch (event->kind) {
    case CENTRAL_ARRIVED:
        request_arrived(n, now_ns, event->model, event->request, out);
        break;
    case CENTRAL_CANCELLED:
        request_cancelled(n, event->model, event->request, out);
        break;
    case CENTRAL_ENDED:
        nexus_ended(n, now_ns, event->ended);
        break;
    case CENTRAL_UP:
    case CENTRAL_DOWN:
        accelerator_set(n, now_ns, event->accelerator, event->kind == CENTRAL_UP, out);
        break;
    case CENTRAL_HAS:
        break;
    case CENTRAL_BUSY:
        accelerator_busy(n, now_ns, event->accelerator, event->until_ns);
        break;
    case CENTRAL_FREE:
        nexus_freed(n, now_ns, event->accelerator);
        break;
    case CENTRAL_TIMER:
        break;
    }
    while (!heap_empty(&n->wakes) && heap_top(&n->wakes).key <= now_ns) {
        uint32_t a = heap_top(&n->wakes).item;
        heap_remove(&n->wakes, a);
        nexus_due(n, a);
    }
    nexus_plan_look(n, now_ns, out);
    /* batches of the accelerators to which something happened, until the output is full */
    while (n->due_count > 0 && nexus_dispatch(n, now_ns, n->due[n->due_head], out)) {
        n->accelerator[n->due[n->due_head]].due = false;
        n->due_head = (n->due_head + 1) % n->accelerators;
        n->due_count--;
    }
    out->wake_ns = wake_ns(n, now_ns);
}

static double nexus_needed(const void *core) {
    return ((const struct nexus *)core)->needed;
}

static const struct central_moves *nexus_moves(const void *core) {
    return &((const struct nexus *)core)->moves;
}

static const struct central_ops nexus_central = {
    .bytes = nexus_bytes,
    .init = nexus_init,
    .step = nexus_step,
    .needed = nexus_needed,
    .moves = nexus_moves,
    .uses_memory = true,
};

const struct policy_ops policy_nexus = {
    .name = "nexus",
    .summary = "sessions bound to accelerators by squishy bin packing, duty cycles (Nexus)",
    .options = nexus_options,
    .central = &nexus_central,
};
