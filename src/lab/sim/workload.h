/* workload.h - when requests and queries come in a simulation, and what they are: one stream a model or pipeline, a
 * function of the seed. */
#pragma once

#include "core/util/rng.h"
#include "lab/sim/sim.h"

#define GAPS_AHEAD 8

struct workload_stream {
    struct rng rng;
    const struct sim_config *config;
    const struct sim_model *model;
    double share;              /* of all requests */
    double at_s;               /* last arrival; exact, so that rounding does not add up */
    double rate, rate_until_s; /* the model's, and until when */
    uint32_t step;             /* of the rate, in force at at_s */
    bool phase_open;           /* nothing came yet */
    bool gaps_only;            /* nothing else is drawn, and gaps are exponential */
    uint32_t gaps_taken;       /* of those drawn ahead */
    double gaps[GAPS_AHEAD];
    struct trace_cursor cursor;
};

struct workload_request {
    int64_t arrival_ns, slo_ns;
    uint32_t items;
    uint8_t priority;
};

/* The sum of all models' and pipelines' shares. */
double workload_shares(const struct sim_config *config);
/* A model's requests, by its number, or, after the models, a pipeline's queries. */
const struct sim_model *workload_traffic(const struct sim_config *config, uint32_t number);
/* Sets up the stream of one of them; `shares` is the sum. `config` must outlive it. */
void workload_stream_init(struct workload_stream *stream, const struct sim_config *config, uint32_t number,
                          double shares);
/* Draws the next request. False when there is none before the end of the run. */
bool workload_stream_next(struct workload_stream *stream, struct workload_request *request);
