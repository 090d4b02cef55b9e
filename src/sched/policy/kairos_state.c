/* kairos_state.c - the state of the policy `kairos`: its memory, queues and expected latencies. */
#include "core/util/assert.h"
#include "sched/plan/matching.h"
#include "sched/policy/kairos.h"

static void lay_out(struct kairos *k, struct arena *arena, const struct central_config *config) {
    double wanted = config->options->value[KAIROS_WINDOW] * config->accelerators;
    uint32_t rows = wanted < 1 ? 1 : wanted < KAIROS_ROWS_MAX ? (uint32_t)wanted : KAIROS_ROWS_MAX;
    uint32_t n = config->accelerators;
    k->rows_max = rows;
    k->models = arena_take(arena, config->model_count * sizeof(*k->models));
    k->instances = arena_take(arena, n * sizeof(*k->instances));
    k->cost = arena_take(arena, (size_t)rows * n * sizeof(*k->cost));
    k->rows = arena_take(arena, rows * sizeof(*k->rows));
    k->columns = arena_take(arena, n * sizeof(*k->columns));
    k->column_of = arena_take(arena, rows * sizeof(*k->column_of));
    k->matching = arena_take(arena, matching_bytes(rows, n));
    for (uint32_t m = 0; m < config->model_count; m++)
        for (uint32_t t = 0; t < config->types; t++) {
            if (!config->models[m].profiles[t])
                continue;
            void *latency = arena_take(arena, kairos_latency_bytes(config->models[m].batch_max));
            if (arena->base)
                k->models[m].latency[t] = latency;
        }
    kairos_pool_layout(k, arena, config);
}

size_t kairos_bytes(const struct central_config *config) {
    struct kairos k;
    struct arena arena = {0};
    arena_take(&arena, sizeof(struct kairos));
    lay_out(&k, &arena, config);
    return arena.used;
}

/* ---- latencies ---- */

void kairos_coefficients(struct kairos *k, struct kairos_model *model) {
    int64_t least_ns = INT64_MAX, largest_ns[CENTRAL_TYPES_MAX];
    bool any = false;
    for (uint32_t t = 0; t < k->types; t++) {
        if (!model->runs_on[t])
            continue;
        largest_ns[t] = kairos_latency_ns(model->latency[t], model->items_max);
        if (!any || (largest_ns[t] > 0 && largest_ns[t] < least_ns))
            model->base = t;
        any = true;
        if (largest_ns[t] > 0 && largest_ns[t] < least_ns)
            least_ns = largest_ns[t];
    }
    for (uint32_t t = 0; t < k->types; t++)
        if (model->runs_on[t])
            model->coefficient[t] = largest_ns[t] > 0 ? (double)least_ns / (double)largest_ns[t] : 1;
}

int64_t kairos_span_ns(const struct kairos *k, uint32_t node, uint32_t type) {
    uint32_t items = kairos_node(k, node)->items;
    return k->ctrl_ns + k->data_ns * items +
           kairos_latency_ns(k->models[kairos_model_of(k, node)].latency[type], items);
}

/* Nearly Gaussian, with mean 0 and deviation 1: the sum of twelve uniform numbers. */
static double gaussian(struct rng *rng) {
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += rng_uniform(rng);
    return sum;
}

int64_t kairos_predicted_ns(const struct kairos *k, uint32_t node, uint32_t type) {
    int64_t span_ns = kairos_span_ns(k, node, type);
    double noise = k->options.value[KAIROS_NOISE];
    if (noise <= 0)
        return span_ns;
    struct rng rng; /* generator, seeded so that a query always has the same error */
    rng_seed(&rng, k->seed + kairos_node(k, node)->handle * ACCELERATOR_TYPES_MAX + type);
    double factor = 1 + noise * gaussian(&rng);
    return factor > 0 ? (int64_t)((double)span_ns * factor) : 0;
}

