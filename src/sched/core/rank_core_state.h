/* rank_core_state.h - what a rank core consists of. For its own files only:
 *
 *     rank_core.c         set-up and events: calls all others
 *     rank_candidates.c   candidates, in the order in which they may have free accelerators
 *     rank_match.c        which candidate gets which free accelerator
 *     rank_best_effort.c  which accelerators run best effort, and for how long
 *     rank_accelerators.c when accelerators become free, and how long before that time they are offered
 *     rank_load.c         the load and the parameters derived from it
 *     rank_memory.c, rank_loads.c  where memory is limited: which accelerators have which models (rank_memory.h)
 */
#pragma once

#include "core/util/heap.h"
#include "sched/core/bit_tree.h"
#include "sched/core/load_classes.h"
#include "sched/core/rank_core.h"
#include "sched/core/rank_memory.h"

#define BATCHES_MOST 2           /* batches of an accelerator at once */
#define RANK_WEIGHT  LOAD_WEIGHT /* of the newest batch in means of what they took */

/* A batch that was announced and has not ended. */
struct running {
    uint32_t model;
    bool best_effort;
    uint16_t epoch;     /* epoch of the accelerator's memory when the batch was granted */
    int64_t table_ns;   /* time that the batch runs, by the tables */
    int64_t arrives_ns; /* time at which its inputs arrive; INT64_MIN: before the accelerator is free */
};

struct accelerator {
    uint8_t type;
    uint8_t batches;  /* batches announced and not ended: one runs, one may wait */
    bool granted;     /* a grant of the accelerator has not been answered: that to model granted_to */
    bool down;        /* the accelerator is out of service; it may still be granted or have batches */
    bool ended_early; /* the granted batch has ended, at ended_ns, before its answer came */
    uint16_t epoch;   /* epoch of its memory at the newest grant */
    uint32_t granted_to;
    bool ended_unlike;                    /* the time that the batch which ended early took says nothing of its model */
    struct running running[BATCHES_MOST]; /* [batches] in the order of running */
    int64_t begin_ns;                     /* start of the batch that runs */
    int64_t free_ns;                      /* expected end of all batches of the accelerator */
    int64_t due_ns;                       /* time at which the newest grant of the accelerator could have been given */
    int64_t ended_ns;                     /* end of the batch that ended early */
};

/* Lists of models to be brought up to date: one for the stages of each level in all lanes, one for best effort. */
#define LISTS            (SUPPLY_LEVELS + 1)
#define LIST_BEST_EFFORT SUPPLY_LEVELS

struct model_slot {
    bool member;  /* the model belongs to this sub-cluster; a model that does not may still have a grant to answer */
    bool goes;    /* the model that leaves does so for good */
    bool granted; /* a grant of the model has not been answered: its candidates are ignored */
    bool granted_best_effort; /* the newest grant was for best effort */
    uint8_t dirty;            /* lists (a bit each) in which the model is to be brought up to date */
    bool reports;             /* the model has reported rates and is in `reporting` */
    uint8_t class;            /* load class of a model that reports (load_classes.h) */
    double pace;              /* mean of: time of a batch of the model, divided by the time that the tables say */
    int64_t best_effort_ns;   /* time that the model's best effort has run; after a while without any, as the others' */
};

/* Candidates of one type at one level of supply, by model. */
struct stage {
    struct heap waiting; /* models whose candidate may not start yet, by its earliest start */
    struct heap open;    /* models whose candidate may start, by order_ns */
};

struct lane {
    struct bit_tree free;               /* accelerators that can be granted */
    struct stage stages[SUPPLY_LEVELS]; /* stages by level of supply */
    struct heap best_effort;            /* models with best effort, by best_effort_ns */
    uint32_t best_effort_runs;          /* accelerators that run best effort, or are granted for it */
    uint32_t freed;                     /* accelerators that became free in this step, and were not granted yet */
};

