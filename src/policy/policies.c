/* policies.c - the table of policies. */
#include <string.h>

#include "policy/policy.h"

const struct policy_ops *const policies[] = {&policy_deferred, NULL};

const struct policy_ops *policy_find(const char *name) {
    for (const struct policy_ops *const *policy = policies; *policy; policy++)
        if (strcmp((*policy)->name, name) == 0)
            return *policy;
    return NULL;
}
