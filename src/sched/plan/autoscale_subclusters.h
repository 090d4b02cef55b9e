/* autoscale_subclusters.h - how many accelerators there should be in a cluster of sub-clusters. Pure.
 *
 * A sub-cluster cannot use another sub-cluster's accelerators. So each sub-cluster is looked at by itself: its own
 * load, rounded up to whole accelerators. The total is the sum of all sub-clusters, but never less than autoscale.h
 * says of the whole cluster. For an accelerator that was added by the sum may have joined another sub-cluster than the
 * one that lacks it; then only the bad requests of the whole cluster show that more are needed. */
#pragma once

#include "sched/plan/autoscale.h"

#define AUTOSCALE_SUBCLUSTERS_MAX 64

struct autoscale_subclusters {
    uint32_t count; /* sub-clusters; 1: only `all` is used */
    struct autoscale all;
    struct autoscale *of; /* [count] sub-clusters, if there are several */
};

/* `of`: memory of the caller's for `count` sub-clusters; may be NULL if `count` is 1. */
void autoscale_subclusters_init(struct autoscale_subclusters *subclusters, const struct autoscale_config *config,
                                uint32_t count, struct autoscale *of);
/* One look at the whole cluster and, if there are several sub-clusters, at each of them: seen[count]. Then sets
 * wanted_of[count]. Returns how many accelerators there should be in all. */
uint32_t autoscale_subclusters_look(struct autoscale_subclusters *subclusters, const struct autoscale_seen *all,
                                    const struct autoscale_seen *seen, uint32_t *wanted_of);
