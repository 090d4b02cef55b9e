/* advisor.c - looks at the load. */
#include "plan/advisor.h"

void advisor_init(struct advisor *a, const struct autoscale_config *config, int64_t now_ns) {
    *a = (struct advisor){.looked_ns = now_ns};
    autoscale_init(&a->autoscale, config);
}

bool advisor_due(const struct advisor *a, int64_t now_ns) {
    return now_ns - a->looked_ns > a->autoscale.config.every_ns - ADVISOR_TICK_NS / 2;
}

/* What was advised before and is not there yet is taken to be starting. */
void advisor_look(struct advisor *a, int64_t now_ns, const struct advisor_load *load) {
    uint64_t bad = load->bad < load->requests ? load->bad : load->requests; /* they are not counted at one moment */
    uint32_t asked = a->advises && a->wanted > load->present ? a->wanted : load->present;
    double needed = load->requests > 0 || load->needed > ADVISOR_NEEDED_LEAST ? load->needed : 0;
    a->bad_rate = load->requests ? (double)bad / (double)load->requests : 0;
    a->wanted = autoscale_look(&a->autoscale, load->present, asked, needed, a->bad_rate);
    if (a->wanted == 0 && (load->requests > 0 || needed > 0))
        a->wanted = 1; /* with a least of 0: any load needs one */
    a->advises = true;
    a->looked_ns = now_ns;
}
