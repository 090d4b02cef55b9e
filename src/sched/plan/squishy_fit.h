/* squishy_fit.h - a squishy plan that uses all GPUs: GPUs that are not needed are spread over all sessions as room to
 * grow.
 *
 * The plan is made for the largest multiple of the rates that fits, so that every session's load may rise by the same
 * factor before it is too much. If there are too few GPUs, the plan is made for the largest part of the rates. Earlier
 * placements are kept unless a fresh plan would reach clearly more; then GPUs are renumbered so that sessions stay
 * where they are as far as possible. Other ways to place a plan are for comparisons. Pure; memory is the caller's. */
#pragma once

#include "core/util/rng.h"
#include "sched/plan/squishy.h"

/* Which numbers the GPUs of a new plan get. */
enum squishy_placing {
    SQUISHY_KEPT,   /* earlier placements are kept unless a fresh plan reaches clearly more */
    SQUISHY_LOCAL,  /* a fresh plan each time, its GPUs numbered so that sessions stay where they are */
    SQUISHY_RANDOM, /* a fresh plan, its GPUs numbered at random */
    SQUISHY_TURNS,  /* a fresh plan, its GPUs numbered from the last number of the plan before on */
};

struct squishy_fit {
    enum squishy_placing placing;  /* way of placing: KEPT at first; the caller may change it */
    struct rng rng;                /* generator for RANDOM */
    uint32_t turn;                 /* GPUs given so far, for TURNS */
    struct squishy plan;           /* plan in force */
    struct squishy trial, another; /* scratch */
    uint32_t *label;               /* scratch [2 * gpus_max] */
};

size_t squishy_fit_bytes(uint32_t gpus_max, uint32_t sessions);
void squishy_fit_init(struct squishy_fit *fit, void *memory, uint32_t gpus_max, uint32_t sessions,
                      uint64_t memory_bytes);
/* Brings the plan up to date with the rates. Returns the multiple of the rates for which the plan is made; 0: at no
 * multiple does every session fit, and the plan has what fits of the rates themselves. */
double squishy_fit_update(struct squishy_fit *fit, const struct squishy_session *sessions);

/* How many GPUs the rates themselves need, by a fresh plan. If there are too few GPUs: the number of GPUs in use,
 * divided by the part of the rates that they take. `scale`: what squishy_fit_update() returned; if 0, sessions that fit
 * nowhere count as needing no GPU. */
double squishy_fit_needed(struct squishy_fit *fit, const struct squishy_session *sessions, double scale);

/* Renumbers the GPUs of `to` so that many sessions are where they are in `from`: greedily, each GPU in turn takes the
 * number where most of its sessions were. Both plans have the same usable GPUs. `label`: scratch [2 * gpus_max]. */
void squishy_relabel(struct squishy *to, const struct squishy *from, uint32_t *label);
/* How many (session, GPU) pairs of `to` are not in `from`: loads that the change from `from` to `to` takes. */
uint32_t squishy_moves(const struct squishy *to, const struct squishy *from);
