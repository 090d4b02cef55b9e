/* world.h - what is around the scheduler in a stress run: a world feeds requests to some of the model threads and owns
 * some of the accelerators. To the scheduler's threads it is a frontend and an executor. It has no thread of its own:
 * one driver takes all its turns (lab/stress/driver.h).
 *
 * A request is its handle: when it arrived, for which model, from which world. So feeding and finishing a request costs
 * no memory access of its own, and the checks take its deadline from the handle, not from the scheduler. */
#pragma once

#include "core/data/profile.h"
#include "lab/stress/slices.h"
#include "lab/stress/stress.h"
#include "sched/threads/wiring.h"

/* Requests of a world that came back; counted by all worlds, so on a cache line of its own. */
struct world_finished {
    _Alignas(CACHE_LINE) _Atomic uint64_t requests;
};

/* Written in the world's turns, read by anyone. */
struct world_counts {
    _Atomic uint64_t fed;         /* requests handed over */
    _Atomic uint64_t turned_away; /* others, because the scheduler was too far behind */
    _Atomic uint64_t planned;     /* in a batch */
    _Atomic uint64_t late;        /* of these: the batch ends after their deadline */
    _Atomic uint64_t lost;        /* of these: their accelerator died first; without those that are late anyway */
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
    int64_t epoch_ns; /* handles count from here */
    struct slicing slicing;
    uint32_t first_accelerator, accelerators; /* its own */
    struct world_finished *finished;          /* [worlds] */
};

struct world;

/* 0 or -ENOMEM with a sentence. */
int world_make(struct world **world, const struct world_config *config, struct sy_error *err);
/* NULL is fine. */
void world_free(struct world *world);

/* One turn: some plans, some ends of batches, one hand-over of requests; some microseconds. 0 if there was something to
 * do, else the time until which there may be nothing. A doorbell_turn. */
int64_t world_turn(void *world);
/* Nothing more is fed; from then on everything comes back. Any thread. */
void world_stop_feeding(struct world *world);
/* Whether all that it fed has come back, and the sample is ticked off. Any thread. */
bool world_drained(const struct world *world);

/* Any thread. */
const struct world_counts *world_counts(const struct world *world);
/* After its last turn: its slices. Requests that it counts as bad may have come from another world. */
const struct slice *world_slices(const struct world *world);
/* After its last turn: NULL, or a sentence on the first thing that was wrong. */
const char *world_verdict(struct world *world);
