/* workload.h - the requests and queries of a simulation, with their times of arrival: one stream for each model or
 * pipeline, a function of the seed. */
#pragma once

#include "core/util/rng.h"
#include "lab/sim/sim.h"

#define GAPS_AHEAD 8

struct workload_stream {
    struct rng rng;
    const struct sim_config *config;
    const struct sim_model *model;
    double share;              /* share of the stream in all requests and queries */
    double at_s;               /* time of the last arrival, not rounded, so that rounding does not add up */
    double rate, rate_until_s; /* rate of the stream, and the time until which it holds */
    uint32_t step;             /* index of the rate step in force at at_s */
    bool phase_open;           /* whether no request has come yet */
    bool gaps_only;            /* whether only gaps are drawn, and these are exponential */
    uint32_t gaps_taken;       /* number of gaps taken of those drawn ahead */
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
/* The mean number of items of a model's requests. */
double workload_items(const struct sim_config *config, uint32_t model);
/* The traffic of a stream: numbers below model_count are those of models, the next ones those of pipelines. */
const struct sim_model *workload_traffic(const struct sim_config *config, uint32_t number);
/* Sets up the stream of a model or pipeline (workload_traffic()); `shares` is workload_shares(). `config` must outlive
 * the stream. */
void workload_stream_init(struct workload_stream *stream, const struct sim_config *config, uint32_t number,
                          double shares);
/* Draws the next request. False when there is none before the end of the run. */
bool workload_stream_next(struct workload_stream *stream, struct workload_request *request);
