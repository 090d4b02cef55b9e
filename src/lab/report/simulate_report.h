/* simulate_report.h - how `symphony simulate` shows its results: table, CSV, JSON, the lines of a sweep.
 *
 * A seed gives the same text on every machine: no wall time, numbers in a fixed format. Any thread. */
#pragma once

#include <stdint.h>

#include "core/util/text.h"
#include "lab/report/simulation.h"
#include "lab/report/sweep.h"

/* The figures for one line of a sweep, and for its plot. */
struct simulate_summary {
    double offered_rps, good_rps, goodput_rps; /* goodput_rps is set only after a search */
    double bad_rate, busy, batch_mean;
    double latency_p50_ms, latency_p99_ms, queue_p50_ms, queue_p99_ms;
};

/* A point of a sweep; count 0: there is no sweep. */
struct simulate_point {
    const struct sweep *sweeps;
    uint32_t count, number;
};

struct simulate_summary simulate_summarize(const struct simulation *simulation);

/* Tables for people. */
void simulate_table(const struct simulation *simulation, const char *path, struct text *to);
void simulate_sweep_head(const struct sweep *sweeps, uint32_t count, bool searched, struct text *to);
void simulate_sweep_line(const struct simulate_point *point, const struct simulate_summary *summary, bool searched,
                         struct text *to);
/* CSV: a line of names, then of each point a line for all models together (model "all") and one for each. 0 or -ENOMEM.
 */
void simulate_csv_head(const struct sweep *sweeps, uint32_t count, struct text *to);
int simulate_csv(const struct simulation *simulation, const struct simulate_point *point, struct text *to);
/* Writes one JSON object. 0 or -ENOMEM. */
int simulate_json(const struct simulation *simulation, const struct simulate_point *point, struct text *to);
