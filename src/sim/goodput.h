/* goodput.h - the highest offered rate at which every model answers at least 99 % of its requests in time. */
#pragma once

#include "sim/sim.h"

#define GOODPUT_BAD_MOST 0.01

/* Searches the rate to `within` (0.01: 1 %) from `guess_rps`, by doubling and halving. `config`'s steps are not used.
 * `memory` is of goodput_bytes(). 0 if even guess/1024 is too much. */
double goodput_find(const struct sim_config *config, double guess_rps, double within, void *memory);
/* Memory for a search that starts from guess_rps; it looks no further than 16 times the guess. */
size_t goodput_bytes(const struct sim_config *config, double guess_rps);
