/* world.h - what is around the scheduler in a stress run: a thread that feeds requests to some of the model threads and
 * owns some of the accelerators. To the scheduler's threads it is a frontend and an executor.
 *
 * A request is its handle: when it arrived, for which model, from which world. So feeding and finishing one costs no
 * memory access of its own, and the checks know its deadline from nobody but the handle. */
#pragma once

#include <pthread.h>

#include "profile/profile.h"
#include "sched/wiring.h"
#include "stress/stress.h"

/* Requests of a world that came back; counted by all of them, so on a cache line of its own. */
struct world_finished {
    _Alignas(CACHE_LINE) _Atomic uint64_t requests;
};

/* Written by the world's thread, read by anyone. */
struct world_counts {
    _Atomic uint64_t fed;         /* requests handed over */
    _Atomic uint64_t turned_away; /* others, because the scheduler was too far behind */
    _Atomic uint64_t planned;     /* in a batch */
    _Atomic uint64_t late;        /* of these: the batch ends after their deadline */
    _Atomic uint64_t lost;        /* of these: their accelerator died before, and they are not late anyway */
    _Atomic uint64_t deaths;      /* of accelerators */
    _Atomic uint64_t refused;
    _Atomic uint64_t batches;
    _Atomic uint64_t sampled;
    _Atomic uint64_t checked; /* requests of the sample that came back as they should */
};

struct world_config {
    const struct stress_config *stress;
    struct wiring *wiring;
    const struct profile *profile;
    uint32_t index, worlds;
    int64_t epoch_ns;                         /* handles count from here */
    uint32_t first_accelerator, accelerators; /* its own */
    struct world_finished *finished;          /* [worlds] */
};

struct world;

/* Starts the thread. 0 or -errno with a sentence. */
int world_start(struct world **world, const struct world_config *config, struct sy_error *err);
/* Nothing more is fed; from then on everything comes back. */
void world_stop_feeding(struct world *world);
/* Whether all that it fed has come back, and the sample is ticked off. */
bool world_drained(const struct world *world);
/* Ends the thread. Its counts and verdict can be read until it is freed. */
void world_stop(struct world *world);
void world_free(struct world *world);

const struct world_counts *world_counts(const struct world *world);
int64_t world_cpu_ns(const struct world *world);
/* After world_stop(): NULL, or a sentence on the first thing that was wrong. */
const char *world_verdict(struct world *world);
