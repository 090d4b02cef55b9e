/* kairos.c - queries of different sizes on a pool of different instances (Kairos, HPDC '23, section 5.1).
 *
 * A query is one request; its items are its batch, and queries are never batched together. An instance serves one query
 * at a time; the others wait here, oldest first. Whenever a query comes or an instance becomes free, a scheme's round
 * gives waiting queries to idle instances. kairos_matching.c is Kairos' own scheme; kairos_schemes.c has those that it
 * was compared with. Latencies are learned from the queries that ran. */
#include "sched/policy/kairos.h"

#include "core/util/assert.h"

static const char *const scheme_words[] = {"kairos", "ribbon", "drs", "clkwrk", "oracle", NULL};
static kairos_round *const scheme_rounds[] = {
    kairos_round_matching, kairos_round_ribbon, kairos_round_drs, kairos_round_clkwrk, kairos_round_oracle,
};
static const char *const late_words[] = {"refuse", "serve", NULL};
static const char *const start_words[] = {"profile", "nothing", NULL};

static const struct policy_option kairos_options[] = {
    [KAIROS_SCHEME] = {.key = "scheme", .words = scheme_words, .help = "how queries are given to instances"},
    [KAIROS_LATE] = {.key = "late",
                     .words = late_words,
                     .help = "refuse what no instance can finish in time, or serve it all the same (as published)"},
    [KAIROS_START] = {.key = "start", .words = start_words, .help = "what is known of latencies at first"},
    [KAIROS_GUARD] = {.key = "guard",
                      .preset = 0.98,
                      .least = 0.01,
                      .most = 1,
                      .help = "share of the SLO that a pair may take before it counts as missing it"},
    [KAIROS_PENALTY] = {.key = "penalty",
                        .preset = 10,
                        .least = 0,
                        .most = 10,
                        .help = "SLOs added to the cost of a pair that misses it"},
    [KAIROS_WINDOW] = {.key = "window",
                       .preset = 2,
                       .least = 0.01,
                       .most = 1000,
                       .help = "queries looked at in a round, oldest first, for each instance (at most 256 in all)"},
    [KAIROS_THRESHOLD] = {.key = "threshold",
                          .whole = true,
                          .preset = 0,
                          .least = 0,
                          .most = 1e6,
                          .help = "scheme drs: larger queries go to the base type only, the others to the other types "
                                  "only; 0: found by hill climbing"},
    [KAIROS_CLIMB] = {.key = "climb_queries",
                      .whole = true,
                      .preset = 1000,
                      .least = 1,
                      .most = 1e6,
                      .help = "scheme drs: queries of a model between two steps of the hill climbing"},
    [KAIROS_NOISE] =
        {.key = "noise",
         .preset = 0,
         .least = 0,
         .most = 1,
         .help =
             "standard deviation of a Gaussian error of what each query is expected to take on each type, as a share "
             "of it"},
    [KAIROS_BUDGET] = {.key = "budget",
                       .preset = 0,
                       .least = 0,
                       .most = 1e6,
                       .help = "dollars an hour for which the pool is chosen again while it serves; 0: it is not"},
    {0},
};

/* ---- events ---- */

/* The least time that some type in service takes for a query; INT64_MAX: none runs its model. */
static int64_t span_least(const struct kairos *k, uint32_t node) {
    const struct kairos_model *model = &k->models[kairos_model_of(k, node)];
    int64_t least_ns = INT64_MAX;
    for (uint32_t t = 0; t < k->types; t++) {
        if (!model->runs_on[t] || !k->up_count[t])
            continue;
        int64_t span_ns = kairos_span_ns(k, node, t);
        if (span_ns < least_ns)
            least_ns = span_ns;
    }
    return least_ns;
}

/* Gives up a query that is in no queue, and came at `came_ns`. */
static void give_up(struct kairos *k, uint32_t node, int64_t came_ns, struct central_output *out) {
    int64_t span_ns = span_least(k, node);
    struct central_why why = {.cause = CAUSE_WAITED};
    if (span_ns < INT64_MAX) {
        why.run_ns = span_ns;
        why.cause = came_ns + span_ns > kairos_node(k, node)->deadline_ns ? CAUSE_SHORT : CAUSE_WAITED;
    }
    central_give_up(out, k->pool, node, &why);
}

static void give_up_waiting(struct kairos *k, uint32_t node, struct central_output *out) {
    give_up(k, node, kairos_node(k, node)->arrival_ns, out);
    kairos_climb_count(k, kairos_model_of(k, node), true);
}

