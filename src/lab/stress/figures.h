/* figures.h - what a stress run says: the difference between two moments of it, and what slices and pauses tell. */
#pragma once

#include "lab/stress/parts.h"

/* What has happened until a moment. */
struct moment {
    int64_t now_ns, cpu_ns[ROLES], work_ns[ROLES];
    uint64_t fed, turned_away, planned, late, lost, deaths, refused, batches, grants;
    struct histogram candidate, grant, plan, decision;
};

void moment_take(const struct stress *s, struct moment *moment);
/* Fills what follows from two moments; overwrites the second. */
void figures_between(const struct stress *s, const struct moment *from, struct moment *to,
                     struct stress_result *result);
/* After the drivers' last turns: the pauses between two times, and the slices that they left alone. 0 or -ENOMEM. */
int figures_undisturbed(const struct stress *s, int64_t from_ns, int64_t to_ns, struct stress_result *result);
