/* clockwork.h - the state of the policy `clockwork`, for its own files only: clockwork.c (queues, batches),
 * clockwork_layout.c (memory), clockwork_strategy.c (a model's next batch), clockwork_load.c (what is loaded where) and
 * clockwork_needed.c (how many accelerators the load needs). */
#pragma once

#include "core/data/pages.h"
#include "core/data/rolling.h"
#include "core/util/heap.h"
#include "sched/core/central.h"
#include "sched/core/deadline_queue.h"
#include "sched/core/load_time.h"

#define NOBODY   UINT32_MAX
#define SENT_MAX 64 /* batches that an accelerator may have at once */

struct clockwork_model {
    struct deadline_queue queue;
    struct profile *tables[CENTRAL_TYPES_MAX]; /* the corrected latencies; NULL: the model does not run on the
                                                * type */
    struct rolling *rolling[CENTRAL_TYPES_MAX];
    uint32_t batch_max;
    int64_t slo_ns;
    uint64_t items; /* items that have come since clockwork.needed_at_ns */
    double rate;    /* items a second, as of needed_at_ns */
    int64_t ran_ns; /* time at which a batch last ended or refusals last relaxed the tables; TIME_NEVER: not yet */
    /* where memory is short */
    struct load_time load;
    uint64_t weights_bytes;
    uint32_t places;         /* accelerators that have the model or load it */
    bool pinned;             /* one accelerator is to keep the model */
    uint32_t kept_by;        /* accelerator that keeps it; NOBODY: none does */
    double allocated_ns;     /* time of the model's demand that these accelerators will finish in time */
    int64_t allocated_at_ns; /* time at which allocated_ns was computed; INT64_MIN: compute it again */
    int64_t again_ns;        /* a load of the model failed: time at which `failed` is forgotten; 0: none has */
};

/* A batch that was sent and has not ended. */
struct clockwork_sent {
    int64_t arrives_ns, run_ns; /* time at which its inputs arrive; how long it runs */
};

struct clockwork_accelerator {
    uint8_t type;
    bool up;
    uint32_t group, member; /* group of the accelerator; its number in the group */
    uint32_t sent_first, sent_count;
    struct clockwork_sent sent[SENT_MAX]; /* batches in the order of running, in a circle from sent_first */
};

/* Accelerators of one type with the same models loaded: all of a type. Where memory is short, each accelerator is a
 * separate group. */
struct clockwork_group {
    uint8_t type;
    uint32_t first;         /* index of the group's first accelerator in clockwork.members */
    struct heap strategies; /* models by a lower bound on their next strategy's latest_ns; INT64_MIN: look again */
    struct heap free;       /* members that may be given work, by when they become free; 0: idle */
};

enum clockwork_place { PLACE_NONE, PLACE_LOADING, PLACE_LOADED };

/* One accelerator's memory. */
struct clockwork_memory {
    struct pages pages;
    uint64_t page_bytes;
    uint32_t pages_kept; /* pages of the models that it keeps: they are held for as long as they are there */
    double load_ns;      /* l_g: sum of the allocations to the accelerator */
    int64_t free_ns;     /* expected end of the loads given to the accelerator */
    uint32_t loads;      /* loads given to the accelerator that have not ended */
    int64_t ended_ns;    /* end of the newest load */
    uint32_t epoch;      /* times that the accelerator left or joined; loads of an earlier epoch are forgotten */
};

struct clockwork {
    uint32_t model_count, accelerator_count, group_count, types;
    int64_t ctrl_ns, data_ns, ahead_ns;
    double capacity_ns;
    bool powers; /* batches are of 1, 2, 4, ... items, and of the model's largest */
    bool learn;
    bool skip; /* requests before a batch's first one are dropped */
    uint32_t batch_most;
    struct request_pool *pool;
    struct clockwork_model *models;
    struct clockwork_accelerator *accelerators;
    struct clockwork_group *groups;
    uint32_t *members;  /* accelerators, group by group */
    struct heap due;    /* groups by when a batch must be chosen */
    struct heap expiry; /* models by the latest start of their first request */
    double needed;      /* accelerators that the load needs, as of needed_at_ns (0: not looked yet) */
    int64_t needed_at_ns;
    bool needed_known; /* some rate was over 0 at an earlier look */
    /* where memory is short; else NULL */
    struct clockwork_memory *memories; /* [accelerators] */
    uint8_t *places;                   /* [models][accelerators] */
    uint32_t *sites;                   /* [models][accelerators]: the first `places` have the model or load it */
    bool *failed;                      /* [models][accelerators]: the accelerator could not load the model */
    double *allocations;               /* [models][accelerators]: a_{m,g} */
    double *priorities;                /* [models]: p_m */
    struct heap wanted;                /* models with a priority over 0 that are not everywhere, the highest first */
    struct heap loaders;               /* accelerators that are up, by when they may be given a load; 0: idle */
    uint32_t *passed_over;             /* [models] scratch */
    int64_t load_due_ns;               /* time to look for loads again; TIME_NEVER: after the next event */
    uint64_t weights_largest;          /* weights of the largest model */
    double load_pace;                  /* as in load_time.h */
    bool begun;                        /* the first TIMER has come: pinned models are loaded */
};

