/* autoscale_parts.h - how many accelerators there should be in a cluster of sub-clusters ("parts"). Pure.
 *
 * A part cannot use another part's accelerators. So each part is looked at by itself: its own load, rounded up to whole
 * accelerators. The total is the sum of all parts, but never less than autoscale.h says of the whole cluster. For an
 * accelerator that was added by the sum may have joined another part than the one that lacks it; then only the bad
 * requests of the whole cluster show that more are needed. */
#pragma once

#include "sched/plan/autoscale.h"

#define AUTOSCALE_PARTS_MAX 64

struct autoscale_parts {
    uint32_t count; /* parts; 1: only `all` is used */
    struct autoscale all;
    struct autoscale *of; /* [count] parts, if there are several */
};

/* `of`: memory of the caller's for `count` parts; may be NULL if `count` is 1. */
void autoscale_parts_init(struct autoscale_parts *parts, const struct autoscale_config *config, uint32_t count,
                          struct autoscale *of);
/* One look at the whole cluster and, if there are several parts, at each of them: seen[count]. Then sets
 * wanted_of[count]. Returns how many accelerators there should be in all. */
uint32_t autoscale_parts_look(struct autoscale_parts *parts, const struct autoscale_seen *all,
                              const struct autoscale_seen *seen, uint32_t *wanted_of);
