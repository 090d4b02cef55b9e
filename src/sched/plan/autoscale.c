/* autoscale.c - how many accelerators there should be. */
#include "sched/plan/autoscale.h"

#include <math.h>

#include "core/util/time.h"

#define NOISE_MOST     5.0            /* standard deviations of noise: one look in millions is farther off */
#define NOISE_LOOKS    256            /* looks from which the noise is learned */
#define NOISE_FIRST    8              /* looks for which the first guess of the noise counts */
#define NOISE_FAR      9.0            /* multiple of the variance; a larger change is no noise */
#define APART_NS       (5 * NS_PER_S) /* time between loads that have no requests in common (means over 2 s) */
#define BAD_LOOKS      6              /* looks; more bad requests than goodput allows in so many are not chance */
#define BAD_SHARE_MOST 0.5            /* largest bad rate that counts: it doubles the accelerators */
#define SETTLED_LOOKS  50             /* looks after a change and a start's time; the advice suits their mean load */
#define FELL           0.4  /* share of the noise (2 standard deviations) by which a load has fallen at least */
#define EXTRA_LOOKS    8640 /* looks (a day of one every 10 s) after which half of `extra` is forgotten */
#define OVER           0.1  /* accelerators over wanted - 1 that are taken to have been needed */

static uint32_t looks_in(int64_t ns, int64_t every_ns) {
    int64_t looks = ns / every_ns + 1;
    return looks < AUTOSCALE_LOOKS_MAX ? (uint32_t)looks : AUTOSCALE_LOOKS_MAX;
}

struct autoscale_config autoscale_usual(uint32_t max) {
    return (struct autoscale_config){
        .min = 1, .max = max, .headroom = 0.1, .every_ns = 10 * NS_PER_S, .start_delay_ns = 60 * NS_PER_S};
}

void autoscale_init(struct autoscale *a, const struct autoscale_config *config) {
    *a = (struct autoscale){
        .config = *config, .remembered = looks_in(config->start_delay_ns, config->every_ns), .noise = 1};
}

/* The least whole number not below x, from `least` to `most`. */
static uint32_t round_up(double x, uint32_t least, uint32_t most) {
    if (!(x > least))
        return least;
    return x >= most ? most : (uint32_t)ceil(x);
}

/* Learns the noise of the load, relative to that of independent arrivals. Returns the variance of the noise. */
static double noise_learn(struct autoscale *a, const struct autoscale_seen *seen) {
    uint32_t apart = looks_in(APART_NS, a->config.every_ns);
    double before = a->needed[(a->looks - apart) % AUTOSCALE_LOOKS_MAX];
    double plain = seen->requests ? seen->needed * seen->needed / (double)seen->requests : 0;
    a->needed[a->looks % AUTOSCALE_LOOKS_MAX] = seen->needed;
    if (a->looks >= apart && plain > 0) {
        double change = (seen->needed - before) * (seen->needed - before) / 2 / plain;
        if (change <= NOISE_FAR * a->noise) {
            a->learned += a->learned < NOISE_LOOKS;
            a->noise += (change - a->noise) / (NOISE_FIRST + a->learned);
        }
    }
    return a->noise * plain;
}

/* Accelerators for a load: with the headroom, or with the `extra` ones (at most as many as the load), whichever are
 * more. */
static double staff(const struct autoscale *a, double load) {
    return load > 0 ? fmax(load / (1 - a->config.headroom), load + fmin(a->extra, load)) : 0;
}

static void bad_forget(struct autoscale *a) {
    a->bad_looks = 0;
    a->bad_requests = a->bad = 0;
}

/* N + N*r/(1-r) accelerators, but at least N + 1. */
static uint32_t with_share(const struct autoscale *a, uint32_t present, uint64_t bad, uint64_t requests) {
    double r = fmin((double)bad / (double)requests, BAD_SHARE_MOST);
    return round_up(present / (1 - r), present < a->config.max ? present + 1 : present, a->config.max);
}

/* How many accelerators bad requests ask for; 0: none. */
static uint32_t bad_look(struct autoscale *a, const struct autoscale_seen *seen) {
    a->bad_looks++;
    a->bad_requests += seen->requests;
    a->bad += seen->bad;
    double each = AUTOSCALE_BAD_MOST * (double)a->bad_requests, over = (double)a->bad - each;
    if (over <= 0) {
        bad_forget(a);
        return 0;
    }
    if (over <= each / a->bad_looks * BAD_LOOKS)
        return 0;
    uint32_t wanted = with_share(a, seen->present, a->bad, a->bad_requests);
    a->extra = fmax(a->extra, wanted - 1 + OVER - seen->needed);
    a->extra_looks = 0;
    bad_forget(a);
    return wanted;
}

static uint32_t settles_in(const struct autoscale *a) {
    return a->remembered + SETTLED_LOOKS;
}

/* What is wanted now; less than `wanted` only if so few would have done for as long as a start takes. */
static uint32_t wanted_or_fewer(const struct autoscale *a, uint32_t wanted, double noise, double doubt) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < a->remembered && i < a->looks; i++)
        most = a->least[i] > most ? a->least[i] : most;
    if (!(wanted > most + doubt) || a->looks < a->remembered)
        return wanted;
    /* The load, too, must have been lower for so long than it was when what is wanted had been settled. A load at the
     * limit between two numbers falls below it now and then, and noise that is known better moves the limit. */
    double highest = 0;
    for (uint32_t i = 0; i < a->remembered; i++)
        highest = fmax(highest, a->needed[(a->looks - 1 - i) % AUTOSCALE_LOOKS_MAX]);
    return a->unchanged < settles_in(a) || highest < a->settled - FELL * noise ? most : wanted;
}

uint32_t autoscale_look(struct autoscale *a, const struct autoscale_seen *seen) {
    const struct autoscale_config *c = &a->config;
    uint32_t asked = a->looks ? a->wanted : round_up(seen->present, c->min, c->max), wanted = 0;
    double noise = NOISE_MOST * sqrt(noise_learn(a, seen));

    if (++a->extra_looks >= EXTRA_LOOKS) {
        a->extra /= 2;
        a->extra_looks = 0;
        a->unchanged = 0; /* what was wanted with the other half may be too many */
    }
    if (round_up(staff(a, seen->needed - noise), c->min, c->max) > asked) {
        wanted = round_up(staff(a, seen->needed), c->min, c->max);
        if ((double)seen->bad > AUTOSCALE_BAD_MOST * (double)seen->requests) {
            uint32_t share = with_share(a, seen->present, seen->bad, seen->requests);
            wanted = share > wanted ? share : wanted;
        }
    }
    if (wanted || seen->present < asked)
        bad_forget(a); /* bad requests are no surprise then */
    else
        wanted = bad_look(a, seen);
    uint32_t least = round_up(staff(a, seen->needed + noise), c->min, c->max);
    a->least[a->looks++ % a->remembered] = wanted > least ? wanted : least;
    double doubt = staff(a, seen->needed + noise) - staff(a, seen->needed); /* the noise is an estimate */
    wanted = wanted_or_fewer(a, wanted > asked ? wanted : asked, noise, doubt);
    if (a->wanted != wanted) {
        a->unchanged = 0;
        a->settled = 0;
    } else if (a->unchanged < settles_in(a)) {
        a->unchanged++;
        if (a->unchanged > a->remembered)
            a->settled += (seen->needed - a->settled) / (a->unchanged - a->remembered);
    }
    return a->wanted = wanted;
}
