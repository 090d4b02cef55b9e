/* driver.h - a thread that takes the turns of a stress run's scheduling threads and worlds, its passengers.
 *
 * With a core for each passenger, each has a driver of its own. With fewer cores, the last driver takes the turns of
 * all passengers that are left, in a circle: a decision then waits for one turn of a world, some microseconds, and not
 * for the slice of milliseconds that the kernel would give to a thread on the same core.
 *
 * A driver that never sleeps notices pauses: turns are bounded to some 100 us, so a turn that took longer than PAUSE_NS
 * was interrupted. (The CPU time of a thread does not show pauses: it goes on while a hypervisor has the core.) */
#pragma once

#include <sched.h>

#include "core/system/doorbell.h"
#include "core/util/error.h"
#include "core/util/histogram.h"
#include "lab/stress/slices.h"

#define PAUSE_NS NS_PER_MS
/* Pauses that a driver remembers; from the last of them on the rest of the run is one pause. */
#define PAUSES_MAX 65536

/* The kinds of passengers. */
enum driver_role { ROLE_MODEL, ROLE_RANK, ROLE_WORLD, ROLES };

struct driver_seat {
    _Alignas(CACHE_LINE) doorbell_turn *turn;
    void *passenger;
    enum driver_role role;
    const struct histogram *times; /* histogram that is written in the passenger's turns; NULL: none */
    struct histogram *times_until; /* [slices] copies of `times` at the end of each slice; zeroed by the caller */
    _Atomic uint64_t work_ns;      /* time of turns that had something to do, without pauses; any thread reads it */
};

struct driver_config {
    uint32_t index;
    cpu_set_t cores; /* cores that the thread keeps to; empty: any */
    bool sleeps;     /* whether the thread sleeps until a passenger has something to do; pauses are then not known */
    int64_t epoch_ns;
    struct slicing slicing;
    struct driver_seat *seats; /* [seat_count] seats, which outlive the driver */
    uint32_t seat_count;
};

struct driver;

/* Starts the thread. 0 or -errno with a sentence. */
int driver_start(struct driver **driver, const struct driver_config *config, struct sy_error *err);
/* Ends the thread. Its pauses can be read until the driver is freed. */
void driver_stop(struct driver *driver);
/* NULL is allowed. */
void driver_free(struct driver *driver);

/* CPU time of the running thread. */
int64_t driver_cpu_ns(const struct driver *driver);
/* The driver's pauses in the order of time, after driver_stop(). */
const struct pause *driver_pauses(const struct driver *driver, uint32_t *count);
