/* pool_watch.h - which pool the last queries ask for (Kairos, HPDC '23, section 5.2): their sizes are learned while
 * they are served, and the pool is chosen again and again (pool.h). Pure. */
#pragma once

#include "core/util/arena.h"
#include "sched/plan/pool.h"

#define POOL_WATCH_QUERIES 10000 /* last queries whose sizes count, as in the paper */
#define POOL_WATCH_EVERY   1000  /* queries between two choices */

struct pool_watch {
    uint32_t items_max, queries, next; /* queries in the circle; the place of the next one */
    uint32_t due;                      /* queries until the next choice */
    uint16_t *sizes;                   /* [POOL_WATCH_QUERIES] circle of the queries' sizes */
    uint32_t *count;                   /* [items_max + 1] queries in the circle, by size */
    double *up_to;                     /* [items_max + 1] of pool_input */
    bool chosen;
    uint16_t wanted[POOL_TYPES_MAX]; /* if `chosen`: how many instances of each type there should be */
};

/* Takes memory for queries of up to items_max, at most UINT16_MAX. An arena that only counts: the watch is not set. */
void pool_watch_layout(struct pool_watch *watch, struct arena *arena, uint32_t items_max);
/* Counts a query of 1 to items_max. True: a choice is due. */
bool pool_watch_count(struct pool_watch *watch, uint32_t items);
/* Chooses by the sizes of the last queries; at least one has come. `input` is complete but for items_max and up_to.
 * Where nothing can be chosen (pool_base(), pool_pick()) the last choice stays. */
void pool_watch_choose(struct pool_watch *watch, const struct pool_input *input);
