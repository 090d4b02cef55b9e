/* model_thread.h - the thread that holds the model cores of some models and speaks for them.
 *
 * It takes requests from the frontends, steps the cores, sends candidates to the rank thread, and on a grant sends the
 * sealed batch to the executor. A served model whose inputs may have several shapes has one core per shape in use (a
 * variant), so that different shapes never share a batch. */
#pragma once

#include <pthread.h>

#include "base/histogram.h"
#include "base/margin.h"
#include "repository/served_model.h"
#include "sched/model_core.h"
#include "sched/wiring.h"

#define VARIANTS_MAX 32 /* input shapes of one model that may be queued at once; more are refused (REFUSAL_SHAPES) */

/* What the thread is told of a served model; constant. */
struct model_thread_model {
    uint32_t served_model;
    uint32_t first_variant, variant_count; /* range of the rank core's model indexes */
    const struct profile *profiles[ACCELERATOR_TYPES_MAX];
    uint32_t batch_max;
    int64_t slo_ns;
    int64_t data_ns; /* first value of what gathering an item takes */
};

struct model_thread_config {
    struct wiring *wiring;
    uint32_t index; /* of this thread */
    uint32_t types;
    const struct model_thread_model *models; /* those of this thread; copied */
    uint32_t model_count;
    uint32_t queue_max; /* requests queued over all its models */
    bool learn;         /* correct profiles from measured runs */
    int64_t ctrl_ns;    /* first value of what dispatching a batch takes */
    const struct policy_ops *policy;
    const struct policy_options *policy_options;
};

/* Statistics of one served model; written by the model thread, read by anyone. */
struct model_counters {
    _Atomic uint64_t refused_deadline, refused_queue_full, refused_shapes, cancelled;
    _Atomic int64_t latency_one_ns; /* l(1) in force, first type, of the variant that ran last */
    _Atomic uint32_t queued;        /* requests in its queues now */
    struct histogram batch_items;   /* of batches sealed */
    struct histogram run_ns;        /* of batches run */
};

struct model_thread;

/* Starts the thread. 0 or -errno with a sentence. */
int model_thread_start(struct model_thread **thread, const struct model_thread_config *config, struct sy_error *err);
/* Ends the thread, which must have nothing queued that anyone waits for, and frees it. */
void model_thread_stop(struct model_thread *thread);

/* Any thread: statistics. `model` counts within the thread's models. */
const struct model_counters *model_thread_counters(const struct model_thread *thread, uint32_t model);
const struct margin *model_thread_wake_margin(const struct model_thread *thread);
const struct margin *model_thread_dispatch_margin(const struct model_thread *thread);
/* delay(b) = ctrl + data*b as the cores of a model use it now. `model` counts within the thread's models. */
void model_thread_delays(const struct model_thread *thread, uint32_t model, int64_t *ctrl_ns, int64_t *data_ns);
