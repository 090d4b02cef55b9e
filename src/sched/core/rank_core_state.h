/* rank_core_state.h - what a rank core consists of. For its own files only:
 *
 *     rank_core.c         set-up and events: calls all others
 *     rank_candidates.c   candidates, in the order in which they may have free accelerators
 *     rank_match.c        which of them gets which free accelerator
 *     rank_best_effort.c  which accelerators run best effort, and for how long
 *     rank_accelerators.c when accelerators are free, and how long before that they are offered
 *     rank_load.c         the load and the parameters derived from it
 */
#pragma once

#include "core/util/heap.h"
#include "sched/core/bit_tree.h"
#include "sched/core/load_classes.h"
#include "sched/core/rank_core.h"

#define BATCHES_MOST       2   /* of an accelerator at once */
#define BEST_EFFORT_RUN_NS 1e9 /* longest run of a batch of best effort */

/* A batch that was announced and has not ended. */
struct running {
    uint32_t model;
    bool best_effort;
    int64_t table_ns;   /* how long it runs by the tables */
    int64_t arrives_ns; /* when its inputs do; INT64_MIN: before the accelerator is free */
};

struct accelerator {
    uint8_t type;
    uint8_t batches;   /* one runs, another may be sealed */
    bool granted;      /* between a grant and its answer */
    bool down;         /* out of service; it may still be granted or run batches */
    bool ended_early;  /* granted, and that batch has ended before its answer came: at ended_ns */
    bool ended_unlike; /* how long that batch took says nothing of its model */
    struct running running[BATCHES_MOST];
    int64_t begin_ns; /* of the batch that runs */
    int64_t free_ns;  /* when all its batches are expected to have ended */
    int64_t due_ns;   /* when its newest grant could have been given */
    int64_t ended_ns; /* of the batch that ended early */
};

/* Mean and mean deviation of something, as TCP keeps them for its timeouts (RFC 6298, section 2). */
struct estimate {
    double mean, deviation;
};

/* Lists of models: one for the stages of each level in all lanes, one for leftovers and best effort. */
#define LISTS          (SUPPLY_LEVELS + 1)
#define LIST_LEFTOVERS SUPPLY_LEVELS

struct model_slot {
    bool member;  /* of this sub-cluster; if not, it may still have a grant to answer */
    bool granted; /* between a grant and its answer: its candidates are ignored */
    bool granted_leftovers, granted_best_effort;
    uint8_t dirty;          /* a bit for every list in which it is */
    bool reports;           /* its rates: it is one of `reporting` */
    uint8_t class;          /* of load_classes.h; of one that reports */
    double pace;            /* how long its batches take, divided by what the tables say: the mean */
    int64_t best_effort_ns; /* how long its best effort has run; a model that had none for a while continues where the
                               others are */
};

/* Candidates of one type at one level of supply, by model. */
struct stage {
    struct heap waiting; /* by the time from which they may start */
    struct heap open;    /* whose time has come, by their order */
};

struct lane {
    struct bit_tree free;               /* accelerators */
    struct stage stages[SUPPLY_LEVELS]; /* by level */
    struct heap leftovers;              /* models, by the latest start of their leftovers */
    struct heap best_effort;            /* models with best effort, by best_effort_ns */
    uint32_t best_effort_runs;          /* accelerators that run best effort, or are granted for it */
    uint32_t freed;                     /* accelerators that became free in this step, and were not granted yet */
};

/* Models whose candidates have changed and are not in their places yet. */
struct dirty_list {
    uint32_t *models;
    uint32_t count;
};

struct rank_core {
    uint32_t models, types, accelerators;
    uint32_t free, busy, up; /* accelerators; busy: granted or running */
    uint32_t up_of_type[ACCELERATOR_TYPES_MAX];
    struct accelerator *accelerator; /* [accelerators] */
    struct model_slot *model;        /* [models] */
    struct candidate *candidates;    /* [models][types] */
    struct dirty_list dirty[LISTS];  /* of [models] */
    struct lane lanes[ACCELERATOR_TYPES_MAX];
    struct heap offers;  /* running accelerators, by when they are to be offered */
    uint32_t wanting;    /* models with a candidate */
    bool awaited;        /* some model had a candidate after the last step: accelerators due since then were wanted */
    int64_t due_ns;      /* when these accelerators became due */
    struct estimate hop; /* ns, from when a grant was due to the sealing of its batch */
    uint32_t best_effort_runs;    /* of all lanes */
    int64_t best_effort_ended_ns; /* when best effort last ended */
    int64_t best_effort_turn_ns;  /* best_effort_ns of the model granted last */
    int64_t best_effort_run_ns;   /* how long a batch of best effort may run */
    double kept;                  /* accelerators that are kept from best effort */
    double batch_mean;            /* items of a batch */
    bool typed_late;              /* an accelerator's type is what its joining says */
    int64_t ctrl_ns, data_ns, grace_ns;
    struct model_rates *rates; /* [models] as reported */
    double *admit_share;       /* [models] */
    /* Members that have reported rates, ascending: of the numbers that models may have, most may be unused. */
    uint32_t *reporting; /* [models] */
    uint32_t reporting_count;
    struct model_rates *rates_now; /* [models] scratch: theirs as of now */
    struct load_classes classes;
    uint8_t class_silent;            /* of all models that do not report */
    struct model_rates *class_rates; /* [models] scratch: of one class, where there are several */
    double *class_share;             /* [models] scratch: what the policy admits of it */
    struct cluster_parameters parameters[ACCELERATOR_TYPES_MAX]; /* by class */
    double busy_part[ACCELERATOR_TYPES_MAX];                     /* of a type's accelerators' time, over 2 s */
    int64_t granted_ns[ACCELERATOR_TYPES_MAX]; /* accelerator time granted, by type, since parameters_ns */
    int64_t parameters_ns;                     /* when the parameters were last derived */
    double needed, thread_busy;                /* of all */
    double needed_ns;                          /* accelerator time that was needed */
    int64_t needed_at_ns;                      /* until then */
    int64_t parameters_due_ns;
    uint32_t way; /* by which the policy decides */
    const struct policy_ops *policy;
    struct policy_options options;
};

