/* scheduler_metrics.h - what the scheduler's threads count and measure, as Prometheus' text. */
#pragma once

#include "core/data/advice.h"
#include "core/util/text.h"
#include "front/net/metric_text.h"
#include "sched/core/central.h"
#include "sched/threads/model_thread.h"
#include "sched/threads/rank_thread.h"
#include "sched/threads/wiring.h"

/* Where a scheduler counts. Written by its threads, read by any. */
struct scheduler_counters {
    const char *thread;                            /* "model", or "central": what its threads are called */
    const struct thread_rings *const *rings;       /* [threads] */
    const struct model_thread_times *const *times; /* [threads]; NULL: of a central thread there are none */
    uint32_t threads;
    const uint32_t *thread_of_served;       /* [served models] the thread that schedules each */
    const struct rank_thread *const *ranks; /* [rank_threads] */
    uint32_t rank_threads;                  /* 0: a central thread does their work */
    const struct wiring *wiring;            /* which accelerators each has, and which are in service */
    double needed; /* with a central thread: accelerators that it says the load needs; negative: it does not say */
    const struct central_moves *moves; /* of models between accelerators; NULL: none is bound to any */
};

/* A served model whose figures are shown. */
struct scheduled_model {
    uint32_t place; /* the model's number in the scheduler */
    bool ready;     /* false: it was set aside */
    int64_t slo_ns; /* 0: best effort */
    struct metric_model labels;
};

/* Of each model: whether it is served, what is expected of it, its queue and its batches. */
void scheduler_metrics_render_models(const struct scheduler_counters *scheduler, const struct scheduled_model *models,
                                     uint32_t count, struct text *out);
/* Requests that the scheduler gave back, by reason. */
void scheduler_metrics_render_refused(const struct scheduler_counters *scheduler, const struct scheduled_model *models,
                                      uint32_t count, struct text *out);
/* Accelerators that the load needs, where they are known, and grants of rank threads. */
void scheduler_metrics_render_ranks(const struct scheduler_counters *scheduler, struct text *out);
/* What the scheduler advises, for all and for each of several sub-clusters: of[parts]; and the bad rate by which it
 * does. Nothing before the first look. */
void scheduler_metrics_render_advice(int64_t wanted, const struct advice *of, uint32_t parts, double bad_rate,
                                     struct text *out);
/* Its rows of symphony_margin_seconds. */
void scheduler_metrics_render_margins(const struct scheduler_counters *scheduler, struct text *out);
/* How long deciding takes. Nothing for a central thread. */
void scheduler_metrics_render_decisions(const struct scheduler_counters *scheduler, struct text *out);
