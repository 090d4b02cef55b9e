/* squishy.h - squishy bin packing: which sessions share a GPU, in batches of what size (Nexus, SOSP 2019, section 6.1).
 *
 * A session is a model with an SLO and a rate. A GPU that has only one session at its best batch B (2*l(B) <= SLO) runs
 * batch after batch: it is saturated. What is left of each session's rate is its residue. A GPU shared by residues runs
 * each of them once in a duty cycle d:
 *
 *     |  A: l(8)  |  B: l(4) |            |  A: l(8)  | ...       b >= r*d,  sum of l(b) <= d,  d + l(b) <= SLO
 *     |<------------- d ----------------->|
 *
 * Items get cheaper the more of them are squished into one batch, so a session's size depends on its company. The plan
 * is incremental: placements of before are kept where they still fit.
 *
 * Pure; memory is the caller's. Any thread, one at a time. */
#pragma once

#include <stdbool.h>

#include "core/data/profile.h"
#include "core/util/heap.h"

#define SQUISHY_NONE UINT32_MAX

struct squishy_session {
    const struct profile *profile; /* on these GPUs; NULL: not on these */
    uint32_t batch_max;            /* items a batch; at most the profile's */
    int64_t slo_ns;
    double rate;            /* items per second; 0: it needs no place */
    uint64_t weights_bytes; /* that it takes on a GPU, where memory is limited */
};

struct squishy_gpu {
    bool usable;
    uint32_t saturated;   /* session that has it for itself; or NONE */
    uint32_t first;       /* of the residues that share it, linked by `next`; or NONE */
    int64_t duty_ns;      /* its cycle; of a saturated one l(B) */
    double occupancy;     /* share of the cycle spent running; 0: nothing is on it */
    uint64_t bytes_taken; /* weights on it */
};

/* A session as planned. */
struct squishy_place {
    /* what it is, at the rates of the last update */
    uint32_t batch_full;    /* B: the best batch of which two fit into the SLO; 0: there is none */
    uint32_t saturated;     /* GPUs that it has for itself */
    uint32_t saturated_due; /* and should have */
    double residue;         /* items per second that are left */
    uint32_t alone_batch;   /* of the residue on a GPU of its own; 0: no residue */
    int64_t alone_duty_ns;
    double alone_occupancy;
    /* where the residue is */
    uint32_t gpu;   /* or NONE */
    uint32_t next;  /* residue on the same GPU */
    uint32_t batch; /* there */
};

struct squishy {
    uint32_t gpus_max, sessions;
    struct squishy_gpu *gpus;     /* [gpus_max] */
    struct squishy_place *places; /* [sessions] */
    uint64_t memory_bytes;        /* of a GPU, for weights; 0: enough */
    struct heap order;            /* scratch: GPUs or sessions being sorted */
    uint32_t free_from;           /* no GPU with a lower number is free */
    uint32_t *moved;              /* scratch [sessions] */
};

/* The best batch under half the SLO: of those with 2*l(b) <= slo the one with the most items per second, to 0.1 % (the
 * largest, where throughput grows with b, as the paper assumes); 0 if not even one item fits. */
uint32_t squishy_batch_full(const struct squishy_session *session);
/* A number of GPUs that no plan of these sessions exceeds. */
uint64_t squishy_gpus_most(const struct squishy_session *sessions, uint32_t count);

size_t squishy_bytes(uint32_t gpus_max, uint32_t sessions);
/* Sets a plan up in `memory` of squishy_bytes(), aligned as malloc's. All GPUs are usable, nothing is placed. */
void squishy_init(struct squishy *plan, void *memory, uint32_t gpus_max, uint32_t sessions, uint64_t memory_bytes);
/* `to` has the same gpus_max and sessions. */
void squishy_copy(struct squishy *to, const struct squishy *from);
/* Takes everything off all GPUs. */
void squishy_clear(struct squishy *plan);
/* Takes everything off a GPU and no more puts anything there; or allows it again. */
void squishy_usable_set(struct squishy *plan, uint32_t gpu, bool usable);

/* Plans for the sessions at `scale` times their rates: Algorithm 1 for what is not placed, or no longer fits where it
 * was. A GPU that is overloaded loses its cheapest residues; GPUs of which all residues fit elsewhere are freed, the
 * least busy first. Returns whether everything fits; what does not, has no GPU (squishy_missing()). */
bool squishy_update(struct squishy *plan, const struct squishy_session *sessions, double scale);

/* Items per second of a session, times the update's scale, for which there is no GPU. */
double squishy_missing(const struct squishy *plan, const struct squishy_session *sessions, uint32_t session);
/* GPUs with anything on them. */
uint32_t squishy_gpus_used(const struct squishy *plan);
/* Whether a session is on a GPU. */
bool squishy_on(const struct squishy *plan, uint32_t gpu, uint32_t session);
/* Batch of a session on a GPU where it is. */
uint32_t squishy_batch(const struct squishy *plan, uint32_t gpu, uint32_t session);
/* Items per second that the plan gives a session on a GPU where it is. */
double squishy_rate(const struct squishy *plan, const struct squishy_session *sessions, uint32_t gpu, uint32_t session);
