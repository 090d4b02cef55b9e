/* model_thread.h - the thread that holds the model cores of some models and speaks for them.
 *
 * It takes requests from the frontends, steps the cores, tells rank threads of candidates, and on a grant sends the
 * sealed batch to the executor. A served model whose inputs may have several shapes has one core per shape in use (a
 * variant), so that different shapes never share a batch. */
#pragma once

#include <pthread.h>

#include "sched/core/model_core.h"
#include "sched/threads/thread_rings.h"

struct model_thread_config {
    struct thread_rings_config rings;
    uint32_t types;
    bool learn; /* profiles are corrected by measured runs */
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
};

/* How long decisions take, in nanoseconds, until they are published; written by the thread, read by anyone. */
struct model_thread_times {
    struct histogram candidate; /* time from a request's hand-over to the candidate that counts the request (the slowest
                                 * of a turn, for all requests of the turn) */
    struct histogram plan;      /* time from a grant to the plan of its batch */
    struct histogram decision;  /* time from when a batch could have started to its plan */
};

struct model_thread;

/* Makes the cores of a served model before wiring_model_comes() makes it come. The model's variants have model numbers
 * that are not in use. Any thread, but only one at a time for a served model. config.rings.models must have had an
 * entry for the served model, with no variants. 0 or -ENOMEM. */
int model_thread_prepare(struct model_thread *thread, const struct thread_model *model);
/* Frees the cores that model_thread_prepare() made, of a model that has not come, or has gone; does nothing if there
 * are none. Any thread, but only one at a time for a served model. */
void model_thread_forget(struct model_thread *thread, struct place_id place);

/* Starts the thread. 0 or -errno with a sentence. */
int model_thread_start(struct model_thread **thread, const struct model_thread_config *config, struct sy_error *err);
/* Makes what model_thread_start() makes, but no thread: the caller calls model_thread_turn() again and again, from one
 * thread. Only where no thread sleeps (wiring_init()'s busy_poll), since nothing wakes the caller. */
int model_thread_make(struct model_thread **thread, const struct model_thread_config *config, struct sy_error *err);
/* One turn. A turn takes so few messages from each ring that it is over within some 100 us. Returns 0 if the turn had
 * something to do, else until when the thread may sleep (INT64_MIN: it is to stop). A doorbell_turn. */
int64_t model_thread_turn(void *thread);
/* Ends the thread and frees it. No request may be queued that a frontend waits for. */
void model_thread_stop(struct model_thread *thread);

/* The statistics of the thread. Any thread. */
const struct thread_rings *model_thread_rings(const struct model_thread *thread);
const struct model_thread_times *model_thread_times(const struct model_thread *thread);
int64_t model_thread_cpu_ns(const struct model_thread *thread);
