/* simulate_plot.h - the pictures of `symphony simulate`, by gnuplot. */
#pragma once

#include "lab/report/simulate_report.h"

/* Draws the distributions of latency of each model (the first ten) and of all together, with the SLOs. */
int simulate_plot_run(const struct simulation *simulation, const char *scenario_path, const char *path,
                      struct sy_error *err);
/* Draws rates, bad rate, latency and idle share over the values of the first key; a second key gives a line for each of
 * its values. `summaries` has one for each point. */
int simulate_plot_sweep(const struct sweep *sweeps, uint32_t sweep_count, const struct simulate_summary *summaries,
                        bool searched, const char *scenario_path, const char *path, struct sy_error *err);
