/* central_thread_core.h - what the central thread decides: it knows which models and accelerators there are now, and a
 * policy's core (central.h) plans for them. When other models or accelerators come, a new core is made. Pure.
 *
 *     models come and go --------> set --(renew)--> policy's core: its numbers are those of the set's members
 *     accelerators come and go -->  |                  ^   | batches, refusals
 *     requests ---------------------+--> waiting ------'   v
 *
 * A policy's core is made for models that run somewhere, and accelerators that run something. A new core is told which
 * accelerators are busy with batches of the old one, and gets the requests that the old one had queued. A request whose
 * model runs on none of the accelerators that are there waits here until such an accelerator comes or the request's
 * deadline has passed. What the old core had learned from runs is lost; the arrival rates are kept here.
 *
 * Where memory is limited, a new core is told what accelerators have and load (CENTRAL_HAS). A model with batches of
 * the old core counts as one that comes until they have ended, as it must not be unloaded meanwhile. An accelerator
 * that comes is first told to be EMPTY; the ends of what was sent to it before are not told to the policy.
 *
 * No new core is made when an accelerator leaves while every model still runs somewhere, or when that accelerator comes
 * back: the present core is told. */
#pragma once

#include "sched/core/arrival_rates.h"
#include "sched/core/central.h"
#include "sched/core/deadline_queue.h"

#define CENTRAL_COLLECT_NS (10 * NS_PER_MS) /* time within which several changes lead to one new core */
#define CENTRAL_NONE       UINT32_MAX

/* Takes refusals and actions; `out` has the caller's numbers of models and accelerators. Any function below that is
 * given the time may call it. */
typedef void central_take(void *context, int64_t now_ns, const struct central_output *out);

struct central_thread_core_config {
    const struct central_ops *ops;
    const struct policy_options *options;
    struct request_pool *pool; /* pool of nodes that only this core and its policy's core take */
    uint32_t models_max, accelerators_max, types;
    double price[CENTRAL_TYPES_MAX]; /* dollars an hour for an accelerator of each type; 0: not known */
    bool limited;                    /* memory is limited; else every model is loaded everywhere, for good */
    central_take *take;
    void *context;
};

struct set_model {
    bool there;
    uint32_t member;            /* the policy's number of the model; CENTRAL_NONE: the policy does not know it */
    uint32_t running;           /* batches sent and not ended */
    uint32_t places, moves;     /* where memory is limited: accelerators that have the model; its loads and unloads that
                                 * were sent and have not ended */
    bool going;                 /* it is to be unloaded everywhere, and no policy knows it any more */
    struct central_model model; /* description; the caller keeps its profiles, by the caller's types */
    struct arrival_rates rates;
};

struct set_accelerator {
    uint8_t type, planned;                /* type now; type for which the policy plans */
    uint64_t memory_bytes, planned_bytes; /* the same of its memory for weights, where it is limited */
    uint64_t page_bytes, planned_page;    /* the same of its pages */
    bool up;
    uint32_t member;       /* the policy's number of the accelerator; CENTRAL_NONE: the policy does not know it */
    uint32_t outstanding;  /* batches sent and not ended */
    uint32_t foreign;      /* batches among `outstanding`, the first ones, that earlier cores sent */
    int64_t busy_until_ns; /* expected end of the outstanding batches, by the profiles */
    uint32_t moves;        /* loads and unloads sent and not ended */
    uint32_t void_moves; /* moves among them, the first ones, that were sent before the accelerator came, or empty it */
    uint32_t old_moves;  /* moves among them, the first ones, that earlier cores sent */
};

/* What an accelerator's memory has of a model. */
enum central_pair {
    PAIR_NONE,
    PAIR_COMES, /* a load was sent */
    PAIR_HERE,
    PAIR_HELD,  /* HERE; the policy's core was told that it comes, since batches of earlier cores may need it */
    PAIR_LEAVES /* an unload was sent */
};

struct central_thread_core {
    struct central_thread_core_config config;
    struct set_model *models;             /* [models_max] */
    struct set_accelerator *accelerators; /* [accelerators_max] */
    uint8_t *pairs;                       /* [accelerators_max][models_max] enum central_pair, if memory is limited */
    struct deadline_queue waiting;        /* requests whose model runs nowhere now */
    bool *queued;                         /* [pool->capacity] whether the policy's core holds the node */
    uint32_t queued_end;                  /* one past the last node that the policy's core has held */
    /* the policy's core */
    void *policy; /* NULL: there is none */
    void *memory; /* memory of the core; if there is no core, memory of the last one, which is still to be freed */
    uint32_t model_count, accelerator_count;
    uint32_t *model_of, *accelerator_of; /* [model_count], [accelerator_count] the caller's number of each member */
    uint32_t serving;                    /* accelerators that are up */
    int64_t wake_ns;
    struct central_output out;
    struct central_moves moves_before; /* moves by the policy's earlier cores */
    /* times of dispatch, and the next core */
    int64_t ctrl_ns;      /* time to dispatch a batch by which the policy plans: at most a part of the shortest SLO */
    int64_t told_ctrl_ns; /* time to dispatch a batch that central_renew_bytes() was told */
    int64_t change_ns;    /* time to make the next core; TIME_NEVER: nothing has changed */
    struct central_config next;
    struct central_model *next_models;    /* [models_max] models of `next` */
    uint8_t *next_types;                  /* [accelerators_max] accelerators' types of `next` */
    uint64_t *next_memory, *next_page;    /* the same: their memory, and its pages */
    double next_price[CENTRAL_TYPES_MAX]; /* prices of `next` */
    /* The pool that the policy has chosen last, by the caller's types, also if it was an earlier core. */
    bool pool_chosen;
    uint16_t pool[CENTRAL_TYPES_MAX];
    uint8_t type_of[CENTRAL_TYPES_MAX]; /* the caller's number of each of the policy's types */
};

