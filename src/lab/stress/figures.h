/* figures.h - the results of a stress run: the difference between two moments, and the figures of undisturbed slices.
 */
#pragma once

#include "lab/stress/parts.h"

/* The counts and times up to a moment. */
struct moment {
    int64_t now_ns, cpu_ns[ROLES], work_ns[ROLES];
    uint64_t fed, unsent, planned, late, lost, deaths, refused, batches, grants;
    struct histogram candidate, grant, plan, decision;
};

void moment_take(const struct stress *s, struct moment *moment);
/* Fills the part of the result that is the difference of two moments; overwrites the second. */
void figures_between(const struct stress *s, const struct moment *from, struct moment *to,
                     struct stress_result *result);
/* Fills the pauses between two times, and the figures of slices without pauses. Call it after the drivers' last turns.
 * 0 or -ENOMEM. */
int figures_undisturbed(const struct stress *s, int64_t from_ns, int64_t to_ns, struct stress_result *result);
