/* scheduler_metrics.h - what the scheduler's threads count and measure, as Prometheus' text. */
#pragma once

#include "core/data/advice.h"
#include "core/util/text.h"
#include "sched/core/central.h"
#include "sched/threads/model_thread.h"
#include "sched/threads/rank_thread.h"
#include "sched/threads/wiring.h"
#include "server/stats/shown_models.h"

/* Where a scheduler counts. The scheduler's threads write the counts, any thread reads them. */
struct scheduler_counters {
    const char *thread;                            /* name of the threads: "model" or "central" */
    const struct thread_rings *const *rings;       /* [threads] */
    const struct model_thread_times *const *times; /* [threads]; NULL: a central thread, which has none */
    uint32_t threads;
    const uint32_t *thread_of_served;       /* [served models] index of the thread that schedules the model */
    const struct rank_thread *const *ranks; /* [rank_threads] */
    uint32_t rank_threads;                  /* number of rank threads; 0: a central thread does their work */
    const struct wiring *wiring;            /* which accelerators each rank thread has, and which are in service */
    double needed; /* accelerators that the load needs by a central thread's plan; negative: not known */
    bool loads;    /* models are loaded and unloaded, as accelerators' memory is limited */
    const struct central_moves *moves; /* moves of models between accelerators; NULL: no model is bound to an
                                        * accelerator */
};

/* Notes where the scheduler has each model, whose `host` is its place: models that share their first layers are one
 * model for the scheduler. The list of models stays unchanged meanwhile. */
void scheduler_metrics_locate(const struct scheduler_counters *scheduler, struct shown_model *models, uint32_t count);
/* Writes for each model whether it is served, its SLO and profile, its queue and its batches. */
void scheduler_metrics_render_models(const struct scheduler_counters *scheduler, const struct shown_model *models,
                                     uint32_t count, struct text *out);
/* Accelerators that the load needs, where they are known, and grants of rank threads. */
void scheduler_metrics_render_ranks(const struct scheduler_counters *scheduler, struct text *out);
/* Writes the advised number of accelerators, in all and for each of several sub-clusters (of[subclusters]), and the bad
 * rate that led to it. Writes nothing before the first look. */
void scheduler_metrics_render_advice(int64_t wanted, const struct advice *of, uint32_t subclusters, double bad_rate,
                                     struct text *out);
/* Writes the scheduler's rows of symphony_margin_seconds. */
void scheduler_metrics_render_margins(const struct scheduler_counters *scheduler, struct text *out);
/* Writes how long decisions take. Writes nothing for a central thread. */
void scheduler_metrics_render_decisions(const struct scheduler_counters *scheduler, struct text *out);