bool kairos_run(struct kairos *k, int64_t now_ns, struct kairos_queue *queue, uint32_t node, uint32_t index,
                struct central_output *out) {
    if (out->action_count == CENTRAL_ACTIONS_MAX)
        return false;
    struct request_node *request = kairos_node(k, node);
    struct kairos_instance *instance = &k->instances[index];
    if (queue == &instance->queue)
        kairos_instance_remove(k, instance, node);
    else
        kairos_queue_remove(k, queue, node);
    int64_t end_ns = now_ns + kairos_span_ns(k, node, instance->type);
    if (k->late_refused && end_ns > request->deadline_ns) {
        give_up_waiting(k, node, out);
        return true;
    }
    request->next = REQUEST_NONE;
    out->actions[out->action_count++] = (struct central_action){
        .kind = CENTRAL_RUN,
        .accelerator = index,
        .model = kairos_model_of(k, node),
        .tag = (uint64_t)request->deadline_ns,
        .earliest_ns = INT64_MIN,
        .latest_ns = TIME_NEVER,
        .first = node,
        .requests = 1,
        .items = request->items,
    };
    instance->busy = true;
    instance->free_ns = end_ns;
    k->idle_count--;
    return true;
}

/* The latest start of a query that takes span_ns; always before the deadline. */
static int64_t latest_for(int64_t deadline_ns, int64_t span_ns) {
    return deadline_ns - (span_ns > 1 ? span_ns : 1);
}

/* Until when a query may wait. If late queries are refused: while some type in service could still finish it; else for
 * ever. If no type in service runs its model: until just before its deadline. */
static int64_t latest_start(const struct kairos *k, uint32_t node) {
    int64_t least_ns = span_least(k, node), deadline_ns = kairos_node(k, node)->deadline_ns;
    if (least_ns == INT64_MAX)
        return latest_for(deadline_ns, 0);
    return k->late_refused ? latest_for(deadline_ns, least_ns) : TIME_NEVER;
}

/* No instance could ever have served this query. If the estimates are too high, because runs were slow for a while,
 * this lowers them step by step, so that such queries are tried again some day. */
static void hopeless_relax(struct kairos *k, uint32_t node) {
    const struct request_node *request = kairos_node(k, node);
    struct kairos_model *model = &k->models[kairos_model_of(k, node)];
    int64_t left_ns = request->deadline_ns - request->arrival_ns - k->ctrl_ns - k->data_ns * request->items;
    for (uint32_t t = 0; t < k->types; t++)
        if (model->runs_on[t] && kairos_latency_least_ns(model->latency[t], request->items) <= left_ns)
            kairos_latency_relax(model->latency[t], request->items);
}

static void query_arrived(struct kairos *k, int64_t now_ns, uint32_t m, const struct request_message *message,
                          struct central_output *out) {
    uint32_t node = request_pool_get(k->pool);
    CHECK(node != REQUEST_NONE);
    CHECK_LT(m, k->model_count);
    request_node_set(kairos_node(k, node), m, message);
    if (message->items < 1 || message->items > k->models[m].items_max) {
        central_give_up(out, k->pool, node, &(struct central_why){.cause = CAUSE_WAITED});
        return;
    }
    kairos_pool_count(k, message->items);
    if (k->late_refused && now_ns > latest_start(k, node)) { /* hopeless even alone */
        hopeless_relax(k, node);
        give_up(k, node, now_ns, out);
    } else {
        kairos_queue_append(k, &k->queue, node);
    }
}

static uint32_t query_find(const struct kairos *k, const struct kairos_queue *queue, uint64_t handle) {
    uint32_t node = queue->first;
    while (node != REQUEST_NONE && kairos_node(k, node)->handle != handle)
        node = kairos_next(k, node);
    return node;
}

/* Takes a query out of its queue. One that runs already is not found, and goes on. */
static void query_cancelled(struct kairos *k, uint64_t handle, struct central_output *out) {
    uint32_t node = query_find(k, &k->queue, handle);
    if (node != REQUEST_NONE) {
        kairos_queue_remove(k, &k->queue, node);
        central_refuse(out, k->pool, node, REFUSAL_CANCELLED);
        return;
    }
    for (uint32_t i = 0; i < k->instance_count; i++) {
        node = query_find(k, &k->instances[i].queue, handle);
        if (node != REQUEST_NONE) {
            kairos_instance_remove(k, &k->instances[i], node);
            central_refuse(out, k->pool, node, REFUSAL_CANCELLED);
            return;
        }
    }
}

static void query_ended(struct kairos *k, int64_t now_ns, const struct central_ended *ended) {
    struct kairos_instance *instance = &k->instances[ended->accelerator];
    struct kairos_model *model = &k->models[ended->model];
    CHECK(instance->busy);
    instance->busy = false;
    k->idle_count += instance->up;
    if (ended->done) {
        kairos_latency_add(model->latency[instance->type], ended->items, ended->run_ns);
        kairos_coefficients(k, model);
    }
    kairos_climb_count(k, ended->model, !ended->done || now_ns > (int64_t)ended->tag);
}

static void instance_up(struct kairos *k, uint32_t index) {
    struct kairos_instance *instance = &k->instances[index];
    if (instance->up)
        return;
    instance->up = true;
    if (k->up_count[instance->type]++ == 0)
        kairos_stranded(k);
    k->idle_count += !instance->busy;
}

