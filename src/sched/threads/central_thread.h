/* central_thread.h - the thread that holds a central policy (sched/core/central.h) and speaks for it with frontends and
 * executors; it takes the place of model threads and rank threads.
 *
 * Models and accelerators may come and go (central_thread_core.h). Where the accelerators' memory is limited, they load
 * what the policy orders; else all models are loaded on all accelerators that run them. A model whose inputs may have
 * several shapes runs its requests one by one: central policies have one queue a model. */
#pragma once

#include <pthread.h>

#include "sched/core/central.h"
#include "sched/threads/thread_rings.h"

struct central_thread_config {
    struct thread_rings_config rings;
    const uint8_t *accelerator_type; /* [wiring->accelerators] */
    uint32_t types;
    double price[CENTRAL_TYPES_MAX]; /* dollars an hour for an accelerator of each type; 0: not known */
    bool absent;                     /* accelerators come later, each with its type */
    bool limited;          /* accelerators have less memory than their models, and load what the policy orders */
    uint64_t memory_bytes; /* limited: memory for weights of each accelerator, unless they come later */
    uint64_t page_bytes;   /* limited: weights take whole pages of so many bytes */
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
};

struct central_thread;

/* Starts the thread. 0 or -errno with a sentence. */
int central_thread_start(struct central_thread **thread, const struct central_thread_config *config,
                         struct sy_error *err);
/* Makes what central_thread_start() makes, but no thread: the caller calls central_thread_turn() again and again, from
 * one thread. Only where no thread sleeps (wiring_init()'s busy_poll), since nothing wakes the caller. */
int central_thread_make(struct central_thread **thread, const struct central_thread_config *config,
                        struct sy_error *err);
/* One turn. Whether it had something to do. */
bool central_thread_turn(struct central_thread *thread);
/* Describes a served model before wiring_model_comes() makes it come. The caller keeps the model's profiles until the
 * model has gone. Any thread, but only one at a time for a served model. config.rings.models must have had an entry for
 * the served model, with no variants. */
void central_thread_prepare(struct central_thread *thread, const struct thread_model *model);
/* Ends the thread and frees it. No request may be queued that a frontend waits for. */
void central_thread_stop(struct central_thread *thread);
/* The statistics of the thread. Any thread. */
const struct thread_rings *central_thread_rings(const struct central_thread *thread);
/* How many accelerators the load needs, as the policy plans; negative: the policy does not say. Any thread. */
double central_thread_accelerators_needed(const struct central_thread *thread);
/* How many accelerators of a type there should be, as the policy has chosen; negative: it has chosen no pool. Any
 * thread. */
int32_t central_thread_type_wanted(const struct central_thread *thread, uint32_t type);
/* How models have moved between accelerators, without the waits (wait_ns, wait_max_ns). False: the policy binds no
 * models. Any thread. */
bool central_thread_moves(const struct central_thread *thread, struct central_moves *moves);
