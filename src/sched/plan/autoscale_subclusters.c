/* autoscale_subclusters.c - advice for each sub-cluster, and for all. */
#include "sched/plan/autoscale_subclusters.h"

void autoscale_subclusters_init(struct autoscale_subclusters *p, const struct autoscale_config *config, uint32_t count,
                                struct autoscale *of) {
    struct autoscale_config each = *config;
    each.min = config->min > 0; /* the rest of `min` may be anywhere */
    p->count = count;
    p->of = of;
    autoscale_init(&p->all, config);
    for (uint32_t k = 0; k < count && count > 1; k++)
        autoscale_init(&of[k], &each);
}

uint32_t autoscale_subclusters_look(struct autoscale_subclusters *p, const struct autoscale_seen *all,
                                    const struct autoscale_seen *seen, uint32_t *wanted_of) {
    uint32_t wanted = autoscale_look(&p->all, all), sum = 0, max = p->all.config.max;
    for (uint32_t k = 0; k < p->count && p->count > 1; k++) {
        wanted_of[k] = autoscale_look(&p->of[k], &seen[k]);
        sum = wanted_of[k] < max - sum ? sum + wanted_of[k] : max;
    }
    return sum > wanted ? sum : wanted;
}
