/* advisor.c - looks at the load. */
#include "plan/advisor.h"

void advisor_init(struct advisor *a, const struct autoscale_config *config, int64_t now_ns) {
    *a = (struct advisor){.looked_ns = now_ns};
    autoscale_init(&a->autoscale, config);
}

bool advisor_due(const struct advisor *a, int64_t now_ns) {
    return now_ns - a->looked_ns > a->autoscale.config.every_ns - ADVISOR_TICK_NS / 2;
}

void advisor_look(struct advisor *a, int64_t now_ns, const struct autoscale_seen *load) {
    struct autoscale_seen seen = *load;
    seen.bad = seen.bad < seen.requests ? seen.bad : seen.requests; /* they are not counted at one moment */
    if (seen.requests == 0 && seen.needed < ADVISOR_NEEDED_LEAST)
        seen.needed = 0;
    a->bad_rate = seen.requests ? (double)seen.bad / (double)seen.requests : 0;
    a->wanted = autoscale_look(&a->autoscale, &seen);
    if (a->wanted == 0 && (seen.requests > 0 || seen.needed > 0))
        a->wanted = 1; /* with a least of 0: any load needs one */
    a->advises = true;
    a->looked_ns = now_ns;
}
