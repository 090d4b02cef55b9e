/* goodput.h - the highest offered rate at which every model answers at least 99 % of its requests in time, and
 * every pipeline of its queries. */
#pragma once

#include "lab/sim/sim.h"

#define GOODPUT_BAD_MOST         0.01
#define GOODPUT_GIVE_UP_BAD      0.015 /* of what is expected: no model is offered half as much again */
#define GOODPUT_GUESS_TIMES_MOST 16    /* how far a search looks above its guess */

/* The highest rate that holds, to `within` (0.01: 1 %), over from guess/1024 to `most`; 0 if none was found. `holds`
 * says 1 or 0 of a rate, or -1 to end the search with what it has.
 *
 * A rate may fail by chance, or by a policy's nature, while a higher one holds. So after the boundary is bracketed and
 * bisected, rates up to 64 times `within` above it are tried, and if one of them holds the search goes on from there:
 * what is returned is not the lower edge of a narrow gap. If the guess fails, only lower rates are tried at first. */
double goodput_search(int (*holds)(void *context, double rate_rps), void *context, double guess_rps, double within,
                      double most_rps);

/* One run at one rate, given up as soon as it fails. 1: it holds; 0; -1: it was stopped (config->go_on). `memory` is of
 * goodput_bytes(). */
int goodput_try(const struct sim_config *config, double rate_rps, void *memory, struct sim_result *result);
/* Searches with simulated runs, each of one rate. `config`'s steps are not used. `memory` is of goodput_bytes(). The
 * search looks no further than 16 times the guess. */
double goodput_find(const struct sim_config *config, double guess_rps, double within, void *memory);
/* Memory for a search that starts from guess_rps. */
size_t goodput_bytes(const struct sim_config *config, double guess_rps);
/* Where to start: 0.8 of what the accelerators could do with all batches as large as the SLOs allow. */
double goodput_guess(const struct sim_config *config);
