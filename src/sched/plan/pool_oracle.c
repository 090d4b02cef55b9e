/* pool_oracle.c - the throughput of a pool that knows all queries from the beginning. */
#include <stdlib.h>

#include "core/util/assert.h"
#include "core/util/time.h"
#include "sched/plan/pool.h"

struct oracle {
    uint32_t *left; /* [items_max + 1] queries that are left, by size */
    uint32_t smallest, largest;
    uint64_t queries; /* queries that are left */
};

/* The next query's size for a type, taken away; 0: there is none for it. */
static uint32_t oracle_take(struct oracle *oracle, const struct pool_rates *rates, uint32_t type) {
    while (oracle->smallest < oracle->largest && !oracle->left[oracle->smallest])
        oracle->smallest++;
    while (oracle->largest > oracle->smallest && !oracle->left[oracle->largest])
        oracle->largest--;
    uint32_t items = type == rates->base ? oracle->largest : oracle->smallest;
    if (!oracle->queries || items > rates->size[type])
        return 0;
    oracle->left[items]--;
    oracle->queries--;
    return items;
}

double pool_oracle(const struct pool_input *input, const struct pool_rates *rates, const uint16_t *count,
                   uint32_t queries) {
    int64_t end_ns = 0;
    uint32_t n = 0, first, instances = 0;
    for (uint32_t t = 0; t < input->types; t++)
        instances += count[t];
    int64_t *free_ns = malloc((instances + 1) * (sizeof(*free_ns) + sizeof(uint8_t)));
    CHECK_MEMORY(free_ns);
    uint8_t *type = (uint8_t *)(free_ns + instances + 1);
    for (uint32_t t = 0; t < input->types; t++)
        for (uint32_t i = 0; i < count[t]; i++) {
            free_ns[n] = 0;
            type[n++] = (uint8_t)t;
        }
    struct oracle oracle = {.smallest = 1, .largest = input->items_max};
    oracle.left = calloc(input->items_max + 1, sizeof(*oracle.left));
    CHECK_MEMORY(oracle.left);
    for (uint32_t items = 1; items <= input->items_max; items++) {
        uint64_t before = (uint64_t)(input->up_to[items - 1] * queries + 0.5);
        oracle.left[items] = (uint32_t)((uint64_t)(input->up_to[items] * queries + 0.5) - before);
        oracle.queries += oracle.left[items];
    }
    uint64_t all = oracle.queries;
    while (oracle.queries) {
        first = 0;
        for (uint32_t i = 1; i < n; i++)
            if (free_ns[i] < free_ns[first])
                first = i;
        if (!n || free_ns[first] == TIME_NEVER)
            break;
        uint32_t items = oracle_take(&oracle, rates, type[first]);
        free_ns[first] = items ? free_ns[first] + input->type[type[first]].latency_ns[items] : TIME_NEVER;
        if (items && free_ns[first] > end_ns)
            end_ns = free_ns[first];
    }
    bool served = oracle.queries == 0;
    free(oracle.left);
    free(free_ns);
    return served && end_ns > 0 ? (double)all * (double)NS_PER_S / (double)end_ns : 0;
}
