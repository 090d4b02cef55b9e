/* policy.h - what a scheduling policy is: a const table of a few functions. One policy is one file that ends with its
 * table; the same object serves the live server and the simulator. */
#pragma once

#include <stdbool.h>

struct policy_options {
    bool consolidate; /* deferred: never start early just because accelerators are free (the paper's flat idle share) */
};

struct policy_ops {
    const char *name;
    const char *summary; /* one line for --help */
};

extern const struct policy_ops policy_deferred;

/* All policies, ended by NULL. */
extern const struct policy_ops *const policies[];
/* NULL if there is none of that name. */
const struct policy_ops *policy_find(const char *name);
