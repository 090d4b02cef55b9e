/* rank_core.h - matches model candidates to free accelerators of one sub-cluster: a pure state machine in virtual time.
 *
 * The rank thread (live) and the simulator drive it with rank_core_step(). Symphony (arXiv 2308.07470), section 4.5 and
 * Appendix C, RankThread. */
#pragma once

#include <stddef.h>

#include "core/data/messages.h"
#include "sched/core/policy.h"

#define RANK_GRANTS_MAX 64 /* grants that one step may give */
#define RANK_MOVES_MAX  64 /* loads and unloads that one step may give */
#define RANK_GONE_MAX   16 /* models that leave once no accelerator has them, of one step */
#define RANK_NOBODY     UINT32_MAX

struct rank_core_config {
    uint32_t models;
    uint32_t accelerators;
    const uint8_t *accelerator_type; /* [accelerators], each under `types` */
    uint32_t types;
    bool absent; /* every accelerator is down until it joins, and RANK_ACCELERATOR_UP then names its type */
    int64_t ctrl_ns, data_ns; /* ctrl + data*b: time that a batch of b items takes to an accelerator, busy or not */
    int64_t grace_ns; /* lateness up to which a candidate still gets a grant: a newer candidate is on its way, and on a
                         grant the model composes its batch anew; 0: messages take no time */
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
    /* Where there are several sub-clusters: the number of this one, and to which one each accelerator and model
     * belongs. Accelerators of others count as down, and models of others may join. NULL: all are of this one. */
    uint32_t subcluster;
    const uint8_t *subcluster_of_accelerator, *subcluster_of_model; /* [accelerators], [models]; only read by init() */
    bool limited; /* whether accelerators have none of the models at first, and load them as they are wanted */
    bool told; /* limited: accelerators tell their memory, and which models they have and may load (enum memory_telling)
                */
    bool cuts_loads;       /* limited, not told: a load may go ahead of another one that is under way */
    uint32_t memory_pages; /* limited: memory of each accelerator for models; told: the most that one may have */
    uint32_t copies_most;  /* limited: models that an accelerator may have at once, one of several variants counted
                            * once; 0: `models` */
    const struct rank_weights *weights; /* [models] if limited; only read by init(). Models that join bring
                                         * theirs */
};

struct rank_core;

/* An accelerator is granted while it is free, and ahead of time while it runs one batch. Every batch that an answer
 * announced is followed by one RANK_BATCH_ENDED of its accelerator, a lost one too (at the latest before the
 * accelerator is up again). The event may come before the answer, and before that of a batch granted earlier. */
enum rank_event_kind {
    RANK_MESSAGE,          /* `message` of a model thread */
    RANK_CANDIDATES,       /* `candidates`: the newest ones of `variant` */
    RANK_BATCH_ENDED,      /* `ended`: a batch of `variant` on `accelerator` is over */
    RANK_TIMER,            /* the time of rank_output.wake_ns has come */
    RANK_ACCELERATOR_UP,   /* `accelerator` of `type` joins; it is free once all its batches are reported as ended */
    RANK_ACCELERATOR_DOWN, /* `accelerator` leaves and gets no more grants; its batches are still reported as ended */
    RANK_MOVED,            /* `moved`: a move is over, or `told`. Every move is reported, also if its accelerator has
                            * left */
    RANK_WAY,              /* `way`: the policy is to decide by this way from now on */
};

/* What an accelerator is to do with its memory, in the order given: LOAD, UNLOAD, or EMPTY. One load at a time, and one
 * `ahead`; MEMORY_ORDERS_MOST moves that are not reported. */
struct rank_move {
    enum central_action_kind kind;
    uint32_t accelerator;
    struct variant_id variant;
    uint32_t epoch;    /* number that comes back in memory_moved */
    uint32_t yields;   /* UNLOAD: 1: nothing is known of the model there any more; it may not be there at all */
    uint32_t ahead;    /* LOAD, UNLOAD: 1: it goes before loads that do not, also one that is under way */
    int64_t latest_ns; /* LOAD: latest begin; else TIME_NEVER */
};

