/* version_choice.h - which versions of a model are served: Triton's version_policy. Pure. */
#pragma once

#include <stdint.h>

#include "model/config/model_config.h"

#define VERSIONS_MAX 256        /* of a model; with more of them the model is refused */
#define VERSION_MAX  UINT32_MAX /* the highest number; a model with a higher one is refused */

/* Chooses among `count` different versions, which it sorts: `chosen` gets what is to be served, ascending, those of
 * SPECIFIC whether they are there or not. Returns how many, at most VERSIONS_MAX. */
uint32_t versions_choose(const struct version_policy *policy, uint32_t *versions, uint32_t count,
                         uint32_t chosen[VERSIONS_MAX]);
