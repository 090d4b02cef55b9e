/* central_thread_core.h - what the central thread decides: it knows which models and accelerators there are now, has a
 * policy's core (central.h) plan for them, and has a new core made when they are no longer those that the old core was
 * made for. Pure.
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
 * No new core is made when an accelerator leaves while every model still runs somewhere, or comes back after that: the
 * present core is told. */
#pragma once

#include "sched/core/arrival_rates.h"
#include "sched/core/central.h"
#include "sched/core/deadline_queue.h"

#define CENTRAL_COLLECT_NS (10 * NS_PER_MS) /* changes within this time lead to one new core */
#define CENTRAL_NONE       UINT32_MAX

/* Takes refusals and actions; `out` has the caller's numbers. May be called within any function below that is given the
 * time. */
typedef void central_take(void *context, int64_t now_ns, const struct central_output *out);

struct central_thread_core_config {
    const struct central_ops *ops;
    const struct policy_options *options;
    struct request_pool *pool; /* whose nodes only this core and its policy's take */
    uint32_t models_max, accelerators_max, types;
    central_take *take;
    void *context;
};

struct set_model {
    bool there;
    uint32_t member;            /* the policy's number of it; CENTRAL_NONE */
    uint32_t running;           /* batches sent and not ended */
    struct central_model model; /* its profiles: by the caller's types, kept by the caller while it is there */
    struct arrival_rates rates;
};

struct set_accelerator {
    uint8_t type, planned; /* its type, and the type that the policy knows it as */
    bool up;
    uint32_t member;      /* the policy's number of it; CENTRAL_NONE */
    uint32_t outstanding; /* batches sent and not ended; earlier cores sent the first `foreign` of them */
    uint32_t foreign;
    int64_t busy_until_ns; /* about, by the profiles */
};

struct central_thread_core {
    struct central_thread_core_config config;
    struct set_model *models;             /* [models_max] */
    struct set_accelerator *accelerators; /* [accelerators_max] */
    struct deadline_queue waiting;
    bool *queued; /* [pool->capacity] nodes that the policy holds */
    uint32_t queued_end;
    /* the policy's core */
    void *policy; /* NULL: there is none */
    void *memory; /* the core's; if there is none, the last core's, which is still to be freed */
    uint32_t model_count, accelerator_count;
    uint32_t *model_of, *accelerator_of; /* [model_count], [accelerator_count] members */
    int64_t wake_ns;
    struct central_output out;
    struct central_moves moves_before; /* of the policy's earlier cores */
    /* the next one */
    int64_t ctrl_ns;      /* what dispatching a batch takes, as the policy plans with it: at most a part of the SLOs */
    int64_t told_ctrl_ns; /* the same as central_renew_bytes() was told */
    int64_t change_ns;    /* when to make the next core; TIME_NEVER: nothing has changed */
    struct central_config next;
    struct central_model *next_models; /* [models_max] scratch */
    uint8_t *next_types;               /* [accelerators_max] */
};

/* Bytes of memory for the core, which is zeroed and aligned as malloc's. */
size_t central_thread_core_bytes(const struct central_thread_core_config *config);
void central_thread_core_init(struct central_thread_core *core, void *memory,
                              const struct central_thread_core_config *config);

/* ---- what there is ---- */

/* Adds `model`. `told` has its profiles by type, NULL where it does not run; the caller keeps the profiles until the
 * model goes. */
void central_model_comes(struct central_thread_core *core, int64_t now_ns, uint32_t model,
                         const struct central_model *told);
/* Removes a model that has nothing queued and gets no more requests. False: a batch of it has not ended; ask again. */
bool central_model_goes(struct central_thread_core *core, uint32_t model);
void central_accelerator_comes(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator, uint8_t type);
/* No batch is sent there any more; those that were sent still end. */
void central_accelerator_leaves(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator);

/* ---- requests and batches ---- */

/* ARRIVED: the pool must have a free node, and the model must be there. CANCELLED: found by handle and deadline. */
void central_request(struct central_thread_core *core, int64_t now_ns, const struct request_message *message);
/* A batch, a load or an unload that `take` got is over. An accelerator's batches end in the order in which they were
 * sent. Those that `take` did not send are reported with `sent` false, before the next central_renew(). */
void central_action_ended(struct central_thread_core *core, int64_t now_ns, const struct central_ended *ended,
                          bool sent);
/* Does what is due by now: steps the policy for its timer, refuses waiting requests whose deadline has passed. */
void central_look(struct central_thread_core *core, int64_t now_ns);
/* When to call central_look() or to renew next; TIME_NEVER: not before the next event. */
int64_t central_wake_ns(const struct central_thread_core *core);

/* How many accelerators the load needs, as the policy plans (central_ops.needed); negative: the policy does not say. */
double central_needed(const struct central_thread_core *core);
/* How models have moved between accelerators, by all plans since the first request. */
struct central_moves central_moves(const struct central_thread_core *core);

/* ---- another core for the policy ---- */

static inline bool central_renews(const struct central_thread_core *core, int64_t now_ns) {
    return core->change_ns <= now_ns;
}
/* Bytes of memory that the next core takes (central_ops.bytes); 0: there is nothing to plan for. `ctrl_ns`: what
 * dispatching a batch takes. */
size_t central_renew_bytes(struct central_thread_core *core, int64_t now_ns, int64_t ctrl_ns);
/* To be called right after central_renew_bytes(): makes the next core in `memory`, zeroed and of so many bytes, or no
 * core if `memory` is NULL. Returns the old core's memory, which is the caller's again; or NULL. */
void *central_renew(struct central_thread_core *core, int64_t now_ns, void *memory);
/* Puts the next core off until at_ns. Also has one made where nothing has changed but a new core may plan better. */
void central_renew_at(struct central_thread_core *core, int64_t at_ns);
