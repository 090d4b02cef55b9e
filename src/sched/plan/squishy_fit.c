/* squishy_fit.c - the largest multiple of the rates that the GPUs take, by doubling and halving. */
#include "sched/plan/squishy_fit.h"

#include <string.h>

#define SCALE_LEAST  (1.0 / 1024)
#define SCALE_MOST   1e12
#define SCALE_WITHIN 1.02 /* factor between bounds of the scale at which the search ends */
#define KEEP_WITHIN  0.95 /* share of a fresh plan's scale that kept placements must reach */

static size_t plan_bytes(uint32_t gpus_max, uint32_t sessions) {
    return (squishy_bytes(gpus_max, sessions) + 63) & ~(size_t)63;
}

size_t squishy_fit_bytes(uint32_t gpus_max, uint32_t sessions) {
    return 3 * plan_bytes(gpus_max, sessions) + 2 * gpus_max * sizeof(uint32_t);
}

void squishy_fit_init(struct squishy_fit *fit, void *memory, uint32_t gpus_max, uint32_t sessions,
                      uint64_t memory_bytes) {
    char *at = memory;
    size_t bytes = plan_bytes(gpus_max, sessions);
    fit->placing = SQUISHY_KEPT;
    fit->turn = 0;
    rng_seed(&fit->rng, 1);
    squishy_init(&fit->plan, at, gpus_max, sessions, memory_bytes);
    squishy_init(&fit->trial, at + bytes, gpus_max, sessions, memory_bytes);
    squishy_init(&fit->another, at + 2 * bytes, gpus_max, sessions, memory_bytes);
    fit->label = (uint32_t *)(at + 3 * bytes);
}

/* ---- the same GPUs ---- */

static uint32_t common(const struct squishy *to, uint32_t gpu, const struct squishy *from, uint32_t with) {
    uint32_t count = to->gpus[gpu].saturated != SQUISHY_NONE && squishy_on(from, with, to->gpus[gpu].saturated);
    for (uint32_t s = to->gpus[gpu].first; s != SQUISHY_NONE; s = to->places[s].next)
        count += squishy_on(from, with, s);
    return count;
}

uint32_t squishy_moves(const struct squishy *to, const struct squishy *from) {
    uint32_t moves = 0;
    for (uint32_t g = 0; g < to->gpus_max; g++) {
        moves += to->gpus[g].saturated != SQUISHY_NONE;
        for (uint32_t s = to->gpus[g].first; s != SQUISHY_NONE; s = to->places[s].next)
            moves++;
        moves -= common(to, g, from, g);
    }
    return moves;
}

static bool is_anywhere(const struct squishy *plan, uint32_t session) {
    return plan->places[session].saturated || plan->places[session].gpu != SQUISHY_NONE;
}

/* The number for a GPU: among the numbers from `open` on that are not given yet, the one where most of the GPU's
 * sessions were; of equal ones, one where no session was. If none of the GPU's sessions was at any: NONE, or with `any`
 * the best of these numbers. */
static uint32_t label_best(const struct squishy *to, uint32_t gpu, const struct squishy *from, const uint32_t *owner,
                           uint32_t open, bool any) {
    uint32_t saturated = to->gpus[gpu].saturated, best = SQUISHY_NONE, best_worth = any ? 0 : 1;
    uint32_t count = saturated != SQUISHY_NONE && is_anywhere(from, saturated); /* sessions that were anywhere */
    for (uint32_t s = to->gpus[gpu].first; s != SQUISHY_NONE; s = to->places[s].next)
        count += is_anywhere(from, s);
    if (!any && count == 0)
        return SQUISHY_NONE;
    uint32_t most = count ? 2 * count : 1;
    for (uint32_t g = open; g < from->gpus_max && best_worth < most; g++) {
        if (owner[g] != SQUISHY_NONE)
            continue;
        uint32_t worth = 2 * common(to, gpu, from, g) + (from->gpus[g].occupancy <= 0);
        if (worth > best_worth || (worth == best_worth && best == SQUISHY_NONE)) {
            best = g;
            best_worth = worth;
        }
    }
    return best_worth >= 2 || any ? best : SQUISHY_NONE;
}

/* Gives each GPU of a plan the number label[gpu]. Afterwards label[g] is g for all g. */
static void permute(struct squishy *to, uint32_t *label) {
    for (uint32_t g = 0; g < to->gpus_max; g++)
        while (label[g] != g) { /* each swap brings one GPU where it belongs */
            uint32_t there = label[g];
            struct squishy_gpu moved = to->gpus[there];
            to->gpus[there] = to->gpus[g];
            to->gpus[g] = moved;
            label[g] = label[there];
            label[there] = there;
        }
    for (uint32_t g = 0; g < to->gpus_max; g++)
        for (uint32_t s = to->gpus[g].first; s != SQUISHY_NONE; s = to->places[s].next)
            to->places[s].gpu = g;
    to->free_from = 0;
}

