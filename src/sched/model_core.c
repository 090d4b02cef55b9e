/* model_core.c - one model's queue and its next batch.
 *
 * Arrivals that the policy admits wait in `queue`, by deadline. The next batch of each accelerator type is a run of
 * that queue from its head (on a type too slow for the head, from the first request it can still make). An arrival at
 * the queue's end only lengthens the batch, which costs no more than looking two latencies up; everything else composes
 * it anew. Requests that the window drop gives up, and arrivals not admitted, wait in `leftovers` for an accelerator
 * that nobody wants. A request leaves by a batch, by its cancellation, or by a refusal as soon as no type can make it.
 *
 * Requests of a higher priority come first in the queue. As long as all that is queued has one priority, that changes
 * nothing; where it does not, a batch is no run of the queue, but takes of each priority in turn what is still in time,
 * and so is composed anew with every arrival. Best effort waits in `best_effort`, by its own deadlines. */
#include "sched/model_core.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "sched/deadline_queue.h"
#include "sched/model_view.h"
#include "table/rolling.h"

/* Of one request in the rates of dropped and late ones: at first as if so many good ones had been before it. */
#define BAD_WEIGHT       (1.0 / 2000)
#define BAD_WEIGHT_FIRST (1.0 / 200)
#define RELAX_NS         (500 * NS_PER_MS) /* refusing without a run for so long takes half of the tables' corrections back */

/* The next batch on one type: `items` of the queue from `start` on. */
struct type_batch {
    uint32_t start; /* REQUEST_NONE: no batch */
    uint32_t items;
    bool sealed; /* the queue goes on behind it, but nothing more fits */
    bool grown;  /* the candidate does not tell yet */
    int64_t changed_ns;
};

/* What an arrival touches comes first, and index 0 of the arrays: with one type of accelerators, some twelve cache
 * lines together with the policy's first one (model_core_warm()). */
struct model_core {
    const struct policy_ops *policy;
    struct request_pool *pool;
    struct queue_levels *levels; /* of requests in `queue` and `leftovers`; NULL: nothing limits them */
    uint32_t model;
    uint32_t batch_max;
    uint32_t refused_last; /* in the list of the step's output */
    bool prefetch;
    bool hopeless;        /* a request was refused for its deadline at this time */
    bool stranded;        /* no accelerator in service runs the model */
    bool grown;           /* some batch is, by arrivals of this time */
    bool changed;         /* a candidate is, and nobody was told */
    bool stale;           /* batches are to be composed anew because of arrivals of this time */
    bool any_best_effort; /* something waits in `best_effort` */
    bool classes;         /* some request was not of the highest priority: the rest need not look for such */
    int64_t free_ns;      /* while answering a grant: when that accelerator is expected to be free; else INT64_MIN */
    int64_t ran_ns;       /* the last run or relaxation; TIME_NEVER: none yet */
    double dropped_rate, late_rate, bad_weight;
    struct deadline_queue queue, leftovers;
    struct model_view view;
    struct type_batch batches[ACCELERATOR_TYPES_MAX];
    struct candidate candidates[ACCELERATOR_TYPES_MAX]; /* as of the last step */
    struct policy_options options;
    struct rolling *rolling[ACCELERATOR_TYPES_MAX]; /* NULL: not learning */
    struct deadline_queue best_effort;
    uint32_t delays; /* a bit for each priority whose requests become best effort instead of being refused */
    double weight;
    double slo_ns;           /* the usual one */
    _Alignas(16) char own[]; /* the policy's room; then profiles and windows */
};

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

/* Whether the policy makes batches of the sizes that the model's configuration wants. */
static bool sizes_given(const struct model_core *core) {
    return core->view.preferred_count > 0 && core->policy->batch_part;
}

/* How large batches may be and are worth waiting for. From the tables as profiled: where batching stops paying is in
 * the model's nature, and a few slow runs of some size are no reason to give larger batches up. */
static void batch_limits_set(struct model_core *core) {
    struct model_view *m = &core->view;
    m->items_worth = 1;
    for (uint32_t t = 0; t < m->types; t++) {
        if (!m->profiles[t])
            continue;
        m->items_most[t] = sizes_given(core) ? core->batch_max : profile_batch_cheapest(m->profiles[t]);
        uint32_t worth = profile_batch_best(m->profiles[t]);
        if (worth > m->items_worth)
            m->items_worth = worth;
    }
}

/* What follows from the tables in force and from how many accelerators of each type there are. A type with none in
 * service is as good as absent, but if that leaves no type, all count: some may come back in time. */
static void tables_changed(struct model_core *core) {
    struct model_view *m = &core->view;
    double share[ACCELERATOR_TYPES_MAX], shares = 0, alpha_ns = 0, beta_ns = 0;
    for (uint32_t t = 0; t < m->types; t++) {
        share[t] = m->profiles[t] ? (double)m->parameters.type_share[t] : 0;
        shares += share[t];
    }
    core->stranded = shares <= 0;
    for (uint32_t t = 0; t < m->types; t++) {
        if (shares <= 0)
            share[t] = m->profiles[t] ? 1 : 0;
        m->used[t] = share[t] > 0;
    }
    double total = 0;
    for (uint32_t t = 0; t < m->types; t++) {
        if (!m->used[t])
            continue;
        total += share[t];
        alpha_ns += share[t] * m->profiles[t]->alpha_ns;
        beta_ns += share[t] * m->profiles[t]->beta_ns;
    }
    m->alpha_ns = alpha_ns / total;
    m->beta_ns = beta_ns / total;
}

/* The part of a table up to batch_max. */
static void profile_copy(struct profile *to, const struct profile *from, uint32_t batch_max) {
    CHECK_LE(batch_max, from->batch_max);
    memcpy(to, from, profile_bytes(batch_max));
    if (to->batch_max != batch_max) {
        to->batch_max = batch_max;
        profile_fit(to);
    }
}

static void policy_update(struct model_core *core) {
    core->policy->model_update(&core->view, core->own);
}

