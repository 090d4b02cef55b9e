/* kairos_pool.c - the pool chosen again while it serves (section 5.2): by the sizes of the last queries, the latencies
 * as learned, the types' prices and a budget. For one model: the bound of a pool is one model's. */
#include "sched/policy/kairos.h"

double kairos_pool_budget(const struct policy_options *options) {
    return options->value[KAIROS_BUDGET];
}

void kairos_pool_layout(struct kairos *k, struct arena *arena, const struct central_config *config) {
    double budget = kairos_pool_budget(config->options);
    bool watched = config->model_count == 1 && config->price && budget > 0 && config->types <= POOL_TYPES_MAX;
    uint32_t sizes = watched ? config->models[0].batch_max + 1 : 0;
    for (uint32_t t = 0; t < config->types && watched; t++)
        watched = config->price[t] >= budget / POOL_INSTANCES_MAX;
    for (uint32_t t = 0; t < config->types && watched; t++) {
        int64_t *span_ns = arena_take(arena, sizes * sizeof(*span_ns));
        if (arena->base)
            k->pool_span_ns[t] = span_ns;
    }
    if (watched)
        pool_watch_layout(&k->pool_watch, arena, sizes - 1);
    if (arena->base && watched)
        k->pool_input = (struct pool_input){
            .types = config->types,
            .slo_ns = config->models[0].slo_ns,
            .budget = budget,
        };
    for (uint32_t t = 0; t < config->types && arena->base && watched; t++)
        k->pool_input.type[t].price = config->price[t];
}

/* Sets how long a query of each size takes on a type, delays included; bounds want it never to fall. */
static void spans_set(struct kairos *k, uint32_t type) {
    const struct kairos_model *model = &k->models[0];
    struct pool_type *to = &k->pool_input.type[type];
    int64_t *span_ns = k->pool_span_ns[type], most_ns = 0;
    to->latency_ns = NULL;
    for (uint32_t items = 1; model->runs_on[type] && items <= model->items_max; items++) {
        int64_t run_ns = kairos_latency_ns(model->latency[type], items);
        if (run_ns == 0)
            return; /* nothing is known of the type yet */
        run_ns += k->ctrl_ns + k->data_ns * items;
        most_ns = run_ns > most_ns ? run_ns : most_ns;
        span_ns[items] = most_ns;
        to->latency_ns = span_ns;
    }
}

void kairos_pool_count(struct kairos *k, uint32_t items) {
    if (k->pool_input.types == 0 || !pool_watch_count(&k->pool_watch, items))
        return;
    for (uint32_t t = 0; t < k->types; t++)
        spans_set(k, t);
    pool_watch_choose(&k->pool_watch, &k->pool_input);
}

const uint16_t *kairos_pool_wanted(const void *core) {
    const struct kairos *k = core;
    return k->pool_watch.chosen ? k->pool_watch.wanted : NULL;
}
