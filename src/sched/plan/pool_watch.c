/* pool_watch.c - the sizes of the last queries, and the pool for them. */
#include "sched/plan/pool_watch.h"

#include <string.h>

void pool_watch_layout(struct pool_watch *watch, struct arena *arena, uint32_t items_max) {
    uint16_t *sizes = arena_take(arena, POOL_WATCH_QUERIES * sizeof(*sizes));
    uint32_t *count = arena_take(arena, (items_max + 1) * sizeof(*count));
    double *up_to = arena_take(arena, (items_max + 1) * sizeof(*up_to));
    if (!arena->base)
        return;
    memset(count, 0, (items_max + 1) * sizeof(*count));
    *watch = (struct pool_watch){
        .items_max = items_max, .due = POOL_WATCH_EVERY, .sizes = sizes, .count = count, .up_to = up_to};
}

bool pool_watch_count(struct pool_watch *watch, uint32_t items) {
    if (watch->queries == POOL_WATCH_QUERIES)
        watch->count[watch->sizes[watch->next]]--;
    else
        watch->queries++;
    watch->sizes[watch->next] = (uint16_t)items;
    watch->next = (watch->next + 1) % POOL_WATCH_QUERIES;
    watch->count[items]++;
    if (--watch->due)
        return false;
    watch->due = POOL_WATCH_EVERY;
    return true;
}

void pool_watch_choose(struct pool_watch *watch, const struct pool_input *input) {
    struct pool_input of = *input;
    struct pool_rates rates;
    struct pool_config picked;
    uint32_t sum = 0, items = 0;
    while (sum < watch->queries) {
        watch->up_to[items] = (double)sum / watch->queries;
        sum += watch->count[++items];
    }
    watch->up_to[items] = 1;
    of.items_max = items;
    of.up_to = watch->up_to;
    uint32_t base = pool_base(&of);
    if (base == POOL_BASE_NONE)
        return;
    pool_rates_derive(&of, base, &rates);
    if (!pool_pick(&of, &rates, &picked))
        return;
    memcpy(watch->wanted, picked.count, sizeof(watch->wanted));
    watch->chosen = true;
}
