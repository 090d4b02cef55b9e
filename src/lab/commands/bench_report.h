/* bench_report.h - how `symphony bench` shows its results: table, JSON, plot. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/util/error.h"
#include "lab/commands/bench_server.h"
#include "lab/load/load.h"

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
    const bool *same_slo;              /* [models_count] whether the server uses the same SLO */
    const struct bench_server *server; /* the server's own figures */
    const struct bench_trial *trials;
    uint32_t models_count, trials_count;
    bool searched; /* whether there was a search: goodput_rps and trials are set */
    double goodput_rps;
    double seconds, warmup_s;
    uint32_t closed;
    uint64_t seed;
};

void bench_report_table(const struct bench_report *report, FILE *to);
/* Writes a JSON object. 0, -ENOMEM or -EIO. */
int bench_report_json(const struct bench_report *report, FILE *to);

/* Draws an SVG: the share of requests answered within each time; after a search the good rate over the offered rate. */
int bench_plot(const struct bench_report *report, const char *path, struct sy_error *err);

/* Adds all models' statistics to `all`, which the caller has zeroed before the first call. */
void bench_total(const struct bench_report *report, struct load_model_stats *all);
