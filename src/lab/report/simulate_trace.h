/* simulate_trace.h - a simulation as a timeline for Perfetto and chrome://tracing (front/v2/trace_put.h).
 *
 * Each model has a row with a mark for each refused request. Rows without events are left out.
 * Times are virtual, in microseconds from the start, warm-up included. */
#pragma once

#include <stdio.h>

#include "core/util/error.h"
#include "front/v2/trace_put.h"
#include "lab/scenario/scenario.h"
#include "lab/sim/sim.h"

struct simulate_trace_batch;

struct simulate_trace {
    FILE *to;
    const struct scenario *scenario;
    const uint8_t *accelerator_type;
    uint32_t accelerators;
    struct simulate_trace_batch *running; /* [accelerators] */
    bool *refused;                        /* [models] whether the model has a row for refused requests */
    struct text out;                      /* what the file does not have yet */
    struct trace_put trace;
    struct sim_observer observer;
};

/* Starts the file; the scenario and the cluster's tables must outlive it. -errno with a sentence. */
int simulate_trace_open(struct simulate_trace *trace, const char *path, const struct scenario *scenario,
                        const struct sim_config *config, struct sy_error *err);
/* Writes the end of the file, so that it is complete. */
int simulate_trace_close(struct simulate_trace *trace, const char *path, struct sy_error *err);
