/* squishy_fit.h - a squishy plan for the GPUs that there are: those left over are spread over all sessions as room to
 * grow.
 *
 * The plan is made for the largest multiple of the rates that fits, so that every session's load may rise by the same
 * factor before it is too much; where the GPUs do not suffice, for the largest part of the rates. Placements of before
 * are kept unless a fresh plan would reach clearly more; then GPUs are renumbered so that sessions stay where they are
 * as far as possible. Other ways to place a plan are there to be compared with. Pure; memory is the caller's. */
#pragma once

#include "core/util/rng.h"
#include "sched/plan/squishy.h"

/* Which numbers the GPUs of a new plan get. */
enum squishy_placing {
    SQUISHY_KEPT,   /* as above */
    SQUISHY_LOCAL,  /* a fresh plan each time, its GPUs numbered so that sessions stay where they are */
    SQUISHY_RANDOM, /* a fresh plan, its GPUs numbered at random */
    SQUISHY_TURNS,  /* a fresh plan, its GPUs numbered from where those of the plan before ended */
};

struct squishy_fit {
    enum squishy_placing placing;  /* KEPT at first; the caller may change it */
    struct rng rng;                /* of RANDOM */
    uint32_t turn;                 /* of TURNS: how many GPUs were given so far */
    struct squishy plan;           /* the one in force */
    struct squishy trial, another; /* scratch */
    uint32_t *label;               /* scratch [2 * gpus_max] */
};

size_t squishy_fit_bytes(uint32_t gpus_max, uint32_t sessions);
void squishy_fit_init(struct squishy_fit *fit, void *memory, uint32_t gpus_max, uint32_t sessions,
                      uint64_t memory_bytes);
/* Brings the plan up to date with the rates, none of which changes meanwhile. Returns the multiple of the rates that it
 * is for; 0: at no multiple does every session fit, and the plan has what fits of the rates themselves. */
double squishy_fit_update(struct squishy_fit *fit, const struct squishy_session *sessions);

/* How many GPUs the rates themselves need, by a fresh plan; if there are too few, those in use, divided by the part of
 * the rates that they take. `scale`: what the update returned; if 0, what fits nowhere needs none. */
double squishy_fit_needed(struct squishy_fit *fit, const struct squishy_session *sessions, double scale);

/* Renumbers the GPUs of `to` so that as many sessions as possible, greedily, are where they are in `from`: each in
 * turn takes the number where most of its sessions were. Both have the same usable GPUs. `label`: scratch
 * [2 * gpus_max]. */
void squishy_relabel(struct squishy *to, const struct squishy *from, uint32_t *label);
/* How many (session, GPU) pairs of `to` are not in `from`, that is the loads between them. */
uint32_t squishy_moves(const struct squishy *to, const struct squishy *from);
