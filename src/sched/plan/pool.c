/* pool.c - upper bounds of configurations, and choosing by them. */
#include "sched/plan/pool.h"

#include <stdlib.h>
#include <string.h>

#include "core/util/time.h"

#define ALIKE_FIRST 3  /* the similarity rule: first configurations that, if alike, need no comparison */
#define ALIKE_AMONG 10 /* the similarity rule: configurations that are compared otherwise */

/* ---- rates ---- */

static double share_of(const struct pool_input *input, uint32_t items) {
    return input->up_to[items] - input->up_to[items - 1];
}

/* Queries per second of sizes in (over, up_to], one after the other on one instance; 0: no query has such a size. */
static double qps_between(const struct pool_input *input, uint32_t type, uint32_t over, uint32_t up_to) {
    double share = 0, ns = 0;
    for (uint32_t items = over + 1; items <= up_to; items++) {
        share += share_of(input, items);
        ns += share_of(input, items) * (double)input->type[type].latency_ns[items];
    }
    return ns > 0 ? share * (double)NS_PER_S / ns : 0;
}

/* The largest size that the type serves within the SLO. */
static uint32_t size_within(const struct pool_input *input, uint32_t type) {
    uint32_t items = 0;
    if (input->type[type].latency_ns)
        while (items < input->items_max && input->type[type].latency_ns[items + 1] <= input->slo_ns)
            items++;
    return items;
}

uint32_t pool_base(const struct pool_input *input) {
    uint32_t base = POOL_BASE_NONE;
    double most = 0;
    for (uint32_t t = 0; t < input->types; t++) {
        if (size_within(input, t) < input->items_max)
            continue;
        double worth = qps_between(input, t, 0, input->items_max) / input->type[t].price;
        if (worth > most) {
            most = worth;
            base = t;
        }
    }
    return base;
}

void pool_rates_derive(const struct pool_input *input, uint32_t base, struct pool_rates *rates) {
    *rates = (struct pool_rates){
        .types = input->types,
        .base = base,
        .base_qps = qps_between(input, base, 0, input->items_max),
    };
    for (uint32_t t = 0; t < input->types; t++)
        rates->size[t] = size_within(input, t);
    for (uint32_t t = 0; t < input->types; t++) {
        rates->small[t] = input->up_to[rates->size[t]];
        rates->base_large_qps[t] = qps_between(input, base, rates->size[t], input->items_max);
        for (uint32_t i = 0; i < input->types; i++)
            if (input->type[i].latency_ns)
                rates->small_qps[i][t] = qps_between(input, i, 0, rates->size[t]);
    }
}

double pool_bound(const struct pool_rates *rates, const uint16_t *count) {
    uint32_t wide = rates->base; /* auxiliary type with the largest s, whose s and f count for all (f'); or the base */
    for (uint32_t t = 0; t < rates->types; t++)
        if (t != rates->base && count[t] && (wide == rates->base || rates->size[t] > rates->size[wide]))
            wide = t;
    double f = rates->small[wide], base = count[rates->base], small = 0;
    if (wide == rates->base || f <= 0)
        return base * rates->base_qps;
    for (uint32_t t = 0; t < rates->types; t++)
        if (t != rates->base && rates->size[t]) /* what serves nothing adds nothing */
            small += count[t] * rates->small_qps[t][wide];
    double large = base * rates->base_large_qps[wide], needed = small * (1 - f) / f; /* eq. 14 */
    if (f >= 1) /* nothing is left to the base type */
        return small + base * rates->base_qps;
    if (large <= needed)
        return large / (1 - f);
    return small / f + (large - needed) / large * base * rates->base_qps;
}

/* ---- configurations ---- */

static double price_of(const struct pool_input *input, const uint16_t *count) {
    double price = 0;
    for (uint32_t t = 0; t < input->types; t++)
        price += count[t] * input->type[t].price;
    return price;
}

/* The next configuration under the budget, the last type counting fastest; false after the last. */
static bool config_next(const struct pool_input *input, uint16_t *count) {
    for (uint32_t t = input->types; t-- > 0;) {
        if (count[t] < UINT16_MAX) {
            count[t]++;
            uint32_t most = input->type[t].count_max ? input->type[t].count_max : UINT16_MAX;
            bool allowed = input->type[t].latency_ns ? count[t] <= most : count[t] == 0;
            /* A sum of prices that is over the budget by rounding alone is within it. */
            if (allowed && price_of(input, count) <= input->budget * (1 + 1e-9))
                return true;
        }
        count[t] = 0;
    }
    return false;
}

