/* driver.h - a thread that takes the turns of a stress run's schedulers and worlds, which sit in it like passengers.
 *
 * With a core for each of them, each has a driver to itself. Where cores are fewer, the last driver takes the turns of
 * all that are left in a circle: a decision then waits for one turn of a world, some microseconds, and not for the
 * slice of milliseconds that the kernel would give to a thread on the same core.
 *
 * A driver that never sleeps sees when it was away: turns are bounded to some 100 us, so one that took longer than
 * PAUSE_NS was interrupted. (The CPU time of a thread does not tell: it goes on while a hypervisor has the core.) */
#pragma once

#include <sched.h>

#include "core/system/doorbell.h"
#include "core/util/error.h"
#include "core/util/histogram.h"
#include "lab/stress/slices.h"

#define PAUSE_NS   NS_PER_MS
#define PAUSES_MAX 65536 /* remembered of a driver: from the last of them on the rest of the run is one pause */

/* Who is driven. */
enum driver_role { ROLE_MODEL, ROLE_RANK, ROLE_WORLD, ROLES };

struct driver_seat {
    _Alignas(CACHE_LINE) doorbell_turn *turn;
    void *passenger;
    enum driver_role role;
    const struct histogram *times; /* written in its turns; NULL: none */
    struct histogram *times_until; /* [slices], zeroed by the caller: gets `times` as of the end of each slice */
    _Atomic uint64_t work_ns;      /* taken by turns that had something to do, pauses left out; anyone reads it */
};

struct driver_config {
    uint32_t index;
    cpu_set_t cores; /* that it keeps to; empty: any */
    bool sleeps;     /* until its passengers have something to do; pauses cannot be told then */
    int64_t epoch_ns;
    struct slicing slicing;
    struct driver_seat *seats; /* outlive it */
    uint32_t seat_count;
};

struct driver;

/* Starts the thread. 0 or -errno with a sentence. */
int driver_start(struct driver **driver, const struct driver_config *config, struct sy_error *err);
/* Ends the thread. Its pauses can be read until it is freed. */
void driver_stop(struct driver *driver);
/* NULL is fine. */
void driver_free(struct driver *driver);

/* CPU time of the running thread. */
int64_t driver_cpu_ns(const struct driver *driver);
/* After driver_stop(): in the order of time. */
const struct pause *driver_pauses(const struct driver *driver, uint32_t *count);
