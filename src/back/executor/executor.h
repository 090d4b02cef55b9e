/* executor.h - the thread of one accelerator, or of many emulated ones: takes sealed batches, gathers their inputs,
 * runs them, answers. */
#pragma once

#include <pthread.h>
#include <sched.h>

#include "core/data/running.h"
#include "core/data/timeline.h"
#include "model/config/served_model.h"
#include "model/engine/engine.h"
#include "sched/threads/wiring.h"

struct executor_config {
    struct wiring *wiring;
    uint32_t index;                           /* number of the executor */
    uint32_t first_accelerator, accelerators; /* accelerators of the executor; several only if they are emulated */
    uint32_t type;                            /* type of these accelerators */
    const struct engine_ops *engine;
    struct engine_options options;
    struct served_model *models; /* [model_count] models; those that are MODEL_READY are loaded at the start */
    const struct profile *const *profiles; /* [model_count] profiles on this type; the emulated engine sleeps for the
                                            * profiled time */
    uint32_t model_count;
    struct running *running; /* record of the requests of each run of a real engine (running.h); NULL: none is kept */
    uint64_t memory_bytes; /* memory for models of each accelerator: what is loaded, the scheduler says; 0: every model
                            * is loaded for good */
    uint64_t page_bytes;   /* of a real engine: pages in which that memory is counted */
    double noise;          /* of emulated runs and loads: factor of rng_noisy() (core/util/rng.h) */
    struct timeline *timelines; /* [accelerators] what each did lately; NULL: nothing is kept */
    bool shared;                /* other threads of the server may need the executor's core */
    int64_t run_limit_ns;       /* least time after which any run is told to end; 0: RUN_LIMIT_NS */
    double spin;                /* multiple of a batch's duration for which the thread polls after it before sleeping */
    bool pin;                   /* the thread runs on `cores` only */
    cpu_set_t cores;
};

/* A run hangs if it takes longer than RUN_LIMIT_NS and longer than RUN_TIMES_MOST times the model's profile. A run that
 * hangs is told to end. If it has not ended RUN_STOP_NS later, its accelerator has failed. */
#define RUN_TIMES_MOST 20
#define RUN_LIMIT_NS   (10 * NS_PER_S)
#define RUN_STOP_NS    (5 * NS_PER_S)

struct executor;

/* Starts the thread, which opens the engine and loads the models that are MODEL_READY. A model that fails to load
 * becomes MODEL_UNAVAILABLE with its reason. 0 or -errno with a sentence. */
int executor_start(struct executor **executor, const struct executor_config *config, struct sy_error *err);
/* Waits until everything is loaded: 0, or -errno with a sentence if the engine could not be opened. */
int executor_wait_ready(struct executor *executor, struct sy_error *err);
/* Loads a model while the executor runs, runs a batch of each profiled size once, and runs the samples of its
 * model_warmup. For a thread that loads models, one at a time, once the executor is ready. The served model and its
 * profile are complete. 0 or -errno with the engine's sentence, -EINTR when `stop`, which may be NULL, becomes true.
 * After success the model is loaded but not resident: it is not run until a command makes it resident
 * (wiring_model_command()). */
int executor_load(struct executor *executor, struct place_id place, const _Atomic bool *stop, struct sy_error *err);
/* Frees the model of this number that is loaded but not resident, if there is one: a model that is not resident yet, or
 * a model of which the executor has answered that it no longer is. For the thread that calls executor_load(). */
void executor_unload(struct executor *executor, struct place_id place);
/* Called about every second, by one thread at a time. Stops a run that hangs. If the run does not stop, the run is
 * given up, with all batches of its accelerator, and another thread takes the place of the hanging one. If the run ends
 * later, the accelerator serves again. `ending`: runs get at most RUN_STOP_NS, and one more second to stop. */
void executor_watch(struct executor *executor, int64_t now_ns, bool ending);
/* Ends the thread, after the batch that runs, and frees everything; until then, does executor_watch() with `ending`.
 * -EBUSY: a run that was given up has not ended, so all that the run may read must stay: the executor, the models, the
 * requests' memory. Then try again later, or end the process without freeing these. */
int executor_stop(struct executor *executor);

/* The counters of an accelerator. Any thread. */
const struct executor_counters *executor_counters(const struct executor *executor, uint32_t accelerator);
