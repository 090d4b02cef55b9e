/* policy_file.h - policies that lie outside of the program, each in a shared object (docs/policies.md).
 *
 * The source of such a policy includes this header and ends with POLICY_EXPORT(its table). What the file says is run as
 * part of the program: whoever names a file trusts it. */
#pragma once

#include <stddef.h>

#include "core/util/error.h"
#include "sched/core/central.h"
#include "sched/core/model_view.h"
#include "sched/core/policy.h"

/* What a shared object shows of itself: its policy, and the sizes of the structs that it was compiled with, which must
 * be the program's. */
struct policy_export {
    size_t sizes[8];
    const struct policy_ops *policy;
};

#define POLICY_SIZES                                                                                                   \
    {                                                                                                                  \
        sizeof(struct policy_ops), sizeof(struct policy_option), sizeof(struct model_view), sizeof(struct batch_view), \
            sizeof(struct cluster_view), sizeof(struct profile), sizeof(struct central_ops),                           \
            sizeof(struct central_output)                                                                              \
    }
#define POLICY_EXPORT(ops)                                                                                             \
    extern const struct policy_export symphony_policy;                                                                 \
    const struct policy_export symphony_policy = {.sizes = POLICY_SIZES, .policy = &(ops)}

/* Reads the argument of --policy, "NAME[:KEY=VALUE,...]", where NAME may be the path of a shared object, with a '/' in
 * it. Loads that and adds its policy to the table, for good. Writes the argument to `out` with the policy's name in
 * place of the path. For the thread that starts the program, before others look for policies. 0, or -EINVAL with a
 * sentence. */
int policy_file_resolve(const char *text, char *out, size_t bytes, struct sy_error *err);