/* Models whose candidates have changed since the list's heaps were brought up to date. */
struct dirty_list {
    uint32_t *models;
    uint32_t count;
};

struct rank_core {
    struct rank_memory *memory; /* NULL: memory is not limited */
    uint32_t models, types, accelerators;
    uint32_t free, busy, up; /* accelerators that can be granted; that are granted or have batches; in service */
    uint32_t up_of_type[ACCELERATOR_TYPES_MAX]; /* accelerators in service by type */
    struct accelerator *accelerator;            /* [accelerators] */
    struct model_slot *model;                   /* [models] */
    struct candidate *candidates;               /* [models][types] */
    struct dirty_list dirty[LISTS];             /* lists of up to [models] models */
    struct lane lanes[ACCELERATOR_TYPES_MAX];
    struct heap offers; /* accelerators with a batch, by the time at which they are to be offered */
    uint32_t wanting;   /* models with a candidate */
    bool awaited;       /* after the last step some model wanted an accelerator: those offered since are awaited */
    int64_t due_ns;     /* time at which the awaited accelerators became due */
    double hop_ns;      /* mean time from when a grant was due to the sealing of its batch */
    int64_t best_effort_turn_ns; /* best_effort_ns of the model that was last granted an accelerator for best effort */
    int64_t best_effort_run_ns;  /* longest run of a batch of best effort */
    double batch_mean;           /* mean items of a batch */
    bool typed_late;             /* an accelerator has the type with which it joins (config.absent) */
    int64_t ctrl_ns, data_ns, grace_ns;
    struct model_rates *rates; /* [models] rates as reported */
    double *admit_share;       /* [models] share of each model's arrivals to admit */
    /* [models] Members that have reported rates, ascending. Most of the numbers that models may have may be unused. */
    uint32_t *reporting;
    uint32_t reporting_count;
    struct model_rates *rates_now; /* [reporting_count] scratch: rates of the models in `reporting`, as of now */
    struct load_classes classes;
    uint8_t class_silent;            /* class of the models that do not report */
    struct model_rates *class_rates; /* scratch: rates_now of the models of one class, where there are several */
    double *class_share;             /* scratch: admit_share of the models of one class */
    struct cluster_parameters parameters[ACCELERATOR_TYPES_MAX]; /* parameters by class */
    double busy_part[ACCELERATOR_TYPES_MAX];   /* share of their time that accelerators of a type are busy, over 2 s */
    int64_t granted_ns[ACCELERATOR_TYPES_MAX]; /* accelerator time granted since parameters_ns, by type */
    int64_t parameters_ns;                     /* time at which the parameters were last derived */
    double needed, thread_busy; /* accelerators that the load needs; largest busy share of a model thread's time */
    double needed_ns;           /* accelerator time needed until needed_at_ns */
    int64_t needed_at_ns;
    int64_t parameters_due_ns; /* time at which to derive the parameters next */
    uint32_t way;              /* number of the way by which the policy decides */
    const struct policy_ops *policy;
    struct policy_options options;
};

static inline struct candidate *rank_candidate(const struct rank_core *core, uint32_t model, uint32_t type) {
    return &core->candidates[model * core->types + type];
}

/* How scarce the free accelerators of a type are. At least one is free. */
static inline uint32_t rank_supply_level(const struct rank_core *core, uint32_t type) {
    const struct lane *lane = &core->lanes[type];
    return supply_level(lane->free.count + lane->best_effort_runs, core->up_of_type[type]);
}

/* ---- rank_candidates.c ---- */

/* Both remove all candidates of a model; rank_candidates_clear() is for set-up, when no list holds the model. */
void rank_candidates_clear(struct rank_core *core, uint32_t model);
void rank_candidates_forget(struct rank_core *core, uint32_t model);
/* Stores a model's new candidates[types]. */
void rank_candidates_store(struct rank_core *core, uint32_t model, const struct candidate *candidates);
/* A model has given its accelerator back. Candidates of it that may start now must wait one nanosecond, so that the
 * accelerator is not granted to the model again at the same time. */