/* Bytes of memory for the core. The memory is zeroed, and aligned as malloc's. */
size_t central_thread_core_bytes(const struct central_thread_core_config *config);
void central_thread_core_init(struct central_thread_core *core, void *memory,
                              const struct central_thread_core_config *config);

/* ---- what there is ---- */

/* Adds `model`. `told` has its profiles by type, NULL where it does not run; the caller keeps the profiles until the
 * model goes. `before`: the model from which it takes requests over from now on, and so the arrival rates;
 * CENTRAL_NONE: none. */
void central_model_comes(struct central_thread_core *core, int64_t now_ns, uint32_t model,
                         const struct central_model *told, uint32_t before);
/* Removes a model that has nothing queued and gets no more requests. False: a batch, a load or an unload of the model
 * has not ended; call again later. Where memory is limited, it is unloaded first. */
bool central_model_goes(struct central_thread_core *core, int64_t now_ns, uint32_t model);
/* `memory_bytes`, `page_bytes`: where memory is limited; weights take whole pages of it. */
void central_accelerator_comes(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator, uint8_t type,
                               uint64_t memory_bytes, uint64_t page_bytes);
/* An accelerator gets no more batches; the batches that were sent to it still end. */
void central_accelerator_leaves(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator);

/* ---- requests and batches ---- */

/* ARRIVED: the pool must have a free node, and the model must be there. CANCELLED: found by handle and deadline. */
void central_request(struct central_thread_core *core, int64_t now_ns, const struct request_message *message);
/* An action that `take` got is over. An accelerator's batches end in the order in which they were sent, and so do its
 * other actions. Returns the time that the policy thought it would take; 0: not known. If `take` could not send a
 * batch, its end is reported with `sent` false, before the next central_renew(). */
int64_t central_action_ended(struct central_thread_core *core, int64_t now_ns, const struct central_ended *ended,
                             bool sent);
/* Time that a batch takes on an accelerator by the model's profile; 0: the model does not run on that type. */
static inline int64_t central_run_ns(const struct central_thread_core *core, uint32_t accelerator, uint32_t model,
                                     uint32_t items) {
    const struct profile *profile = core->models[model].model.profiles[core->accelerators[accelerator].type];
    return profile ? profile->latency_ns[items] : 0;
}
/* Does what is due by now: steps the policy for its timer, refuses waiting requests whose deadline has passed. */
void central_look(struct central_thread_core *core, int64_t now_ns);
/* When to call central_look() next, or to renew the core; TIME_NEVER: not before the next event. */
int64_t central_wake_ns(const struct central_thread_core *core);

/* How many accelerators the load needs, as the policy plans (central_ops.needed); negative: the policy does not say. */
double central_needed(const struct central_thread_core *core);
/* [config.types] How many accelerators of each type there should be, as the policy has chosen last (central_ops.pool);
 * NULL: it has chosen nothing. */
static inline const uint16_t *central_pool(const struct central_thread_core *core) {
    return core->pool_chosen ? core->pool : NULL;
}
/* How models have moved between accelerators, by all plans since the first request. */
struct central_moves central_moves(const struct central_thread_core *core);

/* ---- another core for the policy ---- */

static inline bool central_renews(const struct central_thread_core *core, int64_t now_ns) {
    return core->change_ns <= now_ns;
}
/* Bytes of memory that the next core takes (central_ops.bytes); 0: there is nothing to plan for. `ctrl_ns`: time to
 * dispatch a batch. */
size_t central_renew_bytes(struct central_thread_core *core, int64_t now_ns, int64_t ctrl_ns);
/* Called right after central_renew_bytes(): makes the next core in `memory`, which has as many zeroed bytes; NULL:
 * makes no core. Returns the old core's memory, which is the caller's again, or NULL. */
void *central_renew(struct central_thread_core *core, int64_t now_ns, void *memory);
/* The next core is to be made at at_ns: later than planned, or although no model or accelerator has come or gone. */
void central_renew_at(struct central_thread_core *core, int64_t at_ns);
