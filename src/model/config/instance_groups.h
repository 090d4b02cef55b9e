/* instance_groups.h - on what kind of accelerators a model is to run, from instance_group of its config.pbtxt. Any
 * thread; no state. */
#pragma once

#include <stdint.h>

#include "core/util/error.h"
#include "model/config/pbtxt.h"

enum instance_kind {
    INSTANCES_ANYWHERE, /* no group, KIND_AUTO, KIND_MODEL, or CPUs in one group and GPUs in another */
    INSTANCES_ON_CPUS,
    INSTANCES_ON_GPUS, /* KIND_GPU, or `gpus` are named */
};

#define INSTANCES_GPUS_NAMED 64 /* GPUs with higher numbers count in `gpus` only */

/* All zeros: config.pbtxt has no instance_group. */
struct instance_groups {
    enum instance_kind kind;
    uint32_t gpus;       /* highest number of a GPU that is named, plus 1; 0: none is named */
    uint64_t gpus_named; /* GPUs that are named, a bit each */
};

/* Reads the repeated field instance_group. `group` is the field's first value, checked for kind and range; NULL: there
 * is none. -EINVAL with file, line and column. */
int instance_groups_read(const char *origin, const struct pbtxt_node *group, struct instance_groups *groups,
                         struct sy_error *err);