/* Counts all configurations, and writes them to `configs` unless that is NULL. */
static size_t configs_walk(const struct pool_input *input, const struct pool_rates *rates,
                           struct pool_config *configs) {
    uint16_t count[POOL_TYPES_MAX] = {0};
    size_t n = 0;
    for (size_t seen = 0; config_next(input, count); seen++) {
        if (seen == POOL_CONFIGS_MAX)
            return POOL_CONFIGS_MAX + 1;
        double bound = pool_bound(rates, count);
        if (bound <= 0)
            continue;
        if (configs) {
            configs[n] = (struct pool_config){.price = price_of(input, count), .bound = bound};
            memcpy(configs[n].count, count, sizeof(count));
        }
        n++;
    }
    return n;
}

size_t pool_count(const struct pool_input *input, const struct pool_rates *rates) {
    return configs_walk(input, rates, NULL);
}

static int config_compare(const void *left, const void *right) {
    const struct pool_config *a = left, *b = right;
    if (a->bound != b->bound)
        return a->bound > b->bound ? -1 : 1;
    if (a->price != b->price)
        return a->price < b->price ? -1 : 1;
    for (uint32_t t = 0; t < POOL_TYPES_MAX; t++)
        if (a->count[t] != b->count[t])
            return a->count[t] > b->count[t] ? -1 : 1;
    return 0;
}

void pool_rank(const struct pool_input *input, const struct pool_rates *rates, struct pool_config *configs) {
    qsort(configs, configs_walk(input, rates, configs), sizeof(*configs), config_compare);
}

static uint64_t distance(const struct pool_config *a, const struct pool_config *b) {
    uint64_t sum = 0;
    for (uint32_t t = 0; t < POOL_TYPES_MAX; t++) {
        int64_t apart = (int64_t)a->count[t] - b->count[t];
        sum += (uint64_t)(apart * apart);
    }
    return sum;
}

size_t pool_choose(const struct pool_rates *rates, const struct pool_config *configs, size_t count) {
    bool alike = true;
    for (size_t i = 1; i < count && i < ALIKE_FIRST; i++)
        alike &= configs[i].count[rates->base] == configs[0].count[rates->base];
    if (alike)
        return 0;
    size_t among = count < ALIKE_AMONG ? count : ALIKE_AMONG, best = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < among; i++) {
        uint64_t sum = 0;
        for (size_t k = 0; k < among; k++)
            sum += distance(&configs[i], &configs[k]);
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    return best;
}

bool pool_pick(const struct pool_input *input, const struct pool_rates *rates, struct pool_config *picked) {
    struct pool_config first[ALIKE_AMONG + 1], config = {.price = 0};
    size_t n = 0, seen = 0;
    for (; config_next(input, config.count); seen++) {
        if (seen == POOL_PICK_MOST)
            return false;
        config.bound = pool_bound(rates, config.count);
        config.price = price_of(input, config.count);
        if (config.bound <= 0)
            continue;
        size_t at = n < ALIKE_AMONG ? n++ : ALIKE_AMONG;
        for (; at > 0 && config_compare(&config, &first[at - 1]) < 0; at--)
            first[at] = first[at - 1];
        first[at] = config;
    }
    if (n)
        *picked = first[pool_choose(rates, first, n)];
    return n > 0;
}

uint32_t pool_homogeneous(const struct pool_input *input, const struct pool_rates *rates, double *qps) {
    const struct pool_type *base = &input->type[rates->base];
    uint32_t count = (uint32_t)(input->budget * (1 + 1e-9) / base->price);
    if (base->count_max && count > base->count_max)
        count = base->count_max;
    *qps = count * rates->base_qps;
    return count;
}

/* ---- Kairos+ ---- */

/* Whether instances can be added to `part` to make `whole`. */
static bool part_of(const struct pool_config *part, const struct pool_config *whole, uint32_t types) {
    for (uint32_t t = 0; t < types; t++)
        if (part->count[t] > whole->count[t])
            return false;
    return true;
}

static void prune(struct pool_config *configs, size_t count, uint32_t types, size_t evaluated, double best) {
    for (size_t i = 0; i < count; i++) {
        if (configs[i].status != POOL_OPEN)
            continue;
        if (configs[i].bound <= best)
            configs[i].status = POOL_BOUND_PRUNED;
        else if (part_of(&configs[i], &configs[evaluated], types))
            configs[i].status = POOL_PART_PRUNED;
    }
}

size_t pool_search(struct pool_config *configs, size_t count, uint32_t types, pool_evaluate *evaluate, void *context,
                   size_t *best) {
    size_t evaluations = 0;
    double best_qps = 0;
    *best = count;
    for (size_t i = 0; i < count; i++)
        configs[i].status = POOL_OPEN;
    for (size_t i = 0; i < count; i++) {
        if (configs[i].status != POOL_OPEN)
            continue;
        double qps = evaluate(context, &configs[i]);
        if (qps < 0)
            break;
        configs[i].evaluated = qps;
        configs[i].status = POOL_EVALUATED;
        evaluations++;
        if (*best == count || qps > best_qps) {
            best_qps = qps;
            *best = i;
        }
        prune(configs, count, types, i, best_qps);
    }
    return evaluations;
}
