/* goodput.h - the highest offered rate at which every model answers at least 99 % of its requests, and every pipeline
 * 99 % of its queries, in time. */
#pragma once

#include "lab/sim/sim.h"

#define GOODPUT_BAD_MOST 0.01
/* Share of the expected requests: no model is offered half as much again as expected. */
#define GOODPUT_GIVE_UP_BAD      0.015
#define GOODPUT_GUESS_TIMES_MOST 16 /* factor: highest rate of a search, over its guess */

/* The highest rate that holds, to `within` (0.01: 1 %), over from guess/1024 to `most`; 0 if none was found. `holds`
 * returns whether a rate holds: 1 or 0, or -1 to end the search with the highest rate that has held.
 *
 * A rate may fail by chance, or by a policy's nature, while a higher one holds. So after the boundary is bracketed and
 * bisected, rates up to 64 times `within` above it are tried, and if one of them holds the search goes on from that
 * rate: the search does not end at the lower edge of a narrow gap. If the guess fails, only lower rates are tried at
 * first. */
double goodput_search(int (*holds)(void *context, double rate_rps), void *context, double guess_rps, double within,
                      double most_rps);

/* Simulates one run at one rate, and gives it up as soon as the rate fails. 1: the rate holds; 0: it fails; -1: the run
 * was stopped (config->go_on). `memory` has goodput_bytes(). */
int goodput_try(const struct sim_config *config, double rate_rps, void *memory, struct sim_result *result);
/* Searches with simulated runs, each of one rate. `config`'s steps are not used. `memory` has goodput_bytes(). No rate
 * above 16 times the guess is tried. */
double goodput_find(const struct sim_config *config, double guess_rps, double within, void *memory);
/* Memory for a search that starts from guess_rps. */
size_t goodput_bytes(const struct sim_config *config, double guess_rps);
/* A rate to start from: 0.8 of the rate that the accelerators could serve with all batches as large as the SLOs allow.
 */
double goodput_guess(const struct sim_config *config);
