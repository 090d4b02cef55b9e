/* central_thread_core.h - what the central thread decides: it knows which models and accelerators there are now, has a
 * policy's core (central.h) plan for them, and has another one made when they are not those that it was made for. Pure.
 *
 *     models come and go --------> set --(renew)--> policy's core: its numbers are those of the set's members
 *     accelerators come and go -->  |                  ^   | batches, refusals
 *     requests ---------------------+--> waiting ------'   v
 *
 * A policy's core is made for models that run somewhere, and accelerators that run something. A new one is told which
 * accelerators are busy with what the one before had sent, and gets what that one had queued. A request whose model
 * runs on no accelerator that is there waits here until one comes or its deadline has passed. What the core before had
 * learned from runs is lost; how fast requests come is not.
 *
 * An accelerator that leaves, or comes back, is told to the core that there is, if every model still runs somewhere. */
#pragma once

#include "sched/arrival_rates.h"
#include "sched/central.h"
#include "sched/deadline_queue.h"

#define CENTRAL_COLLECT_NS (10 * NS_PER_MS) /* changes of so long are taken in together */
#define CENTRAL_NONE       UINT32_MAX

/* Refusals and batches; `out` has the caller's numbers. Within any function that is given the time. */
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
    struct central_model model; /* profiles by the caller's types: the caller's, while it is there */
    struct arrival_rates rates;
};

struct set_accelerator {
    uint8_t type, planned; /* what it is, and as what the policy knows it */
    bool up;
    uint32_t member;      /* the policy's number of it; CENTRAL_NONE */
    uint32_t outstanding; /* batches sent and not ended; the first `foreign` of them are of a core before */
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
    void *policy; /* NULL: there is none, */
    void *memory; /* and the last one's is still to be freed */
    uint32_t model_count, accelerator_count;
    uint32_t *model_of, *accelerator_of; /* [model_count], [accelerator_count] members */
    int64_t wake_ns;
    struct central_output out;
    struct central_moves moves_before; /* of the policy's cores before */
    /* the next one */
    int64_t ctrl_ns;      /* what dispatching takes, as the policy plans; */
    int64_t told_ctrl_ns; /* as was told */
    int64_t change_ns;    /* when to make it; TIME_NEVER: nothing has changed */
    struct central_config next;
    struct central_model *next_models; /* [models_max] scratch */
    uint8_t *next_types;               /* [accelerators_max] */
};

/* Memory for the core, aligned as malloc's, zeroed. */
size_t central_thread_core_bytes(const struct central_thread_core_config *config);
void central_thread_core_init(struct central_thread_core *core, void *memory,
                              const struct central_thread_core_config *config);

/* ---- what there is ---- */

/* `model`'s profiles by type, NULL where it does not run; they stay until it goes. */
void central_model_comes(struct central_thread_core *core, int64_t now_ns, uint32_t model,
                         const struct central_model *told);
/* It has nothing queued, and gets nothing any more. False: a batch of it has not ended; ask again. */
bool central_model_goes(struct central_thread_core *core, uint32_t model);
void central_accelerator_comes(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator, uint8_t type);
/* No batch is sent there any more; those that were sent still end. */
void central_accelerator_leaves(struct central_thread_core *core, int64_t now_ns, uint32_t accelerator);

/* ---- requests and batches ---- */

/* ARRIVED: the pool must have a free node. Its model is there. CANCELLED: by handle and deadline. */
void central_request(struct central_thread_core *core, int64_t now_ns, const struct request_message *message);
/* A batch, a load or an unload that was taken is over. An accelerator's batches end in the order in which they were
 * sent, but for those that `take` gave up, which are told before anything changes (`sent` false). */
void central_action_ended(struct central_thread_core *core, int64_t now_ns, const struct central_ended *ended,
                          bool sent);
/* What is due by now. */
void central_look(struct central_thread_core *core, int64_t now_ns);
/* When to look, or to renew, next; TIME_NEVER. */
int64_t central_wake_ns(const struct central_thread_core *core);

/* How many accelerators the load needs, as the policy plans (central_ops.needed); negative: it does not say. */
double central_needed(const struct central_thread_core *core);
/* How models have moved between accelerators, by all plans since the first request. */
struct central_moves central_moves(const struct central_thread_core *core);

/* ---- another core for the policy ---- */

static inline bool central_renews(const struct central_thread_core *core, int64_t now_ns) {
    return core->change_ns <= now_ns;
}
/* The memory that the next core takes, as central_ops.bytes; 0: there is nothing to plan for. `ctrl_ns`: what
 * dispatching a batch takes. */
size_t central_renew_bytes(struct central_thread_core *core, int64_t now_ns, int64_t ctrl_ns);
/* Right afterwards: makes it, in zeroed memory of so many bytes, or none. Returns the memory of the one before, which
 * is the caller's again; or NULL. */
void *central_renew(struct central_thread_core *core, int64_t now_ns, void *memory);
/* Or later. Also whenever another core may do better. */
void central_renew_at(struct central_thread_core *core, int64_t at_ns);
