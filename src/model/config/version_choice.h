/* version_choice.h - which versions of a model are served: Triton's version_policy. Pure. */
#pragma once

#include <stdint.h>

#include "model/config/model_config.h"

#define VERSIONS_MAX 256        /* versions of a model; a model with more is refused */
#define VERSION_MAX  UINT32_MAX /* highest number of a version; a model with a higher one is refused */

/* Sorts `count` different versions, and chooses those to serve. `chosen` gets them, ascending; of SPECIFIC all, whether
 * they exist or not. Returns their number, at most VERSIONS_MAX. */
uint32_t versions_choose(const struct version_policy *policy, uint32_t *versions, uint32_t count,
                         uint32_t chosen[VERSIONS_MAX]);
