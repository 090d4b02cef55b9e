/* shares.c - which requests are admitted when a sub-cluster is overloaded. */
#include "sched/policy/shares.h"

/* A sub-cluster is overloaded if FULL of its load is more than its accelerators; or if the load is more than FULL of
 * them, while more than BAD of its requests are refused or late. Its accelerators are then not free for so much of
 * their time that supply is ample, unless the load is rising: rates of bursty models know nothing of the batches that
 * bursts make. Where memory is limited they are busy for FULL, and it suffers: with thousands of models each batch is
 * of those that came while their model was loaded, of which rates know nothing. (2 accelerators with room for 100 of
 * 2,000 models, bursts: at 1,000 requests/s 7.4 % were beyond their shares; without shares 0.07 % were lost.) The
 * admitted requests load an overloaded sub-cluster to FULL.
 */
#define FULL POLICY_FULL
#define BAD  0.03
/* Multiple of the mean demand above which a model is a flood. */
#define FLOOD 2.0

/* How many accelerators a model asks for. A rise counts as soon as it cannot be chance. */
static double demand_of(const struct model_rates *r) {
    if (r->batch_best < 1)
        return 0;
    double sure = r->rate_fast * (1 - rate_chance(r->arrivals_fast));
    return rate_load(r, sure > r->rate ? sure : r->rate, r->batch_best);
}

/* The level for which sum(min(demand, weight * level)) = total, where 0 < total < sum(demand). Models under the level
 * get what they ask for; the rest is divided among the others by their weights. Each round finds more models under the
 * level, so the loop ends. */
static double level_derive(const struct cluster_view *c, double total) {
    double level = 0;
    uint32_t over = UINT32_MAX;
    for (;;) {
        double rest = total, weights = 0;
        uint32_t count = 0;
        for (uint32_t i = 0; i < c->models; i++) {
            double demand = demand_of(&c->rates[i]), weight = c->rates[i].weight;
            if (demand <= weight * level) {
                rest -= demand;
            } else {
                weights += weight;
                count++;
            }
        }
        if (count == 0 || count == over)
            return level;
        over = count;
        level = rest / weights;
    }
}

/* With equal weights no model has a guaranteed share. Then only floods are limited, so that the others get all that
 * they ask for; if every model asks for more than the level, none is limited. With different weights each model is
 * limited to its guaranteed share. */
void shares_derive(const struct cluster_view *c, bool rising, double *admit_share) {
    double sum = 0, offered = 0, bad = 0, lightest = 0, heaviest = 0;
    uint32_t active = 0;
    for (uint32_t i = 0; i < c->models; i++) {
        const struct model_rates *r = &c->rates[i];
        admit_share[i] = 1;
        double demand = demand_of(r);
        sum += demand;
        offered += r->rate;
        bad += r->rate * r->bad_rate;
        if (demand <= 0)
            continue;
        lightest = active == 0 || r->weight < lightest ? r->weight : lightest;
        heaviest = r->weight > heaviest ? r->weight : heaviest;
        active++;
    }
    bool suffering = sum > FULL * c->accelerators && bad > BAD * offered;
    bool over = c->limited ? suffering && c->busy >= FULL
                           : (FULL * sum > c->accelerators || suffering) &&
                                 (1 - c->busy <= supply_share(SUPPLY_AMPLE, 1) || rising);
    if (!over)
        return;
    double level = level_derive(c, FULL * c->accelerators), mean = sum / active; /* the sum is more than so many */
    bool promised = heaviest > lightest, anyone_under = false;
    for (uint32_t i = 0; i < c->models; i++) {
        double demand = demand_of(&c->rates[i]);
        anyone_under |= demand > 0 && demand < c->rates[i].weight * level;
    }
    for (uint32_t i = 0; (promised || anyone_under) && i < c->models; i++) {
        double demand = demand_of(&c->rates[i]), most = c->rates[i].weight * level;
        if (demand > most && (promised || demand > FLOOD * mean))
            admit_share[i] = most / demand;
    }
}

bool share_admits(double *credit, double share) {
    if (share >= 1)
        return true;
    *credit += share;
    if (*credit < 1)
        return false;
    *credit -= 1;
    return true;
}
