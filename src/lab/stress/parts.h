/* parts.h - the parts of a stress run. For the files that build the run (stress.c) and measure it (figures.c). */
#pragma once

#include "core/data/profile.h"
#include "core/util/rng.h"
#include "lab/stress/driver.h"
#include "lab/stress/stress.h"
#include "lab/stress/world.h"
#include "sched/threads/model_thread.h"
#include "sched/threads/rank_thread.h"

struct stress {
    const struct stress_config *config;
    struct wiring wiring;
    struct profile *profile;
    uint8_t *accelerator_type;
    uint32_t model_threads, rank_threads, worlds; /* numbers of those made so far */
    struct model_thread **model_thread;           /* [config->model_threads] */
    struct rank_thread **rank_thread;             /* [config->rank_threads] */
    struct world **world;                         /* [wiring.frontends] */
    struct world_finished *finished;              /* [wiring.frontends] */
    int64_t epoch_ns;
    struct slicing slicing;
    /* passengers whose turns the drivers take; with config->sleep only the worlds, as the scheduler has threads of its
     * own */
    struct driver_seat *seats;
    uint32_t *driver_of_seat;
    uint32_t seat_count;
    struct driver **drivers; /* [driver_count] at most seat_count */
    uint32_t driver_count;   /* number of drivers started */
    struct rng rng;          /* random numbers for the choice of models that move */
    uint64_t moves;
};
