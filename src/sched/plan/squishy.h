/* squishy.h - squishy bin packing: which sessions share a GPU, in batches of what size (Nexus, SOSP 2019, section 6.1).
 *
 * A session is a model with an SLO and a rate. A GPU that has only one session at its best batch B (2*l(B) <= SLO) runs
 * batch after batch: it is saturated. What is left of each session's rate is its residue. A GPU shared by residues runs
 * each of them once in a duty cycle d:
 *
 *     |  A: l(8)  |  B: l(4) |            |  A: l(8)  | ...       b >= r*d,  sum of l(b) <= d,  d + l(b) <= SLO
 *     |<------------- d ----------------->|
 *
 * Items get cheaper the more of them are squished into one batch, so the size of a session depends on the sessions that
 * share its GPU. The plan is incremental: earlier placements are kept where they still fit.
 *
 * Pure; memory is the caller's. Any thread, one at a time. */
#pragma once

#include <stdbool.h>

#include "core/data/profile.h"
#include "core/util/heap.h"

#define SQUISHY_NONE UINT32_MAX

struct squishy_session {
    const struct profile *profile; /* profile on these GPUs; NULL: the model does not run on them */
    uint32_t batch_max;            /* most items of a batch, within the profile */
    int64_t slo_ns;
    double rate;            /* items per second; 0: the session needs no GPU */
    uint64_t weights_bytes; /* bytes of weights on a GPU, where memory is limited */
};

struct squishy_gpu {
    bool usable;          /* sessions may be placed on the GPU */
    uint32_t saturated;   /* session that has the GPU for itself; or NONE */
    uint32_t first;       /* first of the residues that share the GPU, linked by `next`; or NONE */
    int64_t duty_ns;      /* duty cycle; of a saturated GPU: l(B) */
    double occupancy;     /* share of the cycle spent running; 0: no session is on the GPU */
    int64_t busy_ns;      /* time of a cycle that the residues run */
    double load_least;    /* sum of the residues'; without any, infinite */
    uint64_t bytes_taken; /* bytes of weights on the GPU */
};

/* A session as planned. */
struct squishy_place {
    /* needs of the session, at the rates of the last update */
    uint32_t batch_full;    /* B: best batch of which two fit into the SLO; 0: there is none */
    uint32_t saturated;     /* GPUs that the session has for itself */
    uint32_t saturated_due; /* GPUs that the session should have for itself */
    double residue;         /* items per second that these GPUs leave over */
    uint32_t alone_batch;   /* batch of the residue, if it had a GPU for itself; 0: no residue */
    int64_t alone_duty_ns;  /* duty cycle of that GPU */
    double alone_occupancy; /* occupancy of that GPU */
    double load_least;      /* share of a GPU that the residue takes at least, in whatever duty cycle */
    /* place of the residue */
    uint32_t gpu;   /* GPU of the residue; or NONE */
    uint32_t next;  /* next residue on the same GPU; or NONE */
    uint32_t batch; /* batch of the residue on its GPU */
};

struct squishy {
    uint32_t gpus_max, sessions;
    struct squishy_gpu *gpus;     /* [gpus_max] */
    struct squishy_place *places; /* [sessions] */
    uint64_t memory_bytes;        /* bytes for weights on each GPU; 0: enough for all */
    struct heap order;            /* scratch: GPUs or sessions being sorted */
    uint32_t free_from;           /* number below which no GPU is free */
    uint32_t *moved;              /* scratch [sessions] */
    double *least_of_block;       /* scratch: the least load_least of each block of GPUs */
};

/* The best batch under half the SLO: among the batches b with 2*l(b) <= slo, the largest whose items per second are
 * within 0.1 % of the most; 0: not even one item fits. */
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
/* Takes everything off a GPU, and lets sessions be placed on it or not. */
void squishy_usable_set(struct squishy *plan, uint32_t gpu, bool usable);

/* Plans for the sessions at `scale` times their rates: Algorithm 1 for sessions that are not placed, or no longer fit
 * where they were. An overloaded GPU loses its cheapest residues. GPUs whose residues all fit elsewhere are freed, the
 * least busy first. Returns whether everything fits; the rest has no GPU (squishy_missing()). */
bool squishy_update(struct squishy *plan, const struct squishy_session *sessions, double scale);

/* Items per second of a session, times the update's scale, for which there is no GPU. */
double squishy_missing(const struct squishy *plan, const struct squishy_session *sessions, uint32_t session);
/* How many GPUs have sessions. */
uint32_t squishy_gpus_used(const struct squishy *plan);
/* Whether a session is on a GPU. */
bool squishy_on(const struct squishy *plan, uint32_t gpu, uint32_t session);
/* Batch of a session on a GPU that has the session. */
uint32_t squishy_batch(const struct squishy *plan, uint32_t gpu, uint32_t session);
/* Items per second that the plan gives a session on a GPU that has the session. */
double squishy_rate(const struct squishy *plan, const struct squishy_session *sessions, uint32_t gpu, uint32_t session);