void squishy_relabel(struct squishy *to, const struct squishy *from, uint32_t *label) {
    uint32_t *owner = label + to->gpus_max, open = 0; /* numbers below it are given */
    for (uint32_t g = 0; g < to->gpus_max; g++) {     /* what is out of service stays itself */
        label[g] = to->gpus[g].usable ? SQUISHY_NONE : g;
        owner[g] = label[g];
    }
    for (int any = 0; any < 2; any++)
        for (uint32_t g = 0; g < to->gpus_max; g++) {
            if (label[g] != SQUISHY_NONE)
                continue;
            while (owner[open] != SQUISHY_NONE)
                open++;
            label[g] = label_best(to, g, from, owner, open, any);
            if (label[g] != SQUISHY_NONE)
                owner[label[g]] = g;
        }
    permute(to, label);
}

static void relabel(struct squishy_fit *fit, struct squishy *to) {
    uint32_t *list = fit->label + to->gpus_max, count = 0;
    if (fit->placing != SQUISHY_RANDOM && fit->placing != SQUISHY_TURNS) {
        squishy_relabel(to, &fit->plan, fit->label);
        return;
    }
    for (uint32_t g = 0; g < to->gpus_max; g++)
        if (to->gpus[g].usable)
            list[count++] = g;
    if (fit->placing == SQUISHY_RANDOM)
        for (uint32_t i = count; i > 1; i--) {
            uint32_t with = (uint32_t)rng_below(&fit->rng, i), number = list[with];
            list[with] = list[i - 1];
            list[i - 1] = number;
        }
    for (uint32_t i = 0; fit->placing == SQUISHY_TURNS && i < count; i++)
        fit->label[i] = list[(i + fit->turn) % count];
    if (fit->placing == SQUISHY_TURNS) {
        memcpy(list, fit->label, count * sizeof(*list));
        fit->turn += squishy_gpus_used(to);
    }
    for (uint32_t g = 0, i = 0; g < to->gpus_max; g++)
        fit->label[g] = to->gpus[g].usable ? list[i++] : g;
    permute(to, fit->label);
}

/* ---- the largest multiple ---- */

/* Whether all fits at a multiple, starting from `base`; the plan is left in `trial`. */
static bool fits_at(struct squishy *trial, const struct squishy *base, const struct squishy_session *sessions,
                    double scale) {
    squishy_copy(trial, base);
    return squishy_update(trial, sessions, scale);
}

/* The largest multiple that fits, to SCALE_WITHIN; 0: none. */
static double scale_find(struct squishy *trial, const struct squishy *base, const struct squishy_session *sessions) {
    double fits = 1, not = 2;
    if (fits_at(trial, base, sessions, 1)) {
        while (not < SCALE_MOST && fits_at(trial, base, sessions, not )) {
            fits = not ;
            not *= 2;
        }
    } else {
        do {
            not = fits;
            fits /= 2;
            if (fits < SCALE_LEAST)
                return 0;
        } while (!fits_at(trial, base, sessions, fits));
    }
    while (not > fits * SCALE_WITHIN) {
        double middle = (fits + not ) / 2;
        if (fits_at(trial, base, sessions, middle))
            fits = middle;
        else
            not = middle;
    }
    return fits;
}

double squishy_fit_needed(struct squishy_fit *fit, const struct squishy_session *sessions, double scale) {
    if (scale < 1)
        return squishy_gpus_used(&fit->plan) / (scale > 0 ? scale : 1);
    squishy_copy(&fit->another, &fit->plan);
    squishy_clear(&fit->another);
    fits_at(&fit->trial, &fit->another, sessions, 1);
    return squishy_gpus_used(&fit->trial);
}

double squishy_fit_update(struct squishy_fit *fit, const struct squishy_session *sessions) {
    struct squishy *fresh = &fit->another;
    squishy_copy(fresh, &fit->plan);
    squishy_clear(fresh);
    double fresh_scale = scale_find(&fit->trial, fresh, sessions);
    double kept_scale = fit->placing == SQUISHY_KEPT ? scale_find(&fit->trial, &fit->plan, sessions) : 0;
    if (kept_scale > 0 && kept_scale >= KEEP_WITHIN * fresh_scale) {
        squishy_update(&fit->plan, sessions, kept_scale);
        return kept_scale;
    }
    fits_at(&fit->trial, fresh, sessions, fresh_scale > 0 ? fresh_scale : 1);
    relabel(fit, &fit->trial);
    squishy_copy(&fit->plan, &fit->trial);
    return fresh_scale;
}
