/* world.h - the world around the scheduler in a stress run: a world feeds requests to some of the model threads and
 * owns some of the accelerators. To the scheduler's threads a world is a frontend and an executor. A world has no
 * thread of its own: one driver takes all its turns (lab/stress/driver.h).
 *
 * A request is only its handle: time of arrival, model, world. Feeding and finishing a request thus costs no memory
 * access of its own, and the checks take its deadline from the handle, not from the scheduler. */
#pragma once

#include "core/data/profile.h"
#include "lab/stress/slices.h"
#include "lab/stress/stress.h"
#include "sched/threads/wiring.h"

/* The number of a world's requests that came back. All worlds count here, so it has a cache line of its own. */
struct world_finished {
    _Alignas(CACHE_LINE) _Atomic uint64_t requests;
};

/* Written in the world's turns, read by any thread. */
struct world_counts {
    _Atomic uint64_t fed;     /* requests handed over */
    _Atomic uint64_t unsent;  /* requests not handed over, since the scheduler was too far behind */
    _Atomic uint64_t planned; /* requests in batches */
    _Atomic uint64_t late;    /* planned requests whose batch ends after their deadline */
    _Atomic uint64_t lost;    /* planned requests, not late, whose accelerator died first */
    _Atomic uint64_t deaths;  /* deaths of accelerators */
    _Atomic uint64_t refused;
    _Atomic uint64_t batches;
    _Atomic uint64_t sampled; /* requests of the sample handed over */
    _Atomic uint64_t checked; /* requests of the sample that came back as they should */
};

struct world_config {
    const struct stress_config *stress;
    struct wiring *wiring;
    const struct profile *profile;
    uint32_t index, worlds;
    int64_t epoch_ns; /* time from which arrivals in handles count */
    struct slicing slicing;
    uint32_t first_accelerator, accelerators; /* range of the world's own accelerators */
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
/* From now on the world feeds no more requests, and all requests come back. Any thread. */
void world_stop_feeding(struct world *world);
/* Whether all requests that the world fed have come back, and all of the sample have been checked. Any thread. */
bool world_drained(const struct world *world);

/* Any thread. */
const struct world_counts *world_counts(const struct world *world);
/* The world's slices, after its last turn. Requests that a world counts as bad may have come from another world. */
const struct slice *world_slices(const struct world *world);
/* After the world's last turn: NULL, or a sentence about the first mistake. */
const char *world_verdict(struct world *world);