void model_core_init(struct model_core *core, const struct model_core_config *config, struct request_pool *pool) {
    CHECK(config->types >= 1 && config->types <= ACCELERATOR_TYPES_MAX && config->batch_max >= 1);
    memset(core, 0, model_core_bytes(config));
    core->pool = pool;
    core->model = config->model;
    core->batch_max = config->batch_max;
    core->weight = config->weight > 0 ? config->weight : 1;
    core->policy = config->policy;
    if (config->policy_options)
        core->options = *config->policy_options;
    else
        policy_options_preset(config->policy, &core->options);
    core->bad_weight = BAD_WEIGHT_FIRST;
    core->ran_ns = TIME_NEVER;
    core->free_ns = INT64_MIN;
    core->prefetch = config->prefetch;
    deadline_queue_init(&core->queue);
    deadline_queue_init(&core->leftovers);
    deadline_queue_init(&core->best_effort);
    core->levels = config->levels;
    core->delays = config->delays;

    struct model_view *m = &core->view;
    m->types = config->types;
    m->ctrl_ns = config->ctrl_ns;
    m->data_ns = config->data_ns;
    m->slo_ns = core->slo_ns = (double)config->slo_ns;
    m->wait_ns = config->wait_ns;
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
        if (!config->profiles[t])
            continue;
        runs = true;
        m->profiles[t] = (struct profile *)room;
        profile_copy(m->profiles[t], config->profiles[t], config->batch_max);
        room += align(profile_bytes(config->batch_max));
        if (config->learn) {
            core->rolling[t] = (struct rolling *)room;
            rolling_init(core->rolling[t], m->profiles[t], config->accelerators);
            room += align(rolling_bytes(config->batch_max, config->accelerators));
        }
    }
    CHECK(runs);
    batch_limits_set(core);
    tables_changed(core);
    core->stranded = false; /* until the first parameters tell */
    policy_update(core);
}

/* ---- refusing ---- */

static struct request_node *node_at(const struct model_core *core, uint32_t node) {
    return &core->pool->nodes[node];
}

/* One more request has left: dropped, or in a batch. */
static void outcome_count(struct model_core *core, double dropped) {
    double weight = core->bad_weight;
    core->dropped_rate += (dropped - core->dropped_rate) * weight;
    core->late_rate -= core->late_rate * weight;
    if (weight > BAD_WEIGHT)
        core->bad_weight = weight / (1 + weight);
}

/* One more request with an SLO waits, or with -1 one less. */
static inline void level_count(struct model_core *core, uint8_t priority, int more) {
    if (core->levels)
        core->levels->of[priority].waiting += (uint32_t)more;
}

/* Gives a request back that no queue holds, and counts it nowhere. */
static void turn_away(struct model_core *core, struct model_output *out, uint32_t node, enum refusal reason) {
    struct request_node *request = node_at(core, node);
    request->refusal = (uint8_t)(reason == REFUSAL_DEADLINE && core->stranded ? REFUSAL_STRANDED : reason);
    request->next = REQUEST_NONE;
    if (out->refused == REQUEST_NONE)
        out->refused = node;
    else
        node_at(core, core->refused_last)->next = node;
    core->refused_last = node;
}

static void refuse(struct model_core *core, struct model_output *out, uint32_t node, enum refusal reason) {
    const struct request_node *request = node_at(core, node);
    turn_away(core, out, node, reason);
    reason = request->refusal;
    if (request->priority == PRIORITY_BEST_EFFORT)
        return;
    level_count(core, request->priority, -1);
    core->hopeless |= reason == REFUSAL_DEADLINE;
    if (reason != REFUSAL_CANCELLED)
        outcome_count(core, 1);
}

static void best_effort_add(struct model_core *core, uint32_t node, struct model_output *out) {
    if (core->best_effort.count >= BEST_EFFORT_MAX) {
        refuse(core, out, node, REFUSAL_BEST_EFFORT_FULL);
        return;
    }
    deadline_queue_insert(&core->best_effort, core->pool->nodes, node);
    core->any_best_effort = true;
    core->stale |= deadline_queue_first(&core->best_effort) == node;
}

/* Whether the configuration wants that who is late becomes best effort. */
static bool is_delayed(const struct model_core *core, const struct request_node *request) {
    return request->priority < PRIORITIES_MAX && core->delays >> request->priority & 1;
}

static void delay(struct model_core *core, struct model_output *out, uint32_t node) {
    struct request_node *request = node_at(core, node);
    core->classes = true;
    request->priority = PRIORITY_BEST_EFFORT;
    request->deadline_ns += BEST_EFFORT_WAIT_NS;
    best_effort_add(core, node, out);
}

/* It cannot finish by its deadline: refused, or where the configuration wants that, best effort from now on. */
static void give_up(struct model_core *core, struct model_output *out, uint32_t node) {
    const struct request_node *request = node_at(core, node);
    if (!is_delayed(core, request)) {
        refuse(core, out, node, REFUSAL_DEADLINE);
        return;
    }
    level_count(core, request->priority, -1);
    outcome_count(core, 1);
    delay(core, out, node);
}

/* The least span over the types. */
static int64_t span_least(const struct model_core *core, uint32_t items) {
    const struct model_view *m = &core->view;
    if (m->types == 1)
        return model_span_ns(m, 0, items);
    int64_t least = TIME_NEVER;
    for (uint32_t t = 0; t < m->types; t++) {
        if (!m->used[t])
            continue;
        int64_t span_ns = model_span_ns(m, t, items);
        if (span_ns < least)
            least = span_ns;
    }
    return least;
}

/* The last moment at which `request` could start on some type. */
static int64_t latest_start(const struct model_core *core, const struct request_node *request) {
    return request->deadline_ns - span_least(core, request->items);
}

static void leftovers_add(struct model_core *core, int64_t now_ns, uint32_t node, struct model_output *out) {
    if (core->policy->no_leftovers || now_ns > latest_start(core, node_at(core, node)))
        give_up(core, out, node);
    else
        deadline_queue_insert(&core->leftovers, core->pool->nodes, node);
}