void kairos_init(void *core, const struct central_config *config, struct request_pool *pool) {
    struct kairos *k = core;
    struct arena arena = {.base = core};
    arena_take(&arena, sizeof(struct kairos));
    lay_out(k, &arena, config);
    k->options = *config->options;
    k->pool = pool;
    k->model_count = config->model_count;
    k->instance_count = k->idle_count = config->accelerators;
    k->types = config->types;
    k->ctrl_ns = config->ctrl_ns;
    k->data_ns = config->data_ns;
    k->late_refused = (int)k->options.value[KAIROS_LATE] == KAIROS_LATE_REFUSE;
    k->seed = config->seed;
    k->queue = (struct kairos_queue){REQUEST_NONE, REQUEST_NONE, 0};
    k->wake_ns = TIME_NEVER;
    for (uint32_t i = 0; i < k->instance_count; i++) {
        CHECK_LT(config->accelerator_type[i], k->types);
        k->instances[i] = (struct kairos_instance){
            .type = config->accelerator_type[i],
            .up = true,
            .queue = {REQUEST_NONE, REQUEST_NONE, 0},
        };
        k->up_count[config->accelerator_type[i]]++;
    }
    bool from_profile = (int)k->options.value[KAIROS_START] == KAIROS_START_PROFILE;
    for (uint32_t m = 0; m < k->model_count; m++) {
        struct kairos_model *model = &k->models[m];
        model->items_max = config->models[m].batch_max;
        for (uint32_t t = 0; t < k->types; t++) {
            const struct profile *profile = config->models[m].profiles[t];
            model->runs_on[t] = profile != NULL;
            if (profile)
                kairos_latency_init(model->latency[t], model->items_max, from_profile ? profile : NULL);
        }
        kairos_coefficients(k, model);
        kairos_climb_init(k, m);
    }
    kairos_stranded(k);
}

void kairos_stranded(struct kairos *k) {
    k->stranded = false;
    for (uint32_t m = 0; m < k->model_count && !k->stranded; m++) {
        bool served = false;
        for (uint32_t t = 0; t < k->types; t++)
            served |= k->models[m].runs_on[t] && k->up_count[t];
        k->stranded = !served;
    }
}

/* ---- queues ---- */

void kairos_queue_append(struct kairos *k, struct kairos_queue *queue, uint32_t node) {
    kairos_node(k, node)->links[KAIROS_PREVIOUS] = queue->last;
    kairos_node(k, node)->links[KAIROS_NEXT] = REQUEST_NONE;
    if (queue->last == REQUEST_NONE)
        queue->first = node;
    else
        kairos_node(k, queue->last)->links[KAIROS_NEXT] = node;
    queue->last = node;
    queue->count++;
}

void kairos_queue_remove(struct kairos *k, struct kairos_queue *queue, uint32_t node) {
    uint32_t previous = kairos_node(k, node)->links[KAIROS_PREVIOUS], next = kairos_next(k, node);
    if (previous == REQUEST_NONE)
        queue->first = next;
    else
        kairos_node(k, previous)->links[KAIROS_NEXT] = next;
    if (next == REQUEST_NONE)
        queue->last = previous;
    else
        kairos_node(k, next)->links[KAIROS_PREVIOUS] = previous;
    queue->count--;
}

void kairos_instance_append(struct kairos *k, struct kairos_instance *instance, uint32_t node) {
    int64_t span_us = kairos_span_ns(k, node, instance->type) / NS_PER_US + 1;
    kairos_node(k, node)->links[KAIROS_SPAN_US] = span_us < UINT32_MAX ? (uint32_t)span_us : UINT32_MAX;
    kairos_queue_append(k, &instance->queue, node);
    instance->queue_us += kairos_node(k, node)->links[KAIROS_SPAN_US];
}

void kairos_instance_remove(struct kairos *k, struct kairos_instance *instance, uint32_t node) {
    kairos_queue_remove(k, &instance->queue, node);
    instance->queue_us -= kairos_node(k, node)->links[KAIROS_SPAN_US];
}
