/* live.h - rates and quantiles over the last seconds, from counts that only grow: for whoever looks at a server now and
 * then. Pure; owned by one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/util/time.h"

#define LIVE_TURN_NS  (2 * NS_PER_S)  /* a look is compared with one that was 2 to 4 s before */
#define LIVE_ALONE_NS (10 * NS_PER_S) /* looks further apart than this are compared with each other */

/* The looks that the next one is compared with; zeroed at first: since the server's start, at `base_ns`. */
struct live_window {
    int64_t before_ns, base_ns;
};

/* Whether, after a look at now_ns, `before` becomes what `base` was, and `base` what was seen now; *both: both become
 * what was seen now. */
bool live_window_turn(struct live_window *window, int64_t now_ns, bool *both);

/* A row of counts at the looks before: `before` and `base`, [count] each. */
struct live_counts {
    uint64_t *before, *base;
};

/* How much a count has grown since the look before; what is less than it was is another model's, and counts from 0. */
static inline uint64_t live_grown(uint64_t before, uint64_t now) {
    return now >= before ? now - before : now;
}

/* What a histogram had at a look, modulo 2^32. */
struct live_histogram {
    uint32_t *base; /* [buckets] NULL: nothing, as at the start */
    int64_t at_ns;
    double p50, p99; /* of what came between the last two looks, in the values' unit; negative: nothing came */
};

/* Compares `now` ([buckets]) with the look before, and keeps it. `edge` says the greatest value of a bucket. */
void live_histogram_look(struct live_histogram *histogram, const uint32_t *now, uint32_t buckets,
                         int64_t (*edge)(uint32_t bucket), int64_t now_ns);