/* Whether requests of several priorities wait. */
static inline bool is_mixed(const struct model_core *core, const struct deadline_queue *queue) {
    return core->classes && queue->count > 1 &&
           node_at(core, queue->head[0])->priority != node_at(core, queue->tail[0])->priority;
}

/* Items of the head's priority that are queued, or `most`, if there are more. */
static uint32_t items_alike(const struct model_core *core, const struct request_node *head, uint32_t most) {
    uint32_t items = head->items;
    for (uint32_t node = head->links[0]; node != REQUEST_NONE && items < most; node = node_at(core, node)->links[0]) {
        if (node_at(core, node)->priority != head->priority)
            break;
        items += node_at(core, node)->items;
    }
    return items < most ? items : most;
}

/* How many items must fit before the deadline of the queue's head, or of the first of a priority, for it to stay: the
 * window drop's target, or all that are queued of its priority, but the whole head in any case. */
static uint32_t items_wanted(const struct model_core *core, const struct request_node *head) {
    uint32_t target = core->view.target_items;
    uint32_t wanted = target < core->queue.items ? target : core->queue.items;
    if (is_mixed(core, &core->queue))
        wanted = items_alike(core, head, wanted);
    return wanted > head->items ? wanted : head->items;
}

static bool head_stays(const struct model_core *core, int64_t now_ns, const struct request_node *head) {
    if (core->policy->deadline_blind)
        return !core->stranded || now_ns <= head->deadline_ns;
    return now_ns + span_least(core, items_wanted(core, head)) <= head->deadline_ns;
}

/* The first request of the next lower priority. */
static uint32_t priority_next(const struct model_core *core, const struct deadline_queue *queue, uint32_t node) {
    return deadline_queue_find(queue, core->pool->nodes, (uint8_t)(node_at(core, node)->priority + 1), INT64_MIN);
}

static void node_remove(struct model_core *core, struct deadline_queue *queue, uint32_t node) {
    const struct request_node *request = node_at(core, node);
    deadline_queue_remove(queue, core->pool->nodes, request->priority, request->deadline_ns, request->handle);
}

/* As queue_prune(), of the priorities behind the first. */
static void lower_prune(struct model_core *core, int64_t now_ns, struct deadline_queue *queue,
                        struct model_output *out) {
    uint32_t node = priority_next(core, queue, deadline_queue_first(queue));
    while (node != REQUEST_NONE) {
        const struct request_node *request = node_at(core, node);
        uint32_t next = deadline_queue_next(core->pool->nodes, node);
        bool leftover = queue == &core->leftovers;
        if (leftover ? now_ns <= latest_start(core, request) : head_stays(core, now_ns, request)) {
            next = priority_next(core, queue, node);
        } else {
            node_remove(core, queue, node);
            leftover ? give_up(core, out, node) : leftovers_add(core, now_ns, node, out);
        }
        node = next;
    }
}

static void classes_prune(struct model_core *core, int64_t now_ns, struct model_output *out) {
    if (is_mixed(core, &core->queue))
        lower_prune(core, now_ns, &core->queue, out);
    if (is_mixed(core, &core->leftovers))
        lower_prune(core, now_ns, &core->leftovers, out);
    /* best effort does not wait for accelerators to come back: it has a minute */
    while (core->any_best_effort &&
           (core->stranded || now_ns > latest_start(core, node_at(core, deadline_queue_first(&core->best_effort))))) {
        refuse(core, out, deadline_queue_pop(&core->best_effort, core->pool->nodes), REFUSAL_DEADLINE);
        core->any_best_effort = core->best_effort.count > 0;
    }
}

static void queue_prune(struct model_core *core, int64_t now_ns, struct model_output *out) {
    struct request_node *nodes = core->pool->nodes;
    while (core->queue.count && !head_stays(core, now_ns, node_at(core, deadline_queue_first(&core->queue)))) {
        deadline_queue_warm(core->pool, deadline_queue_first(&core->queue));
        uint32_t node = deadline_queue_pop(&core->queue, nodes);
        leftovers_add(core, now_ns, node, out);
    }
    while (core->leftovers.count && now_ns > latest_start(core, node_at(core, deadline_queue_first(&core->leftovers))))
        give_up(core, out, deadline_queue_pop(&core->leftovers, nodes));
    if (core->classes)
        classes_prune(core, now_ns, out);
}

/* ---- composing batches ---- */

/* For how long a batch occupies its accelerator. */
static int64_t run_time(const struct model_core *core, uint32_t type, uint32_t items) {
    const struct model_view *m = &core->view;
    return m->profiles[type]->latency_ns[items] + (core->prefetch ? 0 : m->data_ns * items);
}

/* When a batch decided now ends. */
static int64_t finish(const struct model_core *core, uint32_t type, int64_t now_ns, uint32_t items) {
    const struct model_view *m = &core->view;
    int64_t start_ns = now_ns + m->ctrl_ns + (core->prefetch ? m->data_ns * items : 0);
    return (start_ns > core->free_ns ? start_ns : core->free_ns) + run_time(core, type, items);
}

/* Whether a batch decided now ends by the deadline, if that matters. */
static inline bool in_time(const struct model_core *core, uint32_t type, int64_t now_ns, uint32_t items,
                           int64_t deadline_ns) {
    return core->policy->deadline_blind || finish(core, type, now_ns, items) <= deadline_ns;
}

/* Most items up to `most` that end by the deadline; `least` of them are known to. */
static uint32_t items_fitting(const struct model_core *core, uint32_t type, int64_t now_ns, int64_t deadline_ns,
                              uint32_t least, uint32_t most) {
    if (most <= least || in_time(core, type, now_ns, most, deadline_ns))
        return most > least ? most : least;
    /* The line through the table says about how many: where that is right, two looks are enough, not one for every
     * halving of the table, which would each wait for a cache line. */
    const struct profile *profile = core->view.profiles[type];
    int64_t none_ns = finish(core, type, now_ns, 0);
    double guess =
        ((double)(deadline_ns - none_ns) - profile->beta_ns) / (profile->alpha_ns + (double)core->view.data_ns);
    if (guess > least && guess < most) {
        uint32_t items = (uint32_t)guess;
        if (in_time(core, type, now_ns, items, deadline_ns))
            least = items;
        else
            most = items;
        if (least + 1 < most && !in_time(core, type, now_ns, least + 1, deadline_ns))
            return least;
    }
    while (most - least > 1) {
        uint32_t middle = (least + most) / 2;
        if (in_time(core, type, now_ns, middle, deadline_ns))
            least = middle;
        else
            most = middle;
    }
    return least;
}

