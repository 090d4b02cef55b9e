/* shares.c - who is admitted when a sub-cluster is asked for more than it can do. */
#include "policy/shares.h"

/* Overloaded is a sub-cluster whose load is over the first part of its accelerators, or over the second part while over
 * the third part of its requests is refused or late. */
#define OVER     1.2
#define OVER_BAD 0.9
#define BAD      0.03
/* Those who are admitted load it up to this part. */
#define FILLED 0.92
/* A flood is a model that asks for over this many times the mean. */
#define FLOOD 2.0

/* What a model asks for, in accelerators. A rise counts as soon as it is no chance. */
static double demand_of(const struct model_rates *r) {
    if (r->batch_best < 1)
        return 0;
    double sure = r->rate_fast * (1 - rate_chance(r->arrivals_fast));
    return rate_load(r, sure > r->rate ? sure : r->rate, r->batch_best);
}

/* The level for which sum(min(demand, weight * level)) = total, where 0 < total < sum(demand). Models under it get what
 * they ask for, and what they leave is divided among the others by their weights. Each round finds more models under
 * the level, so it ends. */
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

/* Models of one weight were promised nothing in particular: only floods are cut, so that the others keep all that they
 * ask for; and if everybody asks for more than the level, nobody is. Where weights differ, each model is held to what
 * it was promised. */
void shares_derive(const struct cluster_view *c, double *admit_share) {
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
    bool suffering = sum > OVER_BAD * c->accelerators && bad > BAD * offered;
    if (active == 0 || !(sum > OVER * c->accelerators || suffering))
        return;
    double total = FILLED * c->accelerators;
    if (total >= sum)
        return;
    double level = level_derive(c, total), mean = sum / active;
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
