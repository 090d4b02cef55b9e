/* autoscale_parts.h - how many accelerators there should be in a cluster of sub-clusters ("parts"). Pure.
 *
 * A part cannot use another's accelerators. So each is looked at for itself: its own load, rounded up to whole
 * accelerators. What is wanted in all is the sum, but never less than autoscale.h says of the whole cluster: whoever
 * follows the sum may put an accelerator into another part than the one that lacks it; then only the bad requests of
 * the whole cluster show that more are needed. */
#pragma once

#include "sched/plan/autoscale.h"

#define AUTOSCALE_PARTS_MAX 64

struct autoscale_parts {
    uint32_t count; /* of parts; with one there is only `all` */
    struct autoscale all;
    struct autoscale *of; /* [count] with several */
};

/* `of`: memory for `count` parts, of the caller's; with one it may be NULL. */
void autoscale_parts_init(struct autoscale_parts *parts, const struct autoscale_config *config, uint32_t count,
                          struct autoscale *of);
/* One look, at the whole cluster and, if there are several, at its parts: seen[count]. Sets wanted_of[count], unless
 * there is one part only. Returns how many there should be in all. */
uint32_t autoscale_parts_look(struct autoscale_parts *parts, const struct autoscale_seen *all,
                              const struct autoscale_seen *seen, uint32_t *wanted_of);