/* Where a batch of `type` starts in a queue: at its head, or on a type too slow for it at the first request that
 * `items` can join, or else at the first that it can make at all. */
static uint32_t start_find(const struct model_core *core, const struct deadline_queue *queue, uint32_t type,
                           int64_t now_ns, uint32_t items) {
    const struct request_node *nodes = core->pool->nodes;
    uint32_t node = deadline_queue_first(queue);
    if (node == REQUEST_NONE)
        return node;
    if (items < nodes[node].items)
        items = nodes[node].items;
    if (in_time(core, type, now_ns, items, nodes[node].deadline_ns))
        return node;
    uint8_t priority = nodes[node].priority;
    node = deadline_queue_find(queue, nodes, priority, finish(core, type, now_ns, items));
    if (node == REQUEST_NONE)
        node = deadline_queue_find(queue, nodes, priority, finish(core, type, now_ns, 1));
    while (node != REQUEST_NONE && !in_time(core, type, now_ns, nodes[node].items, nodes[node].deadline_ns))
        node = deadline_queue_next(nodes, node); /* a large one */
    return node;
}

/* Most items that the policy lets a batch of `type` have. */
static uint32_t batch_most(const struct model_view *m, uint32_t type) {
    return m->items_cap && m->items_cap < m->items_most[type] ? m->items_cap : m->items_most[type];
}

/* The run of `queue` from `start` that a batch of `type` with `most` items holds. */
static struct type_batch batch_compose(const struct model_core *core, const struct deadline_queue *queue, uint32_t type,
                                       int64_t now_ns, uint32_t start, uint32_t most) {
    const struct request_node *nodes = core->pool->nodes;
    if (start == REQUEST_NONE)
        return (struct type_batch){.start = REQUEST_NONE};
    uint32_t first = nodes[start].items; /* alone, it may be larger than a batch usually */
    bool single = start == deadline_queue_first(queue) && queue->items == queue->count; /* no need to look at them */
    if (single && queue->items <= most && in_time(core, type, now_ns, queue->items, nodes[start].deadline_ns))
        return (struct type_batch){start, queue->items, false, false, now_ns};
    most = items_fitting(core, type, now_ns, nodes[start].deadline_ns, first, most);
    if (single)
        return (struct type_batch){start, most < queue->items ? most : queue->items, most < queue->items, false,
                                   now_ns};
    uint32_t items = 0, node = start;
    while (node != REQUEST_NONE && items + nodes[node].items <= most) {
        items += nodes[node].items;
        node = deadline_queue_next(nodes, node);
    }
    return (struct type_batch){start, items, node != REQUEST_NONE, false, now_ns};
}

/* The same where several priorities wait: of each in turn, from the highest, what joins in time and makes nobody late.
 * The requests are linked by `next`, by deadline. */
static struct type_batch mixed_compose(const struct model_core *core, const struct deadline_queue *queue, uint32_t type,
                                       int64_t now_ns, uint32_t most) {
    struct request_node *nodes = core->pool->nodes;
    struct type_batch batch = {.start = REQUEST_NONE, .changed_ns = now_ns};
    uint32_t *link = &batch.start;
    uint8_t priority = 0;
    for (uint32_t node = deadline_queue_first(queue); node != REQUEST_NONE;) {
        struct request_node *request = &nodes[node];
        uint32_t items = batch.items + request->items;
        batch.sealed = batch.items && items > most;
        if (batch.sealed)
            break;
        if (!in_time(core, type, now_ns, items, request->deadline_ns)) {
            int64_t one_ns = finish(core, type, now_ns, batch.items + 1);
            node = request->deadline_ns < one_ns ? deadline_queue_find(queue, nodes, request->priority, one_ns)
                                                 : deadline_queue_next(nodes, node); /* a large one */
            continue;
        }
        batch.sealed = batch.items && !in_time(core, type, now_ns, items, nodes[batch.start].deadline_ns);
        if (batch.sealed)
            break;
        if (request->priority != priority)
            link = &batch.start;
        priority = request->priority;
        while (*link != REQUEST_NONE && nodes[*link].deadline_ns <= request->deadline_ns)
            link = &nodes[*link].next;
        request->next = *link;
        *link = node;
        batch.items = items;
        node = deadline_queue_next(nodes, node);
    }
    return batch;
}

/* The best effort that may run for so long: at most as long as an ordinary batch, of which two fit into the SLO. */
static struct type_batch best_effort_compose(const struct model_core *core, uint32_t type, int64_t now_ns,
                                             int64_t run_ns) {
    const struct request_node *nodes = core->pool->nodes;
    const struct request_node *first =
        core->any_best_effort ? node_at(core, deadline_queue_first(&core->best_effort)) : NULL;
    struct type_batch batch = {.start = REQUEST_NONE};
    if (!first || !core->view.used[type] || run_time(core, type, first->items) > run_ns ||
        !in_time(core, type, now_ns, first->items, first->deadline_ns))
        return batch;
    int64_t ordinary_ns = (int64_t)core->view.slo_ns / 2;
    run_ns = run_ns < ordinary_ns ? run_ns : ordinary_ns;
    batch.start = deadline_queue_first(&core->best_effort);
    for (uint32_t node = batch.start; node != REQUEST_NONE; node = deadline_queue_next(nodes, node)) {
        uint32_t items = batch.items + nodes[node].items;
        if (batch.items && (items > batch_most(&core->view, type) || run_time(core, type, items) > run_ns ||
                            !in_time(core, type, now_ns, items, first->deadline_ns)))
            break;
        batch.items = items;
    }
    return batch;
}

