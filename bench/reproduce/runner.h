/* runner.h - a list of simulations, searches and other work of a figure, done on all cores. Each result depends only on
 * the work's own text, not on the number of threads. */
#pragma once

#include <stdint.h>

#include "figure.h"
#include "lab/report/simulate_report.h"

struct model_outcome {
    char name[SIM_NAME_MAX];
    uint64_t offered, good, dropped, late, cold; /* requests */
    uint64_t batches, batch_items, loads;
    double latency_p50_ms, latency_p99_ms, latency_max_ms;
};

/* The result of a simulation; of a search, that of the run at the rate found. All zero until simulate(). */
struct outcome {
    struct simulate_summary all; /* of all models; goodput_rps only of a search */
    double seconds;              /* measured */
    uint64_t offered, good, dropped, late, cold, loads;
    double worst_bad_rate; /* of a model */
    uint32_t accelerators, accelerators_used; /* the first: to begin with */
    double accelerators_mean;                 /* in service */
    struct sim_advice *advice;                /* [advice_count] with autoscale */
    uint32_t advice_count;
    struct central_moves placement;              /* of a policy that binds models to accelerators */
    struct sim_times latency, queueing;          /* of all models */
    uint64_t batch_sizes[PROFILE_BATCH_MAX + 1]; /* batches by their items, of all models */
    struct model_outcome *models;                /* [model_count], in the scenario's order */
    uint32_t model_count;
};

/* Adds a run at the scenario's rates. `base` is a scenario's text (docs/scenarios.md), or the path of one that ends in
 * .yaml; `sets` (printf) changes it: "KEY=VALUE; KEY=VALUE", which may be empty. Without a section `run` it is measured
 * for 30 s after 3 s; --quick takes 3 s after 1 s, unless `sets` has a `run.` of its own. `base` must outlive the
 * figure. */
const struct outcome *run_add(struct context *c, const char *base, const char *sets, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a search of goodput, to 1 % (--quick: 5 %); the scenario's rate is not used. */
const struct outcome *goodput_add(struct context *c, const char *base, const char *sets, ...)
    __attribute__((format(printf, 3, 4)));
/* As run_add(); `observer` (lab/sim/sim.h) is told what happens, on another thread. It must last until simulate(). */
const struct outcome *observed_add(struct context *c, const struct sim_observer *observer, const char *base,
                                   const char *sets, ...) __attribute__((format(printf, 4, 5)));
/* Adds other work that takes a while: `work` is called once, on another thread. */
void work_add(struct context *c, void (*work)(void *argument), void *argument);

/* Does all that was added since the last call, and fills the outcomes, which stay valid until the figure's end. */
void simulate(struct context *c);
