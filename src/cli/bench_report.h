/* bench_report.h - how `symphony bench` shows what it measured: table, JSON, plot. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/bench_server.h"
#include "load/load.h"

/* One trial of a goodput search. */
struct bench_trial {
    double rate_rps, offered_rps, good_rps, bad_rate;
    int64_t p99_ns;
    bool held, gave_up;
};

struct bench_report {
    const char *url, *arrivals, *reuse;
    const struct load_model *models;
    const struct load_result *result;
    const bool *same_slo;              /* [models_count]: the server goes by the same SLO */
    const struct bench_server *server; /* what the server says of itself */
    const struct bench_trial *trials;
    uint32_t models_count, trials_count;
    bool searched; /* goodput_rps and trials mean something */
    double goodput_rps;
    double seconds, warmup_s;
    uint32_t closed;
    uint64_t seed;
};

void bench_report_table(const struct bench_report *report, FILE *to);
/* 0, or -ENOMEM or -EIO. */
int bench_report_json(const struct bench_report *report, FILE *to);

/* An SVG: share of requests answered within a time, or, after a search, good rate over offered rate. */
int bench_plot(const struct bench_report *report, const char *path, struct sy_error *err);

/* All models' statistics added up into `all`, which the caller zeroes or reuses as it is. */
void bench_total(const struct bench_report *report, struct load_model_stats *all);
