/* sweep.h - keys that take several values: `KEY=FROM:TO:STEP` or `KEY=a,b,c`, and their product. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/util/error.h"

#define SWEEP_KEYS_MAX   8
#define SWEEP_POINTS_MAX 100000 /* points of all keys together */

struct sweep {
    char *key;
    char **values; /* [count] values, as they are written in a scenario file */
    uint32_t count;
};

/* Reads one key with its values. A range includes its end if the steps meet it; a list is divided at commas outside of
 * brackets and quotes. -EINVAL with a sentence, -ENOMEM. Free it with sweep_free(), after an error, too. */
int sweep_parse(const char *text, struct sweep *sweep, struct sy_error *err);
void sweep_free(struct sweep *sweep);

/* The number of points of the product; 1 without sweeps; 0: more than SWEEP_POINTS_MAX. */
uint32_t sweep_points(const struct sweep *sweeps, uint32_t count);
/* The value of sweeps[which] at a point of the product; the last sweep changes fastest. */
const char *sweep_value(const struct sweep *sweeps, uint32_t count, uint32_t which, uint32_t point);
