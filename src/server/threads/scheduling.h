/* scheduling.h - the scheduling threads of this process, and where they schedule each served model. */
#pragma once

#include "sched/threads/central_thread.h"
#include "sched/threads/model_thread.h"
#include "sched/threads/rank_thread.h"
#include "server/threads/calibrate.h"
#include "server/threads/server_config.h"

/* Where a served model is scheduled. */
struct server_placement {
    uint32_t thread; /* index of the model's model thread; 0 with a central thread */
    struct thread_model_id thread_model;
    struct variant_id first_variant; /* the first of the model's variants, whose numbers are in a row */
    uint32_t variant_count;          /* 0: the model is not scheduled */
};

/* Owned by the thread that starts and stops the server; constant in between, but for the placements of models that come
 * and go. */
struct scheduling {
    struct wiring *wiring;
    const struct server_config *config;
    const struct calibration *calibration;
    struct server_placement *placements; /* [config.model_count] */
    struct model_thread *
        *model_threads; /* [wiring.model_threads] NULL: not in this process, or a central thread schedules */
    struct rank_thread *
        *rank_threads; /* [wiring.rank_threads] NULL: not in this process, or a central thread schedules */
    struct central_thread *central_thread; /* NULL: not in this process, or the policy is not central */
    struct decision_files *decisions;      /* logs of the scheduler's decisions; NULL: none */
    struct scheduler_link *link;           /* NULL: not a scheduler of a cluster */
};

/* Places the models: in threads and, in the wiring, in sub-clusters. 0 or -ENOMEM; free it in either case. */
int scheduling_init(struct scheduling *scheduling, struct wiring *wiring, const struct server_config *config,
                    const struct calibration *calibration);
/* Starts the threads. `type_of`: types of the wiring's accelerators. 0 or -errno with a sentence. */
int scheduling_start(struct scheduling *scheduling, const uint8_t *type_of, struct sy_error *err);
void scheduling_stop(struct scheduling *scheduling);
void scheduling_free(struct scheduling *scheduling);

/* Notes how requests to a model are scheduled: by itself, or with others whose first layers it shares. Before the model
 * is published. */
void scheduling_host(const struct scheduling *scheduling, uint32_t model);
/* The description of a model for its scheduling thread, except the model's numbers in the scheduler. */
struct thread_model scheduling_model(const struct scheduling *scheduling, uint32_t model);

/* The measurements and counters of a scheduling thread. */
static inline const struct thread_rings *scheduling_rings(const struct scheduling *s, uint32_t thread) {
    return s->central_thread ? central_thread_rings(s->central_thread) : model_thread_rings(s->model_threads[thread]);
}
/* The counters that its scheduling thread keeps of a place. They count nothing for a model that is scheduled with its
 * prefix. */
static inline const struct model_counters *scheduling_counters(const struct scheduling *s, uint32_t place) {
    const struct server_placement *p = &s->placements[place];
    return &scheduling_rings(s, p->thread)->counters[p->thread_model.n];
}
/* The number of sub-clusters that have a load of their own. */
static inline uint32_t scheduling_subclusters(const struct scheduling *s) {
    return s->central_thread ? 1 : s->wiring->rank_threads;
}
