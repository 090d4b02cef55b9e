/* executor.h - the thread of one accelerator, or of many emulated ones: takes sealed batches, gathers their inputs,
 * runs them, answers. */
#pragma once

#include <pthread.h>
#include <sched.h>

#include "engine/engine.h"
#include "repository/served_model.h"
#include "sched/wiring.h"

struct executor_config {
    struct wiring *wiring;
    uint32_t index;                           /* the executor's */
    uint32_t first_accelerator, accelerators; /* what it drives; several only if the engine emulates them */
    uint32_t type;                            /* theirs */
    const struct engine_ops *engine;
    struct engine_options options;
    struct served_model *models;           /* [model_count]; those MODEL_READY are loaded */
    const struct profile *const *profiles; /* [model_count] on this type; what the emulated engine sleeps */
    uint32_t model_count;
    bool shared; /* other threads of the server may need its core */
    double spin; /* after a batch it looks for the next for so many times what that took, before it sleeps */
    bool pin;
    cpu_set_t cores; /* with `pin` */
};

/* Counters of an accelerator; written by the executor, read by anyone. */
struct executor_counters {
    _Atomic uint64_t batches, items, requests, failed_batches, expired_batches, lost_batches;
    _Atomic uint64_t busy_ns; /* running batches */
};

struct executor;

/* Starts the thread, which opens the engine and loads the models. A model that fails to load becomes MODEL_UNAVAILABLE
 * with its reason. 0 or -errno with a sentence. */
int executor_start(struct executor **executor, const struct executor_config *config, struct sy_error *err);
/* Waits until everything is loaded: 0, or -errno with a sentence if the engine could not be opened. */
int executor_wait_ready(struct executor *executor, struct sy_error *err);
/* Ends the thread, after the batch that runs, and frees everything. */
void executor_stop(struct executor *executor);

/* Any thread. */
const struct executor_counters *executor_counters(const struct executor *executor, uint32_t accelerator);