static inline struct candidate *rank_candidate(const struct rank_core *core, uint32_t model, uint32_t type) {
    return &core->candidates[model * core->types + type];
}

/* How scarce a type's free accelerators are, of which there is one at least. */
static inline uint32_t rank_supply_level(const struct rank_core *core, uint32_t type) {
    const struct lane *lane = &core->lanes[type];
    return supply_level(lane->free.count + lane->best_effort_runs, core->up_of_type[type]);
}

/* ---- rank_candidates.c ---- */

/* All candidates of a model are gone; rank_candidates_clear() is for set-up, when there were none. */
void rank_candidates_clear(struct rank_core *core, uint32_t model);
void rank_candidates_forget(struct rank_core *core, uint32_t model);
/* A model's new candidates, [types]. */
void rank_candidates_store(struct rank_core *core, uint32_t model, const struct candidate *candidates);
/* A model has given its accelerator back although it says that it could use one: its candidates wait until the next
 * instant, so that the accelerator does not go to and fro in this one. */
void rank_candidates_hold(struct rank_core *core, uint32_t model, int64_t now_ns);
/* A model was granted an accelerator, or has other candidates: its places are brought up to date when they are used. */
void rank_model_changed(struct rank_core *core, uint32_t model);
/* Brings one level's stages, or the leftovers and best effort, up to date with the stored candidates. */
void rank_list_bring(struct rank_core *core, uint32_t list);
static inline void rank_list_update(struct rank_core *core, uint32_t list) {
    if (core->dirty[list].count)
        rank_list_bring(core, list);
}
/* The stage for a type's free accelerators, of which there is one at least; up to date. */
static inline struct stage *rank_stage_now(struct rank_core *core, uint32_t type) {
    uint32_t level = rank_supply_level(core, type);
    rank_list_update(core, level);
    return &core->lanes[type].stages[level];
}
/* Of the models of a stage whose candidate may start now, the one that goes first; or RANK_NOBODY. */
uint32_t rank_stage_best(struct rank_core *core, uint32_t type, struct stage *stage, int64_t now_ns);
/* The model whose leftovers start first, or RANK_NOBODY. The list is up to date. */
uint32_t rank_leftovers_best(const struct rank_core *core, struct lane *lane, int64_t now_ns);

/* ---- rank_match.c ---- */

enum purpose { FOR_BATCH, FOR_LEFTOVERS, FOR_BEST_EFFORT };

/* Grants all free accelerators that somebody may use now. */
void rank_match(struct rank_core *core, int64_t now_ns, struct rank_output *out);
/* Grants a model an accelerator of a type, which is free. */
void rank_grant(struct rank_core *core, int64_t now_ns, uint32_t model, uint32_t type, uint32_t a, enum purpose purpose,
                struct rank_output *out);
/* When time alone lets a candidate start; TIME_NEVER: not on what is free now. */
int64_t rank_start_next(struct rank_core *core);

/* ---- rank_best_effort.c ---- */

/* Grants free accelerators for best effort. */
void rank_best_effort_match(struct rank_core *core, int64_t now_ns, struct rank_output *out);
/* One more accelerator of a type runs best effort, or with -1 one less. */
void rank_best_effort_count(struct rank_core *core, uint32_t type, int32_t change);
/* A batch got an accelerator; `waited`: it had to wait for one. */
void rank_kept_learn(struct rank_core *core, int64_t now_ns, bool waited);
/* Every 10 ms while events come. */
void rank_kept_fade(struct rank_core *core);
/* The lesser of `most_ns` and how long best effort may run if requests of a model with these rates must be in time. */
double rank_best_effort_run_most(const struct model_rates *rates, double most_ns);

/* ---- rank_accelerators.c ---- */

/* Offers the accelerators whose time for that has come, even if no model wants one. */
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
/* A batch of the accelerator has ended. `unlike`: how long it took says nothing of its model. */
void rank_accelerator_ended(struct rank_core *core, int64_t now_ns, uint32_t a, int64_t ended_ns, bool unlike);
void rank_accelerator_down(struct rank_core *core, uint32_t a);
void rank_accelerator_up(struct rank_core *core, int64_t now_ns, uint32_t a, uint8_t type);

/* ---- rank_load.c ---- */

/* A member reports its rates; a model that leaves has none any more. */
void rank_rates_store(struct rank_core *core, uint32_t model, const struct model_rates *rates);
void rank_rates_forget(struct rank_core *core, uint32_t model);
/* Derives the parameters: when parameters_due_ns has come. */
void rank_load_update(struct rank_core *core, int64_t now_ns, struct rank_output *out);