static void candidate_store(struct model_core *core, uint32_t type, const struct candidate *candidate) {
    if (memcmp(&core->candidates[type], candidate, sizeof(*candidate)) == 0)
        return;
    core->candidates[type] = *candidate;
    core->changed = true;
}

/* The candidate of a type from its batch; what the model has besides is that of `rest`. */
static void candidate_derive(struct model_core *core, uint32_t type, const struct candidate *rest) {
    const struct model_view *m = &core->view;
    const struct type_batch *batch = &core->batches[type];
    struct candidate candidate = candidate_none();
    candidate_rest_copy(&candidate, rest);
    if (batch->start != REQUEST_NONE) {
        const struct request_node *head = node_at(core, batch->start);
        struct batch_view view = {
            .deadline_ns = head->deadline_ns,
            .head_arrival_ns = head->arrival_ns,
            .due_ns = head->deadline_ns - model_span_ns(m, type, batch->items + 1),
            .invalid_after_ns = head->deadline_ns - model_span_ns(m, type, batch->items),
            .changed_ns = batch->changed_ns,
            .items = batch->items,
            .items_most = batch_most(m, type),
            .sealed = batch->sealed,
        };
        struct batch_times times = core->policy->batch_times(m, core->own, type, &view);
        memcpy(candidate.start_ns, times.start_ns, sizeof(candidate.start_ns));
        int64_t latest_ns = head->arrival_ns + m->wait_ns;
        for (uint32_t level = 0; m->wait_ns && level < SUPPLY_LEVELS; level++)
            if (candidate.start_ns[level] > latest_ns)
                candidate.start_ns[level] = latest_ns;
        candidate.order_ns = times.order_ns;
        candidate.invalid_after_ns = core->policy->deadline_blind ? TIME_NEVER : view.invalid_after_ns;
    }
    candidate_store(core, type, &candidate);
}

/* What a candidate says of leftovers and best effort: of each the first request that `type` can make. */
static struct candidate rest_derive(const struct model_core *core, uint32_t type, int64_t now_ns) {
    struct candidate rest = candidate_none();
    if (!core->view.used[type])
        return rest;
    uint32_t node = start_find(core, &core->leftovers, type, now_ns, 1);
    if (node != REQUEST_NONE) {
        const struct request_node *first = node_at(core, node);
        candidate_leftovers_set(&rest, first->deadline_ns - model_span_ns(&core->view, type, first->items));
    } else if (core->any_best_effort) {
        const struct request_node *first = node_at(core, deadline_queue_first(&core->best_effort));
        if (in_time(core, type, now_ns, first->items, first->deadline_ns))
            candidate_best_effort_set(&rest, run_time(core, type, first->items));
    }
    return rest;
}

/* Everything anew. */
static void refresh(struct model_core *core, int64_t now_ns, struct model_output *out) {
    const struct model_view *m = &core->view;
    core->stale = core->grown = false;
    queue_prune(core, now_ns, out);
    bool mixed = is_mixed(core, &core->queue);
    for (uint32_t t = 0; t < m->types; t++) {
        if (!m->profiles[t])
            continue;
        struct type_batch batch = {.start = REQUEST_NONE};
        if (core->queue.count && m->used[t] && mixed) {
            batch = mixed_compose(core, &core->queue, t, now_ns, batch_most(m, t));
        } else if (core->queue.count && m->used[t]) {
            const struct request_node *head = node_at(core, deadline_queue_first(&core->queue));
            uint32_t start = start_find(core, &core->queue, t, now_ns, items_wanted(core, head));
            batch = batch_compose(core, &core->queue, t, now_ns, start, batch_most(m, t));
        }
        if (batch.start == core->batches[t].start && batch.items == core->batches[t].items)
            batch.changed_ns = core->batches[t].changed_ns;
        core->batches[t] = batch;
        struct candidate rest = rest_derive(core, t, now_ns);
        candidate_derive(core, t, &rest);
    }
}

/* An arrival went to the end of the queue: lengthens the batches that it can join. False if they must be composed. */
static bool batches_lengthen(struct model_core *core, int64_t now_ns, uint32_t node) {
    const struct model_view *m = &core->view;
    if (!head_stays(core, now_ns, node_at(core, deadline_queue_first(&core->queue))))
        return false;
    for (uint32_t t = 0; t < m->types; t++)
        if (m->used[t] && (core->batches[t].start == REQUEST_NONE || now_ns > core->candidates[t].invalid_after_ns))
            return false;
    for (uint32_t t = 0; t < m->types; t++) {
        struct type_batch *batch = &core->batches[t];
        if (!m->used[t] || batch->sealed)
            continue;
        uint32_t items = batch->items + node_at(core, node)->items;
        if (items <= batch_most(m, t) && in_time(core, t, now_ns, items, node_at(core, batch->start)->deadline_ns))
            *batch = (struct type_batch){batch->start, items, false, true, now_ns};
        else
            batch->sealed = true;
        batch->grown = true;
        core->grown = true;
    }
    return true;
}

/* Lets batches and candidates follow the arrivals of this time. */
static void settle(struct model_core *core, int64_t now_ns, struct model_output *out) {
    if (core->stale) {
        refresh(core, now_ns, out);
        return;
    }
    core->grown = false;
    for (uint32_t t = 0; t < core->view.types; t++) {
        if (!core->batches[t].grown)
            continue;
        core->batches[t].grown = false;
        candidate_derive(core, t, &core->candidates[t]);
    }
}

/* ---- events ---- */

static void best_effort_arrived(struct model_core *core, int64_t now_ns, uint32_t node, struct model_output *out) {
    const struct request_node *request = node_at(core, node);
    if (request->items < 1 || request->items > core->batch_max || core->stranded ||
        now_ns > latest_start(core, request)) {
        refuse(core, out, node, REFUSAL_DEADLINE);
        return;
    }
    best_effort_add(core, node, out);
}

