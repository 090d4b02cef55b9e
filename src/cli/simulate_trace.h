/* simulate_trace.h - a simulation as a timeline for Perfetto and chrome://tracing (Trace Event Format, JSON).
 *
 * One row an accelerator, grouped by type, with a box a batch (model and size), and a second one with a box a model
 * loaded; one row a model for the requests that were refused, each a mark. Only what happened appears. Times are
 * virtual, in microseconds from the start, warm-up included. */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "scenario/scenario.h"
#include "sim/sim.h"

struct simulate_trace_batch;

struct simulate_trace {
    FILE *to;
    const struct scenario *scenario;
    const uint8_t *accelerator_type;
    uint32_t accelerators;
    struct simulate_trace_batch *running; /* [accelerators] */
    bool *refused;                        /* [models] has a row */
    bool wrote;
    struct sim_observer observer;
};

/* Starts the file; the scenario and the cluster's tables must outlive it. -errno with a sentence. */
int simulate_trace_open(struct simulate_trace *trace, const char *path, const struct scenario *scenario,
                        const struct sim_config *config, struct sy_error *err);
/* Ends it, so that it is whole. */
int simulate_trace_close(struct simulate_trace *trace, const char *path, struct sy_error *err);