struct rank_event {
    enum rank_event_kind kind;
    struct variant_id variant;
    uint32_t accelerator;
    union {
        const struct rank_message *message;
        const struct candidate *candidates; /* [types] */
        struct memory_moved moved;
        uint8_t type;
        uint32_t way;
        struct {
            int64_t at_ns;
            bool unlike; /* the time that the batch took says nothing of its model */
        } ended;
    };
};

struct rank_output {
    uint32_t grant_count;
    struct grant_message grants[RANK_GRANTS_MAX]; /* kind GRANT_ACCELERATOR */
    uint32_t move_count;
    struct rank_move moves[RANK_MOVES_MAX]; /* before what is granted to the same accelerators later */
    bool parameters_changed;                /* every model is to be told rank_core_parameters() */
    struct variant_id joined;               /* to be told rank_core_parameters(); RANK_NOBODY: none */
    struct variant_id left;                 /* to be told GRANT_LEFT; RANK_NOBODY: none */
    uint32_t gone_count; /* where memory is limited: more of these, since accelerators have given up */
    struct variant_id
        gone[RANK_GONE_MAX]; /* the last copies of their models, by moves of this step or of those before */
    int64_t wake_ns;         /* time of the next RANK_TIMER (now, if more grants wait); TIME_NEVER: none is needed */
};

/* Bytes of memory for a core. The memory is aligned as malloc's. */
size_t rank_core_bytes(const struct rank_core_config *config);
/* Sets a core up. Every accelerator of its sub-cluster is free, unless config->absent. */
void rank_core_init(struct rank_core *core, const struct rank_core_config *config);
/* Time of the first RANK_TIMER, before any step; TIME_NEVER: events will come first. */
int64_t rank_core_first_ns(const struct rank_core *core);
void rank_core_step(struct rank_core *core, int64_t now_ns, const struct rank_event *event, struct rank_output *out);
/* Handles an event as a step does, but grants nothing yet: more events of this time follow, and rank_core_step() takes
 * the last of them. Sets only `joined` and `left` of `out`. */
void rank_core_take(struct rank_core *core, int64_t now_ns, const struct rank_event *event, struct rank_output *out);
/* The next message (GRANT_MEMORY) for a model that came to an accelerator's memory or left the last one, or that is
 * being loaded. False: there is none. Called after each step, as long as the shell has room for such messages. */
bool rank_core_memory_news(struct rank_core *core, struct grant_message *message);
/* How often an accelerator has left, where memory is limited: what is told with a higher number is of a later time. */
uint32_t rank_core_memory_epoch(const struct rank_core *core, uint32_t accelerator);
/* Before RANK_MOVED of a load that is done: how long it was expected to take; 0: that is not known. */
int64_t rank_core_load_expected_ns(const struct rank_core *core, const struct memory_moved *moved);
/* The message for one model after parameters_changed. */
void rank_core_parameters(const struct rank_core *core, struct variant_id variant, struct grant_message *message);
/* How many accelerators the load needs: sum(rate * (alpha + beta/b*)), as of the last parameters. */
double rank_core_accelerators_needed(const struct rank_core *core);
/* The accelerator time that the load has needed so far, in nanoseconds, as of the last parameters. Its growth divided
 * by the time passed is the mean number of accelerators needed. */
double rank_core_needed_ns(const struct rank_core *core);
/* How many accelerators are granted or have batches. */
uint32_t rank_core_accelerators_busy(const struct rank_core *core);
/* When the next accelerator will be offered ahead of time, as far as is known; TIME_NEVER: none is expected. */
int64_t rank_core_offer_ns(const struct rank_core *core);
/* Whether the model belongs to the sub-cluster. Models of other sub-clusters are told nothing. */
bool rank_core_member(const struct rank_core *core, struct variant_id variant);
/* Whether an accelerator is not granted and has no batches, as far as the core was told. An accelerator that is idle
 * and down has left. */
bool rank_core_accelerator_idle(const struct rank_core *core, uint32_t accelerator);
/* How many accelerators can be granted now: idle ones, and those offered ahead of time. */
uint32_t rank_core_accelerators_free(const struct rank_core *core);
