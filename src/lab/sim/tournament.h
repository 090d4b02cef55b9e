/* tournament.h - finds the least of some int64 keys, which change one at a time; of equal keys, that of the lowest
 * item.
 *
 *              [1] the least
 *          [2]         [3]       each node holds the lesser of the two below it; a change goes up level by
 *        [4] [5]     [6] [7]     level, past nodes that can be read in advance
 *         0   1       2   3
 *
 * Compared with a heap (core/util/heap.h), entries do not move, so that no table of their positions is needed, and
 * there is no branch to predict; but every change visits all levels. Memory is the caller's. Not thread-safe. */
#pragma once

#include <stdint.h>

#include "core/util/arena.h"

#define TOURNAMENT_ABSENT INT64_MAX /* the key of an item that does not take part */

struct tournament_entry {
    int64_t key;
    uint32_t item;
};

struct tournament {
    struct tournament_entry *nodes; /* [2 * leaves] nodes; the first is not used */
    uint32_t leaves;                /* number of leaves, a power of two */
};

/* Takes room for `count` items, none of which takes part yet. While the arena only counts, nothing is set. */
static inline void tournament_take(struct arena *arena, struct tournament *t, uint32_t count) {
    uint32_t leaves = 1;
    while (leaves < count)
        leaves *= 2;
    struct tournament_entry *nodes = arena_take(arena, 2 * (size_t)leaves * sizeof(*nodes));
    for (uint32_t i = 0; arena->base && i < 2 * leaves; i++)
        nodes[i] = (struct tournament_entry){TOURNAMENT_ABSENT, 0};
    if (arena->base)
        *t = (struct tournament){nodes, leaves};
}

/* Gives an item a key from 0 to TOURNAMENT_ABSENT. */
static inline void tournament_set(struct tournament *t, uint32_t item, int64_t key) {
    struct tournament_entry *nodes = t->nodes;
    uint32_t at = t->leaves + item;
    nodes[at] = (struct tournament_entry){key, item};
    while (at > 1) {
        struct tournament_entry other = nodes[at ^ 1];
        int64_t loses = -(int64_t)(other.key - (at & 1) < key); /* all ones or none; if equal, the left one wins */
        key ^= (key ^ other.key) & loses;
        item ^= (item ^ other.item) & (uint32_t)loses;
        at /= 2;
        nodes[at] = (struct tournament_entry){key, item};
    }
}

/* The entry with the least key, which is TOURNAMENT_ABSENT if no item takes part. */
static inline struct tournament_entry tournament_top(const struct tournament *t) {
    return t->nodes[1];
}