void rank_candidates_hold(struct rank_core *core, uint32_t model, int64_t now_ns);
/* A model was granted an accelerator, or has other candidates: puts the model on all dirty lists. */
void rank_model_changed(struct rank_core *core, uint32_t model);
/* Brings one level's stages, or best effort, up to date with the stored candidates of one model. */
void rank_list_put(struct rank_core *core, uint32_t model, uint32_t list);
/* The same for all models that have changed. */
void rank_list_bring(struct rank_core *core, uint32_t list);
static inline void rank_list_update(struct rank_core *core, uint32_t list) {
    if (core->dirty[list].count)
        rank_list_bring(core, list);
}
/* The stage for the free accelerators of a type, brought up to date. At least one is free. */
static inline struct stage *rank_stage_now(struct rank_core *core, uint32_t type) {
    uint32_t level = rank_supply_level(core, type);
    rank_list_update(core, level);
    return &core->lanes[type].stages[level];
}
/* The model that goes first among those of a stage whose candidate may start now; RANK_NOBODY: there is none. */
uint32_t rank_stage_best(struct rank_core *core, uint32_t type, struct stage *stage, int64_t now_ns);

/* ---- rank_match.c ---- */

/* Grants all free accelerators that a model may use now. */
void rank_match(struct rank_core *core, int64_t now_ns, struct rank_output *out);
/* Grants a model the free accelerator `a` of a type, for its batch or for best effort. */
void rank_grant(struct rank_core *core, int64_t now_ns, uint32_t model, uint32_t type, uint32_t a, bool best_effort,
                struct rank_output *out);
/* When the next candidate may start on an accelerator that is free now; TIME_NEVER: none may. */
int64_t rank_start_next(struct rank_core *core);

/* ---- rank_best_effort.c ---- */

/* Grants free accelerators for best effort. */
void rank_best_effort_match(struct rank_core *core, int64_t now_ns, struct rank_output *out);
/* How long best effort may run, at most most_ns, so that requests of a model with these rates are still in time. */
double rank_best_effort_run_most(const struct model_rates *rates, double most_ns);

/* ---- rank_accelerators.c ---- */

/* Offers the accelerators that are due to be offered, even if no model wants one. */
void rank_offers_due(struct rank_core *core, int64_t now_ns);
static inline void rank_offers_release(struct rank_core *core, int64_t now_ns) {
    core->due_ns = now_ns;
    if (!heap_empty(&core->offers) && heap_top(&core->offers).key <= now_ns)
        rank_offers_due(core, now_ns);
}
/* The model has sealed a batch for the accelerator that it was granted. */
void rank_batch_announced(struct rank_core *core, int64_t now_ns, uint32_t model, const struct rank_answer *answer);
/* The model has not used the accelerator that it was granted. */
void rank_accelerator_given_back(struct rank_core *core, int64_t now_ns, uint32_t a);
/* A batch of the accelerator has ended. `unlike`: the time that the batch took says nothing of its model. */
void rank_accelerator_ended(struct rank_core *core, int64_t now_ns, const struct rank_event *event);
void rank_accelerator_down(struct rank_core *core, uint32_t a);
void rank_accelerator_up(struct rank_core *core, int64_t now_ns, uint32_t a, uint8_t type);

/* ---- rank_load.c ---- */

/* rank_rates_store(): a member reports its rates. rank_rates_forget(): a model leaves, so its rates are dropped. */
void rank_rates_store(struct rank_core *core, uint32_t model, const struct model_rates *rates);
void rank_rates_forget(struct rank_core *core, uint32_t model);
/* Derives the parameters. Called when parameters_due_ns has come. */
void rank_load_update(struct rank_core *core, int64_t now_ns, struct rank_output *out);