/* The queries in the instance's own queue go to the end of the common queue. */
static void instance_down(struct kairos *k, uint32_t index) {
    struct kairos_instance *instance = &k->instances[index];
    if (!instance->up)
        return;
    instance->up = false;
    if (--k->up_count[instance->type] == 0)
        kairos_stranded(k);
    k->idle_count -= !instance->busy;
    while (instance->queue.count) {
        uint32_t node = instance->queue.first;
        kairos_instance_remove(k, instance, node);
        kairos_queue_append(k, &k->queue, node);
    }
}

/* What another core sent counts as a query that nothing is learned from. */
static void instance_busy(struct kairos *k, uint32_t index, int64_t until_ns) {
    struct kairos_instance *instance = &k->instances[index];
    CHECK(kairos_idle(instance));
    instance->busy = true;
    instance->free_ns = until_ns;
    k->idle_count--;
}

static void instance_free(struct kairos *k, uint32_t index) {
    struct kairos_instance *instance = &k->instances[index];
    CHECK(instance->busy);
    instance->busy = false;
    k->idle_count += instance->up;
}

/* Refuses queries that have waited too long. Returns when to look again. */
static int64_t queue_expire(struct kairos *k, int64_t now_ns, struct central_output *out) {
    int64_t wake_ns = TIME_NEVER;
    if (!k->late_refused && !k->stranded)
        return wake_ns; /* the queue may be long: do not walk it */
    for (uint32_t node = k->queue.first, next; node != REQUEST_NONE; node = next) {
        next = kairos_next(k, node);
        int64_t latest_ns = latest_start(k, node);
        if (now_ns > latest_ns) {
            if (latest_ns < kairos_node(k, node)->arrival_ns)
                hopeless_relax(k, node);
            kairos_queue_remove(k, &k->queue, node);
            give_up_waiting(k, node, out);
        } else if (latest_ns < wake_ns - 1)
            wake_ns = latest_ns + 1;
    }
    return wake_ns;
}

/* Refuses queries of an instance's own queue that have waited too long: they run on that instance or not at all. */
static int64_t instance_expire(struct kairos *k, int64_t now_ns, struct kairos_instance *instance,
                               struct central_output *out) {
    int64_t wake_ns = TIME_NEVER;
    for (uint32_t node = instance->queue.first, next; k->late_refused && node != REQUEST_NONE; node = next) {
        next = kairos_next(k, node);
        int64_t latest_ns = latest_for(kairos_node(k, node)->deadline_ns, kairos_span_ns(k, node, instance->type));
        if (now_ns > latest_ns) {
            kairos_instance_remove(k, instance, node);
            give_up_waiting(k, node, out);
        } else if (latest_ns < wake_ns - 1)
            wake_ns = latest_ns + 1;
    }
    return wake_ns;
}

static void all_expire(struct kairos *k, int64_t now_ns, struct central_output *out) {
    k->wake_ns = queue_expire(k, now_ns, out);
    for (uint32_t i = 0; i < k->instance_count; i++) {
        if (!k->instances[i].queue.count)
            continue;
        int64_t at_ns = instance_expire(k, now_ns, &k->instances[i], out);
        if (at_ns < k->wake_ns)
            k->wake_ns = at_ns;
    }
}

static void kairos_step(void *core, int64_t now_ns, const struct central_event *event, struct central_output *out) {
    struct kairos *k = core;
    out->refused = REQUEST_NONE;
    out->action_count = 0;
    switch (event->kind) {
    case CENTRAL_ARRIVED:
        query_arrived(k, now_ns, event->model, event->request, out);
        break;
    case CENTRAL_CANCELLED:
        query_cancelled(k, event->request->handle, out);
        out->wake_ns = now_ns; /* the round comes after all cancellations of this time: none of these is to start */
        return;
    case CENTRAL_ENDED:
        query_ended(k, now_ns, event->ended);
        break;
    case CENTRAL_UP:
        instance_up(k, event->accelerator);
        break;
    case CENTRAL_DOWN:
        instance_down(k, event->accelerator);
        break;
    case CENTRAL_HAS: /* it has no memory */
        break;
    case CENTRAL_BUSY:
        instance_busy(k, event->accelerator, event->until_ns);
        break;
    case CENTRAL_FREE:
        instance_free(k, event->accelerator);
        break;
    case CENTRAL_TIMER:
        break;
    }
    if (now_ns >= k->wake_ns) /* before the round, which then sees only queries that can be served */
        all_expire(k, now_ns, out);
    scheme_rounds[(int)k->options.value[KAIROS_SCHEME]](k, now_ns, out);
    all_expire(k, now_ns, out);
    out->wake_ns = out->action_count == CENTRAL_ACTIONS_MAX ? now_ns : k->wake_ns;
}

static const struct central_ops kairos_central = {
    .bytes = kairos_bytes,
    .init = kairos_init,
    .step = kairos_step,
    .pool = kairos_pool_wanted,
    .pool_budget = kairos_pool_budget,
    .needs_types = true,
};

const struct policy_ops policy_kairos = {
    .name = "kairos",
    .summary =
        "queries of different sizes matched to instances of different types (Kairos), and what it was compared with",
    .options = kairos_options,
    .central = &kairos_central,
};