/* Takes the last request of the lowest priority out of the queue, if that is under this one; else REQUEST_NONE. */
static uint32_t lower_take(struct model_core *core, uint8_t priority) {
    uint32_t node = core->queue.tail[0];
    if (node == REQUEST_NONE || node_at(core, node)->priority <= priority)
        return REQUEST_NONE;
    node_remove(core, &core->queue, node);
    core->stale = true;
    return node;
}

/* Not all can be admitted: one of lower priority stands back, or else this one does. */
static void stand_back(struct model_core *core, int64_t now_ns, uint32_t node, struct model_output *out) {
    uint32_t lower = lower_take(core, node_at(core, node)->priority);
    if (lower != REQUEST_NONE)
        deadline_queue_insert(&core->queue, core->pool->nodes, node);
    leftovers_add(core, now_ns, lower != REQUEST_NONE ? lower : node, out);
    core->stale = true;
}

/* Whether a request that no table in force lets run could run by the tables as profiled: then these are to blame. */
static bool possible_as_profiled(const struct model_core *core, int64_t now_ns, const struct request_node *request) {
    const struct model_view *m = &core->view;
    int64_t left_ns = request->deadline_ns - now_ns - m->ctrl_ns - m->data_ns * request->items;
    for (uint32_t t = 0; t < m->types; t++)
        if (m->used[t] && core->rolling[t] && rolling_profiled_ns(core->rolling[t], request->items) <= left_ns)
            return true;
    return false;
}

/* One that could not be in time even if an accelerator were free for it now. Nobody is short of accelerators for that
 * reason, so it steers nothing: no rate, no SLO, no loss. It would be easy otherwise to make a model's batches small,
 * and company dear for all, with requests that cost their sender nothing. */
static void impossible_arrived(struct model_core *core, int64_t now_ns, uint32_t node, struct model_output *out) {
    const struct request_node *request = node_at(core, node);
    if (is_delayed(core, request)) {
        delay(core, out, node);
        return;
    }
    core->hopeless |= possible_as_profiled(core, now_ns, request);
    turn_away(core, out, node, REFUSAL_DEADLINE);
}

static void request_arrived(struct model_core *core, int64_t now_ns, const struct request_message *message,
                            struct model_output *out) {
    struct model_view *m = &core->view;
    uint32_t node = request_pool_get(core->pool);
    CHECK(node != REQUEST_NONE); /* the shell's duty */
    struct request_node *request = node_at(core, node);
    request_node_set(request, message);
    request->priority = message->priority;
    core->classes |= message->priority > 0;
    if (request->priority == PRIORITY_BEST_EFFORT) {
        best_effort_arrived(core, now_ns, node, out);
        return;
    }
    if (message->items < 1 || message->items > core->batch_max) {
        turn_away(core, out, node, REFUSAL_DEADLINE);
        return;
    }
    if (!core->policy->deadline_blind && now_ns > latest_start(core, request)) {
        impossible_arrived(core, now_ns, node, out);
        return;
    }
    arrival_rates_count(&m->rates, now_ns, message->items, message->deadline_ns - message->arrival_ns);
    level_count(core, request->priority, 1);
    if (core->levels && core->levels->of[request->priority].waiting > core->levels->of[request->priority].most) {
        refuse(core, out, node, REFUSAL_QUEUE_FULL);
        return;
    }
    if (core->policy->model_admit && !core->policy->model_admit(m, core->own, request)) {
        stand_back(core, now_ns, node, out);
        return;
    }
    deadline_queue_insert(&core->queue, core->pool->nodes, node);
    core->stale = core->stale || core->queue.tail[0] != node || is_mixed(core, &core->queue) ||
                  !batches_lengthen(core, now_ns, node);
}

static void request_cancelled(struct model_core *core, int64_t now_ns, const struct request_message *message,
                              struct model_output *out) {
    struct request_node *nodes = core->pool->nodes;
    bool best_effort = message->priority == PRIORITY_BEST_EFFORT;
    int64_t deadline_ns = message->deadline_ns,
            later_ns = best_effort ? deadline_ns : deadline_ns + BEST_EFFORT_WAIT_NS;
    uint32_t node = deadline_queue_remove(&core->queue, nodes, message->priority, deadline_ns, message->handle);
    if (node == REQUEST_NONE)
        node = deadline_queue_remove(&core->leftovers, nodes, message->priority, deadline_ns, message->handle);
    if (node == REQUEST_NONE && core->any_best_effort) {
        node = deadline_queue_remove(&core->best_effort, nodes, PRIORITY_BEST_EFFORT, later_ns, message->handle);
        core->any_best_effort = core->best_effort.count > 0;
    }
    if (node == REQUEST_NONE)
        return; /* in a batch already, or gone */
    refuse(core, out, node, REFUSAL_CANCELLED);
    refresh(core, now_ns, out);
}

/* Moves the batch's requests from the queue into the output; `mixed`: they are linked already. */
static void batch_take(struct model_core *core, int64_t now_ns, uint32_t type, struct deadline_queue *queue, bool mixed,
                       const struct type_batch *batch, struct model_output *out) {
    struct request_node *nodes = core->pool->nodes;
    uint32_t node = batch->start, last = REQUEST_NONE, items = 0, count = 0;
    while (items < batch->items) {
        uint32_t next = mixed ? nodes[node].next : deadline_queue_next(nodes, node);
        deadline_queue_warm(core->pool, node);
        if (node == deadline_queue_first(queue))
            deadline_queue_pop(queue, nodes);
        else
            node_remove(core, queue, node);
        if (last == REQUEST_NONE)
            out->batch = node;
        else
            nodes[last].next = node;
        items += nodes[node].items;
        count++;
        if (queue != &core->best_effort) {
            outcome_count(core, 0);
            level_count(core, nodes[node].priority, -1);
        }
        last = node;
        node = next;
    }
    nodes[last].next = REQUEST_NONE;
    out->batch_requests = count;
    out->batch_items = items;
    out->batch_finish_ns = finish(core, type, now_ns, items);
    out->batch_run_ns = run_time(core, type, items);
}

