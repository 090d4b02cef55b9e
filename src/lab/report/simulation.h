/* simulation.h - simulates one scenario: a run, or a search for its goodput and a run at that rate. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util/error.h"
#include "lab/scenario/scenario.h"
#include "lab/sim/cluster.h"

#define SIMULATION_TRIALS_MAX   128
#define SIMULATION_POLICY_BYTES 600

/* One rate of a search. A trial that fails is given up as soon as that is clear. */
struct simulation_trial {
    double rate_rps;
    bool held;
};

/* The progress of a simulation, for another thread to show. */
struct simulation_progress {
    _Atomic int64_t now_ns;  /* present time, in virtual time */
    _Atomic uint32_t trials; /* number of a search's trials so far; 0: none */
    const atomic_int *stop;  /* flag of the user; not 0: the simulation is to end */
};

struct simulation {
    struct scenario scenario;
    struct cluster cluster;
    void *memory;
    struct sim_result result;
    bool searched;
    double goodput_rps; /* goodput that the search found; 0: no rate held */
    struct simulation_trial trials[SIMULATION_TRIALS_MAX];
    uint32_t trial_count;
    uint64_t requests; /* simulated requests, trials and warm-up included */
};

/* Makes from "NAME:KEY=VALUE,..." (NAME may be a file: sched/threads/policy_file.h) the change that sets a scenario's
 * policy: "policy={name: NAME, KEY: VALUE, ...}". 0, or -EINVAL with a sentence if there is no such policy or option.
 */
int simulation_policy_set(const char *text, char set[SIMULATION_POLICY_BYTES], const struct policy_ops **policy,
                          struct sy_error *err);

/* Reads the scenario, changed by `sets`, and makes its cluster. -EINVAL with a sentence, -ENOMEM... Free it with
 * simulation_free(), after an error, too. */
int simulation_make(struct simulation *simulation, const char *path, const char *const *sets, uint32_t set_count,
                    struct sy_error *err);
/* As simulation_make(), from a text instead of a file; `origin` is its name in error messages. */
int simulation_make_text(struct simulation *simulation, const char *origin, const char *text, const char *const *sets,
                         uint32_t set_count, struct sy_error *err);
/* Runs at the scenario's rates, which it must have. 0; -ECANCELED: the run was stopped; -ENOMEM. */
int simulation_run(struct simulation *simulation, struct simulation_progress *progress,
                   const struct sim_observer *observer, struct sy_error *err);
/* Searches the goodput to `within`, then runs at that rate (at the last rate tried, if none held). */
int simulation_find(struct simulation *simulation, double within, struct simulation_progress *progress,
                    const struct sim_observer *observer, struct sy_error *err);
void simulation_free(struct simulation *simulation);