static inline enum clockwork_place clockwork_place(const struct clockwork *c, uint32_t model, uint32_t accelerator) {
    return c->places[(size_t)model * c->accelerator_count + accelerator];
}

/* The i-th of the accelerators that have the model or load it. */
static inline uint32_t clockwork_site(const struct clockwork *c, uint32_t model, uint32_t i) {
    return c->sites[(size_t)model * c->accelerator_count + i];
}

/* Time before a batch of `items` can start. */
static inline int64_t clockwork_delay(const struct clockwork *c, uint32_t items) {
    return c->ctrl_ns + c->data_ns * items;
}

/* A batch of a model: the requests from `start` on that fit into `items`, and the batch's latest start. */
struct clockwork_strategy {
    uint32_t start, items;
    int64_t latest_ns;
};

static inline struct request_node *clockwork_node(const struct clockwork *c, uint32_t node) {
    return &c->pool->nodes[node];
}

/* ---- clockwork_layout.c ---- */

/* Lays out all state in the arena and sets it up, or only counts the bytes. */
void clockwork_layout(struct clockwork *c, struct arena *arena, const struct central_config *config);

/* ---- clockwork_strategy.c ---- */

/* The model's strategy with the earliest latest_ns, on accelerators of the type that are free at free_ns. Its batch is
 * grown. `start` is REQUEST_NONE if there is no strategy. */
struct clockwork_strategy clockwork_strategy_find(const struct clockwork *c, uint8_t type, uint32_t m, int64_t now_ns,
                                                  int64_t free_ns);

/* ---- clockwork.c, for clockwork_load.c ---- */

/* How long a batch of `items` runs on the fastest type. */
int64_t clockwork_alone_ns(const struct clockwork *c, uint32_t model, uint32_t items);
/* The model came to an accelerator or left it. */
void clockwork_placed(struct clockwork *c, uint32_t model, uint32_t accelerator);
/* Room for one more action, or NULL. */
struct central_action *clockwork_action(struct central_output *out);

/* ---- clockwork_needed.c ---- */

/* Measures the rates and the load once a second; called at each event. */
void clockwork_needed_look(struct clockwork *c, int64_t now_ns);
/* When to call clockwork_needed_look() at the latest. */
int64_t clockwork_needed_due_ns(const struct clockwork *c);

/* ---- clockwork_load.c ---- */

/* Lays out the state for loading, or only counts its bytes. */
void clockwork_load_layout(struct clockwork *c, struct arena *arena, const struct central_config *config);
/* The first TIMER: pinned models are loaded from now on. */
void clockwork_load_begin(struct clockwork *c, int64_t now_ns);
/* Requests of the model came or went. */
void clockwork_load_update(struct clockwork *c, uint32_t model, int64_t now_ns);
void clockwork_load_ended(struct clockwork *c, int64_t now_ns, const struct central_ended *ended,
                          struct central_output *out);
/* The accelerator has the model; if it `comes`, it will, and the end of a load follows. */
void clockwork_load_has(struct clockwork *c, int64_t now_ns, uint32_t accelerator, uint32_t model, bool comes);
/* The accelerator left or joined: nothing is loaded on it. */
void clockwork_load_reset(struct clockwork *c, int64_t now_ns, uint32_t accelerator, bool up);
/* Gives loads, and unloads before them, to accelerators whose loads take less than `ahead`. */
void clockwork_load_schedule(struct clockwork *c, int64_t now_ns, struct central_output *out);
/* The time that a load of the model is expected to take; 0: longer than its requests may wait, which then need not wait
 * for it. The model is loaded for later ones. */
int64_t clockwork_load_awaited(const struct clockwork *c, uint32_t model);
/* The earliest time at which a model that is loaded nowhere could be loaded for what waits. */
int64_t clockwork_load_earliest(const struct clockwork *c, uint32_t model, int64_t now_ns);
