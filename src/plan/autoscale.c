/* autoscale.c - how many accelerators there should be. */
#include "plan/autoscale.h"

#define BAD_MOST 0.5 /* at most as many again at once */

void autoscale_init(struct autoscale *a, const struct autoscale_config *config) {
    int64_t looks = config->start_delay_ns / config->every_ns + 1;
    *a = (struct autoscale){
        .config = *config,
        .remembered = looks < AUTOSCALE_LOOKS_MAX ? (uint32_t)looks : AUTOSCALE_LOOKS_MAX,
    };
}

/* The least whole number not below x, from 0 to most. */
static uint32_t round_up(double x, uint32_t most) {
    if (!(x > 0))
        return 0;
    if (x >= most)
        return most;
    return (uint32_t)x + ((double)(uint32_t)x < x);
}

static uint32_t wanted_now(const struct autoscale *a, uint32_t present, double needed, double bad_rate) {
    const struct autoscale_config *c = &a->config;
    uint32_t wanted = round_up(needed / (1 - c->headroom), c->max);
    if (bad_rate > AUTOSCALE_BAD_LEAST) {
        double r = bad_rate < BAD_MOST ? bad_rate : BAD_MOST;
        uint32_t more = round_up(present + present * r / (1 - r), c->max);
        wanted = more > wanted ? more : wanted;
    }
    return wanted > c->min ? wanted : c->min;
}

uint32_t autoscale_look(struct autoscale *a, uint32_t present, uint32_t asked, double needed, double bad_rate) {
    uint32_t most = a->wanted[a->looks++ % a->remembered] = wanted_now(a, present, needed, bad_rate);
    for (uint32_t i = 0; i < a->remembered && i < a->looks; i++)
        most = a->wanted[i] > most ? a->wanted[i] : most;
    return most < asked && a->looks < a->remembered ? asked : most; /* too early to release anything */
}
