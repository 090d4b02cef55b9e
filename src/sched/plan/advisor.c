/* advisor.c - looks at the load. */
#include "sched/plan/advisor.h"

void advisor_init(struct advisor *a, const struct autoscale_config *config, uint32_t subclusters, int64_t now_ns) {
    *a = (struct advisor){.looked_ns = now_ns};
    autoscale_subclusters_init(&a->autoscale, config, subclusters, a->subclusters);
}

bool advisor_due(const struct advisor *a, int64_t now_ns) {
    return now_ns - a->looked_ns > a->autoscale.all.config.every_ns - ADVISOR_TICK_NS / 2;
}

static void seen_mend(struct autoscale_seen *seen) {
    seen->bad = seen->bad < seen->requests ? seen->bad : seen->requests; /* the two are not read at the same moment */
    if (seen->requests == 0 && seen->needed < ADVISOR_NEEDED_LEAST)
        seen->needed = 0;
}

void advisor_look(struct advisor *a, int64_t now_ns, const struct advisor_load *load) {
    struct advisor_load seen = *load;
    seen_mend(&seen.all);
    for (uint32_t k = 0; k < a->autoscale.count; k++)
        seen_mend(&seen.subclusters[k]);
    a->bad_rate = seen.all.requests ? (double)seen.all.bad / (double)seen.all.requests : 0;
    a->wanted = autoscale_subclusters_look(&a->autoscale, &seen.all, seen.subclusters, a->wanted_of);
    if (a->wanted == 0 && (seen.all.requests > 0 || seen.all.needed > 0))
        a->wanted = 1; /* with a least of 0: any load needs one */
    a->advises = true;
    a->looked_ns = now_ns;
}