static void leftovers_take(struct model_core *core, int64_t now_ns, uint32_t type, struct model_output *out) {
    bool mixed = is_mixed(core, &core->leftovers);
    uint32_t start = start_find(core, &core->leftovers, type, now_ns, 1);
    uint32_t most = batch_most(&core->view, type);
    struct type_batch batch = mixed ? mixed_compose(core, &core->leftovers, type, now_ns, most)
                                    : batch_compose(core, &core->leftovers, type, now_ns, start, most);
    batch_take(core, now_ns, type, &core->leftovers, mixed, &batch, out);
}

static void best_effort_take(struct model_core *core, int64_t now_ns, const struct grant_message *grant,
                             struct model_output *out) {
    struct type_batch batch = best_effort_compose(core, grant->type, now_ns, grant->run_ns);
    if (batch.start != REQUEST_NONE)
        batch_take(core, now_ns, grant->type, &core->best_effort, false, &batch, out);
    core->any_best_effort = core->best_effort.count > 0;
}

static void accelerator_granted(struct model_core *core, int64_t now_ns, const struct grant_message *grant,
                                struct model_output *out) {
    uint32_t type = grant->type;
    CHECK(type < core->view.types && core->view.profiles[type] && grant->supply < SUPPLY_LEVELS);
    core->free_ns = grant->free_ns;
    refresh(core, now_ns, out);
    struct type_batch batch = core->batches[type];
    if (batch.start != REQUEST_NONE && core->candidates[type].start_ns[grant->supply] <= now_ns) {
        bool mixed = is_mixed(core, &core->queue);
        uint32_t most = batch_most(&core->view, type);
        if (sizes_given(core))
            most = core->policy->batch_part(&core->view, core->own, batch.items, node_at(core, batch.start)->arrival_ns,
                                            now_ns);
        if (mixed)
            batch = mixed_compose(core, &core->queue, type, now_ns, most); /* other types' have other links */
        else if (most < batch.items)
            batch = batch_compose(core, &core->queue, type, now_ns, batch.start, most);
        batch_take(core, now_ns, type, &core->queue, mixed, &batch, out);
    } else if (grant->leftovers && candidate_leftovers(&core->candidates[type])) {
        leftovers_take(core, now_ns, type, out);
    } else if (grant->best_effort) {
        best_effort_take(core, now_ns, grant, out);
    }
    bool waited = core->free_ns > now_ns;
    core->free_ns = INT64_MIN;
    if (out->batch != REQUEST_NONE || waited)
        refresh(core, now_ns, out);
    core->changed = true; /* the answer always carries the newest */
}

static void parameters_set(struct model_core *core, int64_t now_ns, const struct grant_message *message,
                           struct model_output *out) {
    struct model_view *m = &core->view;
    bool types_changed =
        memcmp(m->parameters.type_share, message->parameters.type_share, sizeof(m->parameters.type_share)) != 0;
    m->parameters = message->parameters;
    if (types_changed)
        tables_changed(core);
    m->admit_share = message->admit_share;
    policy_update(core);
    refresh(core, now_ns, out);
}

/* Corrections that are too large keep everything from running, and so from being measured again. If nothing ran while
 * requests were refused as hopeless, the tables go back towards what was profiled until something runs. */
static void tables_relax(struct model_core *core, int64_t now_ns, struct model_output *out) {
    if (core->ran_ns == TIME_NEVER)
        core->ran_ns = now_ns;
    if (now_ns - core->ran_ns < RELAX_NS)
        return;
    core->ran_ns = now_ns;
    bool any = false;
    for (uint32_t t = 0; t < core->view.types; t++)
        any |= core->rolling[t] && rolling_relax(core->rolling[t], core->view.profiles[t]);
    if (!any)
        return;
    tables_changed(core);
    policy_update(core);
    refresh(core, now_ns, out);
}

static void batch_ran(struct model_core *core, int64_t now_ns, const struct ran_message *ran,
                      struct model_output *out) {
    core->late_rate += ran->late * core->bad_weight; /* they counted as offered when their batch was sealed */
    if (ran->run_ns == 0)
        return;
    core->ran_ns = now_ns;
    CHECK(ran->type < core->view.types && core->view.profiles[ran->type]);
    if (!core->rolling[ran->type] || !rolling_add(core->rolling[ran->type], ran->accelerator, ran->items, ran->run_ns,
                                                  core->view.profiles[ran->type]))
        return;
    tables_changed(core);
    policy_update(core);
    refresh(core, now_ns, out);
}

static void delays_set(struct model_core *core, int64_t now_ns, int64_t ctrl_ns, int64_t data_ns,
                       struct model_output *out) {
    core->view.ctrl_ns = ctrl_ns;
    core->view.data_ns = data_ns;
    policy_update(core);
    refresh(core, now_ns, out);
}

/* A bit for each type. */
static uint32_t runs_on(const struct model_core *core) {
    uint32_t types = 0;
    for (uint32_t t = 0; t < core->view.types; t++)
        types |= core->view.profiles[t] ? 1u << t : 0;
    return types;
}

/* A tick of the rates is over. */
static void rates_update(struct model_core *core, int64_t now_ns, struct model_output *out) {
    struct model_view *m = &core->view;
    out->rates_changed = m->rates.tick_requests > 0; /* the rank core lets a silent model's rates decay itself */
    arrival_rates_roll(&m->rates, now_ns);
    double rate = arrival_rates_slow(&m->rates);
    m->rate_per_ns = rate / (double)NS_PER_S;
    m->slo_ns = arrival_rates_slo_ns(&m->rates, core->slo_ns);
    policy_update(core);
    if (out->rates_changed)
        out->rates = (struct model_rates){
            .at_ns = now_ns,
            .rate = rate,
            .rate_fast = arrival_rates_fast(&m->rates),
            .arrivals_fast = m->rates.requests_fast,
            .dropped_rate = core->dropped_rate,
            .bad_rate = core->dropped_rate + core->late_rate,
            .slo_ns = m->slo_ns,
            .weight = core->weight,
            .batch_best = m->batch_best,
            .alpha_ns = m->alpha_ns,
            .beta_ns = m->beta_ns,
            .runs_on = runs_on(core),
        };
    refresh(core, now_ns, out);
}

