/* load_classes.c - divides models and types of accelerators into classes that have their load in common. */
#include "sched/core/load_classes.h"

#include <string.h>

static uint32_t all_types(const struct load_classes *c) {
    return (1u << c->types) - 1;
}

void load_classes_begin(struct load_classes *c, uint32_t types) {
    c->types = types;
    memset(c->load, 0, sizeof(c->load[0]) << types);
}

void load_classes_add(struct load_classes *c, uint32_t runs_on, double load) {
    c->load[runs_on ? runs_on : all_types(c)] += load;
}

/* The load of each accelerator of a set of types, if these accelerators share `load`; infinite: there are none. */
static double pressure(uint32_t set, double load, const uint32_t *up) {
    uint32_t accelerators = 0;
    for (uint32_t t = 0; set >> t; t++)
        accelerators += set >> t & 1 ? up[t] : 0;
    return load <= 0 ? 0 : accelerators ? load / accelerators : __builtin_inf();
}

/* The next subset of `left`, in ascending order; after the last one comes 0. */
static uint32_t subset_after(uint32_t set, uint32_t left) {
    return (set - left) & left;
}

/* The set of types out of `left` that is loaded most by models that run on no other types; of equal sets, the largest
 * one. */
static uint32_t hottest(const struct load_classes *c, uint32_t left, const uint32_t *up) {
    double within[1 << ACCELERATOR_TYPES_MAX]; /* by set: load of the models that run on no type outside the set */
    uint32_t best = left, set = 0;
    do {
        within[set] = c->load[set];
        set = subset_after(set, left);
    } while (set);
    for (uint32_t t = 0; left >> t; t++) {
        if (!(left >> t & 1))
            continue;
        do {
            if (set >> t & 1)
                within[set] += within[set ^ 1u << t];
            set = subset_after(set, left);
        } while (set);
    }
    for (set = left; set > 0; set = (set - 1) & left)
        if (pressure(set, within[set], up) > pressure(best, within[best], up))
            best = set;
    return best;
}

void load_classes_divide(struct load_classes *c, const uint32_t *up) {
    uint32_t left = 0; /* types that have accelerators, or load that could use them: in a cluster, few of the eight */
    for (uint32_t set = 1; set <= all_types(c); set++)
        left |= c->load[set] > 0 ? set : 0;
    for (uint32_t t = 0; t < c->types; t++)
        left |= up[t] > 0 ? 1u << t : 0;
    left &= all_types(c);
    uint32_t unused = all_types(c) & ~left;
    c->count = 0;
    do {
        uint32_t taken = hottest(c, left, up);
        c->types_of[c->count++] = taken;
        for (uint32_t set = 1; set <= left; set++) { /* models that also run on types of `left` have only these now */
            if (!(set & taken))
                continue;
            if (set & ~taken)
                c->load[set & ~taken] += c->load[set];
            c->load[set] = 0;
        }
        left &= ~taken;
    } while (left);
    c->types_of[0] |= unused; /* unused types do not change the load of a class */
}

uint32_t load_classes_find(const struct load_classes *c, uint32_t runs_on) {
    uint32_t k = 0, missing = (runs_on ? runs_on : all_types(c)) & ~c->types_of[0];
    while (missing)
        missing &= ~c->types_of[++k];
    return k;
}
