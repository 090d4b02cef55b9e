/* scenario_sets.h - `--set KEY=VALUE`, as often as it is given: changes of a scenario (lab/scenario/scenario.h). */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "core/util/error.h"

#define SCENARIO_SETS_MAX 64

struct scenario_sets {
    const char *sets[SCENARIO_SETS_MAX]; /* [count] texts of the command line */
    uint32_t count;
};

/* Adds a change; for an OPTION_PARSED. 0, or -EINVAL with a sentence. */
static inline int scenario_sets_add(struct scenario_sets *sets, const char *text, struct sy_error *err) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return error_set(err, -EINVAL, "'%s': expected KEY=VALUE", text);
    if (sets->count == SCENARIO_SETS_MAX)
        return error_set(err, -EINVAL, "given more than %d times", SCENARIO_SETS_MAX);
    sets->sets[sets->count++] = text;
    return 0;
}
