/* rank_core.h - matches model candidates to free accelerators of one sub-cluster: a pure state machine in virtual time.
 *
 * The rank thread (live) and the simulator drive it with rank_core_step(). Symphony (arXiv 2308.07470), section 4.5 and
 * Appendix C, RankThread. */
#pragma once

#include <stddef.h>

#include "core/data/messages.h"
#include "sched/core/policy.h"

#define RANK_GRANTS_MAX 64 /* grants one step may give */
#define RANK_NOBODY     UINT32_MAX

struct rank_core_config {
    uint32_t models;
    uint32_t accelerators;
    const uint8_t *accelerator_type; /* [accelerators], each under `types` */
    uint32_t types;
    bool absent; /* every accelerator is down until it joins, and is then of the type that its joining names */
    int64_t ctrl_ns, data_ns; /* a batch takes ctrl + data*b to an accelerator, even one that is still busy */
    int64_t grace_ns; /* a candidate that is late by no more than this still gets a grant: a newer candidate is under
                         way, and on a grant the model composes its batch anew. 0 where messages take no time */
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
    /* Of several sub-clusters: which one this is, and to which one each accelerator and model belongs. Accelerators of
     * others count as down, and models of others may join. NULL: all are its own. */
    uint32_t part;
    const uint8_t *part_of_accelerator, *part_of_model; /* [accelerators], [models]; only read by init() */
};

struct rank_core;

/* An accelerator is granted while it is free, and ahead of time while it runs one batch. Every batch that an answer
 * announced is followed by one RANK_BATCH_ENDED of its accelerator, a lost one too (at the latest before the
 * accelerator is up again). The event may come before the answer. */
enum rank_event_kind {
    RANK_MESSAGE,          /* message: from a model thread */
    RANK_CANDIDATES,       /* model, candidates: the newest that a model has told */
    RANK_BATCH_ENDED,      /* accelerator, ended */
    RANK_TIMER,            /* the time of rank_output.wake_ns has come */
    RANK_ACCELERATOR_UP,   /* accelerator, type: joins; it is free once all its batches are reported to have ended */
    RANK_ACCELERATOR_DOWN, /* accelerator: leaves, gets no more grants; a running batch may still report */
    RANK_WAY,              /* way: the one by which the policy is to decide from now on */
};

struct rank_event {
    enum rank_event_kind kind;
    uint32_t model, accelerator;
    union {
        const struct rank_message *message;
        const struct candidate *candidates; /* [types] */
        uint8_t type;
        uint32_t way;
        struct {
            int64_t at_ns;
            bool unlike; /* how long the batch took says nothing of its model */
        } ended;
    };
};

struct rank_output {
    uint32_t grant_count;
    struct grant_message grants[RANK_GRANTS_MAX]; /* kind GRANT_ACCELERATOR */
    bool parameters_changed;                      /* tell every model: rank_core_parameters() */
    uint32_t joined;                              /* tell this model rank_core_parameters(); RANK_NOBODY: none */
    uint32_t left;                                /* tell this model GRANT_LEFT; RANK_NOBODY: none */
    int64_t wake_ns; /* step again with RANK_TIMER then (now, if more grants wait); TIME_NEVER: not needed */
};

/* Bytes of memory for a core, which is aligned as malloc's. */
size_t rank_core_bytes(const struct rank_core_config *config);
/* Every accelerator of the core's own sub-cluster starts free, unless they are absent. */
void rank_core_init(struct rank_core *core, const struct rank_core_config *config);
void rank_core_step(struct rank_core *core, int64_t now_ns, const struct rank_event *event, struct rank_output *out);
/* Handles an event as a step does, but grants nothing yet, because more events of this time follow, and a step after
 * the last of them. Sets only `joined` and `left` of `out`. */
void rank_core_take(struct rank_core *core, int64_t now_ns, const struct rank_event *event, struct rank_output *out);
/* The message for one model after parameters_changed. */
void rank_core_parameters(const struct rank_core *core, uint32_t model, struct grant_message *message);
/* How many accelerators the load needs: sum(rate * (alpha + beta/b*)), as of the last parameters. */
double rank_core_accelerators_needed(const struct rank_core *core);
/* The accelerator time that the load has needed until then, in nanoseconds: its growth over some time gives the mean
 * number. */
double rank_core_needed_ns(const struct rank_core *core);
/* Granted, or running batches. */
uint32_t rank_core_accelerators_busy(const struct rank_core *core);
/* When the next accelerator will be offered ahead of time, as far as is known; TIME_NEVER: none is expected. */
int64_t rank_core_offer_ns(const struct rank_core *core);
/* Whether the model belongs to the sub-cluster: others are told nothing. */
bool rank_core_member(const struct rank_core *core, uint32_t model);
/* Whether an accelerator is neither granted nor running anything, as far as the core was told. If it is also down, it
 * has left. */
bool rank_core_accelerator_idle(const struct rank_core *core, uint32_t accelerator);
/* How many are free to be granted, now or ahead of time. */
uint32_t rank_core_accelerators_free(const struct rank_core *core);