/* When the first of some priority dies, where several wait: its batch may have left it behind. */
static int64_t mixed_wake(const struct model_core *core, const struct deadline_queue *queue, int64_t wake_ns) {
    if (core->policy->deadline_blind || !is_mixed(core, queue))
        return wake_ns;
    for (uint32_t node = queue->head[0]; node != REQUEST_NONE; node = priority_next(core, queue, node)) {
        int64_t latest_ns = latest_start(core, node_at(core, node));
        wake_ns = latest_ns < wake_ns ? latest_ns : wake_ns;
    }
    return wake_ns;
}

static int64_t classes_wake(const struct model_core *core, int64_t wake_ns) {
    wake_ns = mixed_wake(core, &core->queue, wake_ns);
    wake_ns = mixed_wake(core, &core->leftovers, wake_ns);
    if (!core->any_best_effort)
        return wake_ns;
    int64_t latest_ns = latest_start(core, node_at(core, deadline_queue_first(&core->best_effort)));
    return latest_ns < wake_ns ? latest_ns : wake_ns;
}

/* When time alone will change a candidate: a batch shrinks or loses its head, a leftover dies. */
static int64_t wake_time(const struct model_core *core) {
    int64_t wake_ns = TIME_NEVER;
    for (uint32_t t = 0; t < core->view.types; t++) {
        const struct candidate *c = &core->candidates[t];
        if (c->invalid_after_ns < wake_ns)
            wake_ns = c->invalid_after_ns;
        if (candidate_leftovers(c) && c->leftovers_invalid_after_ns < wake_ns)
            wake_ns = c->leftovers_invalid_after_ns;
    }
    if (core->classes)
        wake_ns = classes_wake(core, wake_ns);
    if (core->policy->deadline_blind && core->stranded && core->queue.count)
        wake_ns = node_at(core, deadline_queue_first(&core->queue))->deadline_ns;
    return wake_ns == TIME_NEVER ? wake_ns : wake_ns + 1;
}

void model_core_step(struct model_core *core, int64_t now_ns, const struct model_event *event,
                     struct model_output *out) {
    out->refused = out->batch = REQUEST_NONE;
    out->batch_requests = out->batch_items = 0;
    out->candidate_changed = out->rates_changed = false;
    if (arrival_rates_due(&core->view.rates, now_ns))
        rates_update(core, now_ns, out);
    switch (event->kind) {
    case MODEL_ARRIVED:
    case MODEL_ARRIVING:
        request_arrived(core, now_ns, event->request, out);
        break;
    case MODEL_SETTLED:
        break;
    case MODEL_CANCELLED:
        request_cancelled(core, now_ns, event->request, out);
        break;
    case MODEL_GRANTED:
        accelerator_granted(core, now_ns, event->grant, out);
        break;
    case MODEL_PARAMETERS:
        parameters_set(core, now_ns, event->grant, out);
        break;
    case MODEL_RAN:
        batch_ran(core, now_ns, event->ran, out);
        break;
    case MODEL_DELAYS:
        delays_set(core, now_ns, event->delays.ctrl_ns, event->delays.data_ns, out);
        break;
    case MODEL_TIMER:
        refresh(core, now_ns, out);
        break;
    }
    if (event->kind == MODEL_ARRIVING)
        return;
    if (core->stale || core->grown)
        settle(core, now_ns, out);
    if (core->hopeless)
        tables_relax(core, now_ns, out);
    if (core->changed)
        memcpy(out->candidates, core->candidates, core->view.types * sizeof(*out->candidates));
    out->candidate_changed = core->changed;
    core->changed = core->hopeless = false;
    out->wake_ns = wake_time(core);
}

static void warm(const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += CACHE_LINE)
        __builtin_prefetch((const char *)from + at, 1);
}

void model_core_warm(const struct model_core *core) {
    warm(core, offsetof(struct model_core, view.parameters));
    warm(&core->batches[0], sizeof(core->batches[0]));
    warm(&core->candidates[0], sizeof(core->candidates[0]));
    warm(core->own, CACHE_LINE);
}

void model_core_warm_parameters(const struct model_core *core) {
    warm(core, offsetof(struct model_core, batches));
    warm(&core->batches[0], sizeof(core->batches[0]));
    warm(&core->candidates[0], sizeof(core->candidates[0]));
    warm(core->own, 3 * CACHE_LINE);
}

/* The head's window, and the next batch with one item more and with two. */
void model_core_warm_arrival(const struct model_core *core) {
    const struct model_view *m = &core->view;
    if (core->queue.count) {
        warm(node_at(core, core->queue.tail[0]), CACHE_LINE);
        warm(node_at(core, core->queue.head[0]), CACHE_LINE);
    }
    if (!m->profiles[0])
        return;
    uint32_t items = core->batches[0].items, wanted = core->queue.items + 1;
    __builtin_prefetch(&m->profiles[0]->latency_ns[wanted < m->target_items ? wanted : m->target_items]);
    __builtin_prefetch(&m->profiles[0]->latency_ns[items + 1]);
    __builtin_prefetch(&m->profiles[0]->latency_ns[items + 2]);
}

uint32_t model_core_warm_batch(const struct model_core *core, uint32_t node) {
    if (node == REQUEST_NONE)
        node = core->queue.count ? deadline_queue_first(&core->queue) : REQUEST_NONE;
    else
        node = deadline_queue_next(core->pool->nodes, node);
    if (node != REQUEST_NONE)
        warm(node_at(core, node), CACHE_LINE);
    return node;
}

bool model_core_idle(const struct model_core *core) {
    return model_core_queued(core) == 0;
}

uint32_t model_core_queued(const struct model_core *core) {
    return core->queue.count + core->leftovers.count + core->best_effort.count;
}

uint32_t model_core_items(const struct model_core *core, uint32_t type) {
    return core->batches[type].start == REQUEST_NONE ? 0 : core->batches[type].items;
}

const struct profile *model_core_profile(const struct model_core *core, uint32_t type) {
    return core->view.profiles[type];
}
